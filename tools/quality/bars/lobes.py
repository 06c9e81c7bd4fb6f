"""Figures of two to nine lobes: a network with depthwise layers and SiLU, trained by lobes.py."""

import lobes
import numpy as np
from rates import accuracy as rate

TITLE, METRIC, MODEL = "figures, depthwise layers and SiLU", "figures named rightly", "lobes"
TESTS, SAMPLES = 2000, 200
# What else decides what a test is.
MAKERS = ("lobes.py",)
# ONNX Runtime's own defaults as well: one scale for a tensor of weights.
TENSOR = True


def prepare(zoo, path):
    if not path.exists():
        raise FileNotFoundError(f"{path} is not there: `python tools/quality/lobes.py {path}` trains it")


def example(random, part):
    pixels, classes = lobes.pictures(1, random)
    return pixels, classes[0]


def outcome(outputs, truth):
    return np.array([outputs[0][0].argmax() == truth, 1])
