"""Figures of two to nine lobes: a network with depthwise layers and SiLU, trained by lobes.py."""

import shutil

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
    trained = path.with_name("trained.onnx")
    if not trained.exists():
        raise FileNotFoundError(f"{trained} is not there: tools/quality/setup trains it")
    shutil.copy(trained, path)


def example(random, part):
    pixels, classes = lobes.pictures(1, random)
    return pixels, classes[0]


def outcome(outputs, truth):
    return np.array([outputs[0][0].argmax() == truth, 1])
