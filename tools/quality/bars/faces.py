"""Faces of the LFW subset in scikit-image, pasted into photographs at known places, sizes and in known light."""

import numpy as np
from boxes import matched, overlap, suppressed
from drawing import background, planes, resized, spoilt
from models import fixed
from rates import f1 as rate

TITLE, METRIC, MODEL = "faces", "F1 at an IoU of 0.5", "blazeface-front"
TESTS, SAMPLES = 1000, 100
# What else decides what a test is.
MAKERS = ("drawing.py", "boxes.py")
SIZE = 128
PHOTOGRAPHS = ("china", "flower", "coffee", "rocket", "brick", "grass", "gravel")
SCORE, SUPPRESSION = 0.5, 0.3


def prepare(zoo, path):
    fixed(zoo / f"{MODEL}.onnx", path, (1, SIZE, SIZE, 3))


def face(random, part):
    """A grey face; those of the tests are not those of the samples."""
    import skimage.data

    return skimage.data.lfw_subset()[2 * random.integers(50) + (part == "tests")]


def example(random, part):
    pixels = background(random, SIZE, SIZE, PHOTOGRAPHS)
    boxes = np.zeros((0, 4))
    for _ in range(random.integers(1, 3)):
        extent = int(random.integers(28, 64))
        for _ in range(20):
            left, top = random.integers(0, SIZE - extent, 2)
            box = np.array([left, top, left + extent, top + extent], float)
            if not len(boxes) or overlap(box, boxes).max() == 0:
                break
        else:
            continue
        patch = resized(np.stack([face(random, part)] * 3, -1), extent, extent)
        line = np.linspace(-1, 1, extent, dtype=np.float32)
        # Light from a side, of some colour and strength.
        slope = random.uniform(-0.35, 0.35, 2)
        light = 1 + slope[0] * line[None, :, None] + slope[1] * line[:, None, None]
        patch = patch * light * random.uniform(0.5, 1.3) * (1 + random.uniform(-0.1, 0.1, 3)) + random.uniform(-0.05, 0.1)
        # An oval with a soft edge.
        oval = np.clip((1.25 - np.hypot(line[None], line[:, None])) / 0.15, 0, 1)[..., None]
        place = pixels[top : top + extent, left : left + extent]
        place[:] = place * (1 - oval) + np.clip(patch, 0, 1) * oval
        boxes = np.vstack([boxes, box])
    pixels = spoilt(pixels, random, random.uniform(0, 0.8), random.uniform(0, 0.05))
    return np.ascontiguousarray((2 * pixels - 1)[None], np.float32), boxes


def decoded(outputs):
    """Boxes in pixels and scores: anchors of 2 at each of 16 x 16 places and 6 at each of 8 x 8."""
    scores = [outputs[0][0, :, 0], outputs[1][0, :, 0]]
    raw = [outputs[2][0], outputs[3][0]]
    places = []
    for cells, anchors in ((16, 2), (8, 6)):
        line = (np.arange(cells) + 0.5) * SIZE / cells
        x, y = np.meshgrid(line, line)
        places.append(np.repeat(np.stack([x.ravel(), y.ravel()], 1), anchors, 0))
    raw, places = np.concatenate(raw).astype(np.float64), np.concatenate(places)
    centres, extents = raw[:, :2] + places, raw[:, 2:4]
    scores = 1 / (1 + np.exp(-np.clip(np.concatenate(scores).astype(np.float64), -80, 80)))
    return np.concatenate([centres - extents / 2, centres + extents / 2], 1), scores


def outcome(outputs, truth):
    boxes, scores = decoded(outputs)
    sure = scores > SCORE
    return matched(suppressed(boxes[sure], scores[sure], SUPPRESSION), truth)
