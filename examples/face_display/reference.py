"""What tests/faces.rs expects: faces of a picture by ONNX Runtime and an independent decoder in NumPy.

    python examples/face_display/reference.py blazeface-front.onnx examples/face_display/astronaut.jpg
"""

import sys

import numpy as np
import onnxruntime
from PIL import Image

SIDE = 128


def letterbox(picture):
    """The picture in the middle of a square, as the network wants it; its scale and offset."""
    pixels = np.asarray(picture.convert("RGB"), np.float64)
    height, width, _ = pixels.shape
    scale = SIDE / max(width, height)
    offset = (SIDE - np.array([width, height]) * scale) / 2

    def taps(axis, extent):
        at = (np.arange(SIDE) + 0.5 - offset[axis]) / scale - 0.5
        first = np.floor(at).astype(int)
        inside = (at >= -0.5) & (at < extent - 0.5)
        return first.clip(0, extent - 1), (first + 1).clip(0, extent - 1), at - first, inside

    x0, x1, fx, in_x = taps(0, width)
    y0, y1, fy, in_y = taps(1, height)
    fx, fy = fx[None, :, None], fy[:, None, None]
    rows = [pixels[y][:, x0] * (1 - fx) + pixels[y][:, x1] * fx for y in (y0, y1)]
    image = (rows[0] * (1 - fy) + rows[1] * fy) / 127.5 - 1
    inside = in_y[:, None, None] & in_x[None, :, None]
    return np.where(inside, image, 0).astype(np.float32)[None], scale, offset


def anchors():
    grids = [(16, 2), (8, 6)]
    cells = [np.repeat(np.stack(np.mgrid[0:n, 0:n][::-1], -1).reshape(-1, 2), k, 0) for n, k in grids]
    return np.concatenate([(cell + 0.5) / n for cell, (n, _) in zip(cells, grids)])


def overlap(a, b):
    extent = np.minimum(a[2:4], b[2:4]) - np.maximum(a[:2], b[:2])
    shared = np.prod(extent.clip(0))
    return shared / (np.prod(a[2:4] - a[:2]) + np.prod(b[2:4] - b[:2]) - shared)


def faces(model, picture):
    image, scale, offset = letterbox(picture)
    session = onnxruntime.InferenceSession(model)
    outputs = {o.name: v[0] for o, v in zip(session.get_outputs(), session.run(None, {"input:0": image}))}
    by_shape = lambda *shapes: np.concatenate([next(v for v in outputs.values() if v.shape == s) for s in shapes])
    scores = 1 / (1 + np.exp(-by_shape((512, 1), (384, 1))[:, 0].astype(np.float64)))
    numbers = by_shape((512, 16), (384, 16)).astype(np.float64) / SIDE
    centre = numbers[:, :2] + anchors()
    points = numbers[:, 4:].reshape(-1, 6, 2) + anchors()[:, None]
    boxes = np.concatenate([centre - numbers[:, 2:4] / 2, centre + numbers[:, 2:4] / 2, points.reshape(-1, 12)], 1)
    left = [i for i in np.argsort(-scores, kind="stable") if scores[i] >= 0.5]
    while left:
        same = [i for i in left if i == left[0] or overlap(boxes[left[0]], boxes[i]) > 0.3]
        mean = np.average(boxes[same], axis=0, weights=scores[same]).reshape(8, 2)
        yield scores[left[0]], (mean * SIDE - offset) / scale
        left = [i for i in left if i not in same]


for score, points in faces(sys.argv[1], Image.open(sys.argv[2])):
    print(f"({score:.4f}, {np.round(points, 2).tolist()})")
