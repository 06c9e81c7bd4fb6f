"""Detection of characters, pasted into photographs at known places, sizes and turns."""

import numpy as np
from boxes import matched, overlap, suppressed
from drawing import CHINESE, LATIN, background, common_characters, fonts, line_of_text, spoilt
from models import fixed
from PIL import Image
from rates import f1 as rate

TITLE, METRIC, MODEL = "character detection", "F1 at an IoU of 0.5", "ddddocr-yolox-det"
TESTS, SAMPLES = 300, 64
# What else decides what a test is.
MAKERS = ("drawing.py", "boxes.py")
SIZE, STRIDES = 416, (8, 16, 32)
PHOTOGRAPHS = ("china", "flower", "coffee", "chelsea", "rocket", "brick", "grass", "gravel")
LETTERS = "ABDEFGHKMNPQRSTUVWXYZ23456789"
SCORE, SUPPRESSION = 0.25, 0.45


def prepare(zoo, path):
    fixed(zoo / f"{MODEL}.onnx", path, (1, 3, SIZE, SIZE))


def character(random, part):
    """One as a mask, turned, cut to its ink."""
    chinese = random.random() < 0.5
    packages, letters = (CHINESE, common_characters(part)) if chinese else (LATIN, LETTERS)
    files = fonts(packages)
    mask = line_of_text(letters[random.integers(len(letters))], files[random.integers(len(files))], int(random.integers(44, 80)))
    image = Image.fromarray((mask * 255).astype(np.uint8))
    turned = image.rotate(random.uniform(-35, 35), Image.Resampling.BICUBIC, expand=True)
    return np.asarray(turned.crop(turned.getbbox()), np.float32) / 255


def example(random, part):
    pixels = background(random, SIZE, SIZE, PHOTOGRAPHS)
    boxes = np.zeros((0, 4))
    for _ in range(random.integers(3, 7)):
        mask = character(random, part)
        height, width = mask.shape
        for _ in range(20):
            left, top = random.integers(2, SIZE - width - 2), random.integers(2, SIZE - height - 2)
            box = np.array([left, top, left + width, top + height], float)
            if not len(boxes) or overlap(box + [-6, -6, 6, 6], boxes).max() == 0:
                break
        else:
            continue
        place = pixels[top : top + height, left : left + width]
        # Ink that can be told from what is behind it.
        ground = place.mean((0, 1))
        ink = random.uniform(0, 1, 3)
        while abs(ink - ground).sum() < 0.7:
            ink = random.uniform(0, 1, 3)
        place[:] = place * (1 - mask[..., None]) + ink.astype(np.float32) * mask[..., None]
        boxes = np.vstack([boxes, box])
    pixels = spoilt(pixels, random, random.uniform(0, 1.2), random.uniform(0, 0.06))
    return np.ascontiguousarray(255 * pixels[..., ::-1].transpose(2, 0, 1)[None], np.float32), boxes


def decoded(raw):
    """Boxes in pixels and scores of YOLOX's output."""
    places, scales = [], []
    for stride in STRIDES:
        line = np.arange(SIZE // stride)
        x, y = np.meshgrid(line, line)
        places.append(np.stack([x.ravel(), y.ravel()], 1))
        scales.append(np.full((x.size, 1), stride))
    places, scales = np.concatenate(places), np.concatenate(scales)
    centres, extents = (raw[:, :2] + places) * scales, np.exp(np.minimum(raw[:, 2:4], 10)) * scales
    return np.concatenate([centres - extents / 2, centres + extents / 2], 1), raw[:, 4] * raw[:, 5:].max(1)


def outcome(outputs, truth):
    boxes, scores = decoded(outputs[0][0].astype(np.float64))
    sure = scores > SCORE
    return matched(suppressed(boxes[sure], scores[sure], SUPPRESSION), truth)
