"""Rates of counted outcomes, and how sure they are."""

import numpy as np

RESAMPLES = 2000


def resampled(counts, rate, seed=0):
    """Rates of as many tests drawn with repetition. `counts` (tests, columns) or several such arrays, which are drawn alike."""
    random = np.random.default_rng(seed)
    tests = counts.shape[-2]
    # How often each test is drawn; the same for all methods: a paired bootstrap.
    drawn = random.multinomial(tests, np.full(tests, 1 / tests), RESAMPLES)
    return np.apply_along_axis(rate, -1, drawn @ counts)


def interval(values):
    """The middle 95 % of them."""
    return [round(float(value), 2) for value in np.percentile(values, [2.5, 97.5])]


def compared(counts, base, rate):
    """What results files hold of a method: its rate, and the difference from `base` on the same tests, with intervals."""
    both = np.stack([counts, base]).astype(np.float64)
    own, others = resampled(both, rate)
    value, reference = (rate(of.sum(0)) for of in both)
    return {
        "rate": round(float(value), 2),
        "interval": interval(own),
        "difference": round(float(value - reference), 2),
        "difference_interval": interval(own - others),
    }


def accuracy(counts):
    """Per cent of columns (right, all)."""
    right, everything = counts
    return 100 * right / everything if everything else 0.0


def f1(counts):
    """F1 in per cent of columns (found, found wrongly, missed)."""
    found, wrong, missed = counts
    return 200 * found / (2 * found + wrong + missed) if found else 0.0
