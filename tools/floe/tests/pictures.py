"""What Pillow, NumPy and pycocotools make of small pictures and masks: writes pictures.json beside this file, which pictures.rs reads.

usage: python tools/floe/tests/pictures.py
"""

import io
import json
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, ExifTags
from pycocotools import mask as coco


def orientations():
    """A JPEG of 3 × 2 plain blocks, EXIF data of each orientation, and what `exif_transpose` makes of the two together."""
    blocks = np.array([[[200, 30, 40], [30, 190, 60], [20, 40, 210]], [[220, 210, 20], [30, 200, 210], [120, 120, 120]]], np.uint8)
    picture = Image.fromarray(np.repeat(np.repeat(blocks, 8, 0), 8, 1))
    stored = io.BytesIO()
    picture.save(stored, "JPEG", quality=95, subsampling=0)
    turned = []
    for orientation in range(1, 9):
        for endian in "<>":
            exif = Image.Exif()
            exif.endian = endian
            exif[ExifTags.Base.Make] = "a camera"
            exif[ExifTags.Base.Orientation] = orientation
            both = io.BytesIO()
            picture.save(both, "JPEG", quality=95, subsampling=0, exif=exif)
            upright = np.asarray(ImageOps.exif_transpose(Image.open(both)))
            turned.append({"exif": exif.tobytes().hex(), "size": upright.shape[1::-1], "rgb": upright[4::8, 4::8].ravel().tolist()})
    return {"jpeg": stored.getvalue().hex(), "turned": turned}


def between_cells(points, extent):
    """Weights `[points, extent]` of the cells whose centres lie around points, bilinear; beyond the border the outermost counts."""
    at = np.clip(points - 0.5, 0, extent - 1)
    return np.maximum(0, 1 - np.abs(at[:, None] - np.arange(extent)[None]))


# A picture of 48 × 24 pixels in the middle of a frame of 40 × 40, of which the network sees 36 × 40 on 72 × 64 pixels.
PICTURE, WINDOW, CROP, SEEN, NETWORK = (48, 24), (0, 10, 40, 20), (4, 0, 36, 40), (0, 0, 72, 64), (72, 64)


def along(d, points, inputs, outputs):
    """Points of one rectangle (left, top, width, height) on another, along axis `d`."""
    return outputs[d] + (points - inputs[d]) * outputs[d + 2] / inputs[d + 2]


def run_lengths(digits):
    """A mask of the picture in COCO's uncompressed run lengths, which pycocotools reads back."""
    mask = np.array(list(digits), np.uint8).reshape(PICTURE[::-1])
    column_by_column = mask.ravel(order="F")
    ends = np.flatnonzero(np.diff(column_by_column)) + 1
    counts = np.diff(np.concatenate([[0], ends, [mask.size]])).tolist()
    # The first run is of pixels that do not belong to it.
    counts = [0, *counts] if column_by_column[0] else counts
    runs = {"size": list(mask.shape), "counts": counts}
    assert (coco.decode(coco.frPyObjects(runs, *mask.shape)) == mask).all()
    return runs


def masks():
    """Masks as Ultralytics' `process_mask_native` and torchvision's `paste_masks_in_image` make them, at the picture's pixels."""
    draw = np.random.default_rng(7)
    prototypes = draw.normal(size=(4, 16, 18)).round(2)
    boxes = np.array([[10, 20, 40, 44], [0, 0, 72, 64], [50, 30, 71, 47]], np.float64)
    coefficients = draw.normal(size=(3, 4)).round(2)
    whole = (0, 0, *PICTURE)
    pixels = [np.arange(extent) + 0.5 for extent in PICTURE]
    cells, corners = [], boxes.copy()
    for d in range(2):
        network = along(d, along(d, pixels[d], whole, WINDOW), CROP, SEEN)
        cells.append(network * prototypes.shape[2 - d] / NETWORK[d])
        corners[:, d::2] = along(d, along(d, corners[:, d::2], SEEN, CROP), WINDOW, whole)
    evidence = np.einsum("nk,khw->nhw", coefficients, prototypes)
    across, down = between_cells(cells[0], 18), between_cells(cells[1], 16)
    of_prototypes = np.einsum("yh,nhw,xw->nyx", down, evidence, across) > 0

    probabilities = draw.uniform(size=(3, 1, 5, 7)).round(2)
    of_boxes = []
    for box, (probability,) in zip(corners, probabilities):
        # A ring of zeros around them, as torchvision's expand_masks has it.
        padded = np.pad(probability, 1)
        weights = []
        for d, extent in ((0, 7), (1, 5)):
            weights.append(between_cells((pixels[d] - box[d]) * extent / (box[d + 2] - box[d]) + 1, extent + 2))
        of_boxes.append(weights[1] @ padded @ weights[0].T > 0.5)

    def inside(all_pixels):
        clear = []
        for box, mask in zip(corners, all_pixels):
            x, y = pixels
            clear.append(mask & (x > box[0]) & (x < box[2]) & (y[:, None] > box[1]) & (y[:, None] < box[3]))
        return ["".join(map(str, mask.astype(int).ravel())) for mask in clear]

    scores = np.tile(np.array([0.5, 1.0]), (3, 1))
    clear = {"of_prototypes": inside(of_prototypes), "of_boxes": inside(np.array(of_boxes))}
    return {
        "boxes": np.hstack([boxes, scores, coefficients]).ravel().tolist(),
        "plain_boxes": np.hstack([boxes, scores]).ravel().tolist(),
        "prototypes": prototypes.ravel().tolist(),
        "probabilities": probabilities.ravel().tolist(),
        **clear,
        "run_lengths": {name: [run_lengths(digits) for digits in masks] for name, masks in clear.items()},
    }


def main():
    results = {"orientations": orientations(), "masks": masks()}
    Path(__file__).with_suffix(".json").write_text(json.dumps(results, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
