"""Text recognition: strings in many fonts, sizes, colours, blurs and noises; right where every character is."""

import numpy as np
import onnx
from drawing import CHINESE, LATIN, colours, common_characters, fonts, line_of_text, painted, planes, resized, spoilt, words
from models import fixed
from rates import accuracy as rate

TITLE, METRIC, MODEL = "text recognition", "strings read exactly", "ppocrv6-rec-small"
TESTS, SAMPLES = 1000, 100
# What else decides what a test is.
MAKERS = ("drawing.py",)
HEIGHT, WIDTH = 48, 320
characters = []


def prepare(zoo, path):
    fixed(zoo / f"{MODEL}.onnx", path, (1, 3, HEIGHT, WIDTH))
    # The model carries its dictionary. Class 0 is the blank of CTC, the last one a space.
    [listed] = [entry.value for entry in onnx.load(path).metadata_props if entry.key == "character"]
    characters[:] = ["", *listed.split("\n"), " "]


def text(random, part):
    """Words, numbers, dates, prices and codes, and Chinese in one of four."""
    pick = lambda values: values[random.integers(len(values))]
    kind = random.integers(8)
    if kind < 2:
        return "".join(pick(common_characters(part)) for _ in range(random.integers(2, 7))), CHINESE
    if kind < 5:
        word = pick(words(part))
        return (word, word.capitalize(), word.upper())[kind - 2], LATIN
    if kind == 5:
        return f"{random.integers(1980, 2040)}-{random.integers(1, 13):02}-{random.integers(1, 29):02}", LATIN
    if kind == 6:
        return f"{pick('$£¥')}{random.integers(1, 10000)}.{random.integers(100):02}", LATIN
    letters = "".join(pick("ABCDEFGHJKLMNPQRSTUVWXYZ") for _ in range(random.integers(2, 4)))
    return f"{letters}-{random.integers(100, 100000)}", LATIN


def example(random, part):
    written, packages = text(random, part)
    files = fonts(packages)
    mask = line_of_text(written, files[random.integers(len(files))], int(random.integers(10, 44)), random.integers(1, 6, 2))
    pixels = painted(mask, *colours(random, 0.25))
    height = len(pixels)
    pixels = spoilt(pixels, random, random.uniform(0, 0.04) * height, random.uniform(0, 0.12))
    width = min(WIDTH, max(8, round(pixels.shape[1] * HEIGHT / height)))
    whole = np.zeros((1, 3, HEIGHT, WIDTH), np.float32)
    # Blue first; the rest of the width is zero, as PP-OCR pads.
    whole[..., :width] = planes(resized(pixels, width, HEIGHT), 0.5, 0.5, swap=True)
    return whole, written


def read(scores):
    """The best class at each place, repetitions and blanks left out."""
    best = scores.argmax(-1)
    kept = best[np.insert(best[1:] != best[:-1], 0, True)]
    return "".join(characters[index] for index in kept)


def outcome(outputs, truth):
    return np.array([read(outputs[0][0]) == truth, 1])
