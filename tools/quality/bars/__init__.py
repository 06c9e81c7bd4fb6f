"""The bars: each a model with a known answer for every test.

A module has TITLE, METRIC, MODEL, TESTS and SAMPLES (how many by default), MAKERS (files that its examples come from),
`prepare(zoo, path)`, which writes the model,
`example(random, part)`, which makes an input and its truth for `part` "tests" or "samples", `outcome(outputs, truth)`, a row of
counts, and `rate(counts)`, which makes a rate of their sum.
"""

import importlib

from results import BARS as NAMES  # noqa: F401


def load(name):
    return importlib.import_module(f"bars.{name}")
