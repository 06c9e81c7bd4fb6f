"""How a page of text is turned: by 0, 90, 180 or 270 degrees."""

import numpy as np
from drawing import LATIN, colours, fonts, line_of_text, planes, resized, spoilt, words
from models import fixed
from rates import accuracy as rate

TITLE, METRIC, MODEL = "orientation of pages", "pages judged rightly", "pplcnet-orientation"
TESTS, SAMPLES = 600, 100
# What else decides what a test is.
MAKERS = ("drawing.py",)
SIZE, PAGE = 224, 448
MEAN, SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def prepare(zoo, path):
    fixed(zoo / f"{MODEL}.onnx", path, (1, 3, SIZE, SIZE))


def page(random, part):
    """A page of ragged lines as a mask."""
    files, known = fonts(LATIN), words(part)
    path, size = files[random.integers(len(files))], int(random.integers(14, 34))
    mask = np.zeros((PAGE, PAGE), np.float32)
    top, left = int(random.integers(0, 40)), int(random.integers(4, 40))
    while top + 2 * size < PAGE:
        written = " ".join(known[random.integers(len(known))] for _ in range(random.integers(1, 7))).capitalize()
        line = line_of_text(written, path, size)[: PAGE - top, : PAGE - left]
        mask[top : top + len(line), left : left + line.shape[1]] = line
        top += int(size * random.uniform(1.3, 1.7))
    return mask


def example(random, part):
    mask = page(random, part)
    ground, ink = colours(random, 0.3)
    pixels = ground * (1 - mask[..., None]) + ink * mask[..., None]
    turns = int(random.integers(4))
    pixels = resized(np.rot90(pixels, -turns), SIZE, SIZE)
    pixels = spoilt(pixels, random, random.uniform(0, 1.2), random.uniform(0, 0.1))
    return planes(pixels, MEAN, SPREAD), turns


def outcome(outputs, truth):
    return np.array([outputs[0][0].argmax() == truth, 1])
