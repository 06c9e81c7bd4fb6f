"""Which way up a line of text is: upright, or turned by 180 degrees."""

import numpy as np
from bars.text import text
from drawing import colours, fonts, line_of_text, painted, planes, resized, spoilt
from models import fixed
from rates import accuracy as rate

TITLE, METRIC, MODEL = "direction of lines", "lines judged rightly", "ppocr-cls-mobilev2"
TESTS, SAMPLES = 1000, 100
# What else decides what a test is.
MAKERS = ("drawing.py", "bars/text.py")
HEIGHT, WIDTH = 48, 192


def prepare(zoo, path):
    fixed(zoo / f"{MODEL}.onnx", path, (1, 3, HEIGHT, WIDTH))


def example(random, part):
    written, packages = text(random, part)
    files = fonts(packages)
    mask = line_of_text(written, files[random.integers(len(files))], int(random.integers(16, 40)), random.integers(1, 6, 2))
    pixels = painted(mask, *colours(random, 0.35))
    pixels = spoilt(pixels, random, random.uniform(0, 0.025) * len(pixels), random.uniform(0, 0.07))
    turned = int(random.integers(2))
    pixels = np.rot90(pixels, 2 * turned)
    width = min(WIDTH, max(8, round(pixels.shape[1] * HEIGHT / len(pixels))))
    whole = np.zeros((1, 3, HEIGHT, WIDTH), np.float32)
    whole[..., :width] = planes(resized(pixels, width, HEIGHT), 0.5, 0.5, swap=True)
    return whole, turned


def outcome(outputs, truth):
    return np.array([outputs[0][0].argmax() == truth, 1])
