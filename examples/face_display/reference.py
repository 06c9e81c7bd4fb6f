"""What tests/faces.rs expects: faces of a picture by ONNX Runtime and an independent decoder in NumPy.

    python examples/face_display/reference.py blazeface-front.onnx examples/face_display/astronaut.jpg
"""

import sys

import numpy as np
import onnxruntime
from PIL import Image

SIDE = 128


def scaled(picture):
    """The picture, which must be square, as the network wants it (bilinear, half-pixel centres); its scale."""
    pixels = np.asarray(picture.convert("RGB"), np.float64)
    extent = len(pixels)
    assert pixels.shape == (extent, extent, 3)
    at = ((np.arange(SIDE) + 0.5) * extent / SIDE - 0.5).clip(0, extent - 1)
    first = np.floor(at).astype(int)
    second, part = (first + 1).clip(0, extent - 1), at - first
    rows = pixels[first] * (1 - part[:, None, None]) + pixels[second] * part[:, None, None]
    image = rows[:, first] * (1 - part[:, None]) + rows[:, second] * part[:, None]
    return (image / 127.5 - 1).astype(np.float32)[None], SIDE / extent


def anchors():
    grids = [(16, 2), (8, 6)]
    cells = [np.repeat(np.stack(np.mgrid[0:n, 0:n][::-1], -1).reshape(-1, 2), k, 0) for n, k in grids]
    return np.concatenate([(cell + 0.5) / n for cell, (n, _) in zip(cells, grids)])


def overlap(a, b):
    extent = np.minimum(a[2:4], b[2:4]) - np.maximum(a[:2], b[:2])
    shared = np.prod(extent.clip(0))
    return shared / (np.prod(a[2:4] - a[:2]) + np.prod(b[2:4] - b[:2]) - shared)


def faces(model, picture):
    image, scale = scaled(picture)
    session = onnxruntime.InferenceSession(model)
    outputs = {o.name: v[0] for o, v in zip(session.get_outputs(), session.run(None, {"input:0": image}))}
    by_shape = lambda *shapes: np.concatenate([next(v for v in outputs.values() if v.shape == s) for s in shapes])
    scores = 1 / (1 + np.exp(-by_shape((512, 1), (384, 1))[:, 0].astype(np.float64)))
    numbers = by_shape((512, 16), (384, 16)).astype(np.float64) / SIDE
    centre = numbers[:, :2] + anchors()
    points = numbers[:, 4:].reshape(-1, 6, 2) + anchors()[:, None]
    boxes = np.concatenate([centre - numbers[:, 2:4] / 2, centre + numbers[:, 2:4] / 2, points.reshape(-1, 12)], 1)
    left = [i for i in np.argsort(-scores, kind="stable") if scores[i] > 0.5]
    while left:
        best = left[0]
        yield scores[best], boxes[best].reshape(8, 2) * SIDE / scale
        left = [i for i in left[1:] if overlap(boxes[best], boxes[i]) <= 0.3]


for score, points in faces(sys.argv[1], Image.open(sys.argv[2])):
    print(f"({score:.4f}, {np.round(points, 2).tolist()})")
