"""Boxes as (left, top, right, bottom) against known ones."""

import numpy as np


def overlap(one, many):
    """Intersection over union of a box with others."""
    low, high = np.maximum(one[:2], many[:, :2]), np.minimum(one[2:], many[:, 2:])
    common = np.prod(np.maximum(high - low, 0), axis=1)
    area = lambda boxes: np.prod(boxes[..., 2:] - boxes[..., :2], axis=-1)
    return common / np.maximum(area(one) + area(many) - common, 1e-9)


def suppressed(boxes, scores, most):
    """Boxes in order of their scores without those that overlap a better one by more than `most`."""
    order, kept = np.argsort(-scores, kind="stable"), []
    while order.size:
        kept.append(order[0])
        order = order[1:][overlap(boxes[order[0]], boxes[order[1:]]) <= most]
    return boxes[kept]


def matched(found, known, least=0.5):
    """Counts for F1: found, found wrongly, missed. Each known box is found once."""
    free, right = np.ones(len(known), bool), 0
    for box in found:
        shares = np.where(free, overlap(box, known), -1) if len(known) else np.zeros(0)
        if len(shares) and shares.max() >= least:
            free[shares.argmax()] = False
            right += 1
    return np.array([right, len(found) - right, len(known) - right])
