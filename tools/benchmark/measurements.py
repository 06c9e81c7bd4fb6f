"""The file of results: what it was measured on, and one line for each network, program and plan.

A line has `network`, `batch`, `sms` (multiprocessors; 0: the whole GPU), `program` and `machine` (a number among those of `run`),
`iterations`, and in microseconds `device` and `round_trip`, each with `min`, `median`, `p90` and `max`. Lines of Floe also name
`target` and `plan` (how kernels were chosen) and hold what `floec inspect` says of the plan: `steps`; `measured`, how many of them a
timing table chose; `recurrent`, how many are recurrent layers; `flops` and `bytes`, operations and bytes of all operands of all
steps; `expected`, the sum of its steps' expected times, and `predicted` and `dram`, the time and the bytes between level 2 and memory
that `floec inspect` predicts for the target; and of the model `elements`: numbers in its weights, inputs and outputs. `f16_error` is how
far the results in f16 are from PyTorch's in f32 on the CPU, of the same weights and inputs: length of the difference over that of the
reference (rounding.py), null where it is not finite. `error` stands in place of times. A network whose
name ends in `_int8` is the quantised form of the one without: 8-bit weights and activations.
"""

import json
import os
import pathlib

COST_MODEL, TIMING_TABLE = "cost model", "timing table"
QUANTISED = "_int8"
FLOE, PYTORCH, COMPILED = "floe", "pytorch", "torch.compile"


def spread(times):
    """Percentiles of a list of times, by nearest rank."""
    times = sorted(times)
    rank = lambda part: round(times[max(-(-int(part * 100) * len(times) // 100), 1) - 1], 3)
    return {"min": rank(0), "median": rank(0.5), "p90": rank(0.9), "max": rank(1)}


def key(line):
    """What a line is of."""
    return tuple(line.get(name) for name in ("network", "batch", "sms", "program", "target", "plan"))


class Results:
    def __init__(self, path):
        self.path = pathlib.Path(path)
        text = json.loads(self.path.read_text()) if self.path.exists() else {}
        self.run, self.lines = text.get("run", {}), text.get("results", [])

    def write(self):
        """Whole or not at all, a line of text for each line of results."""
        lines = ",\n  ".join(json.dumps(line, separators=(",", ":")) for line in self.lines)
        new = self.path.with_name(self.path.name + ".new")
        new.write_text(f'{{\n "run": {json.dumps(self.run)},\n "results": [\n  {lines}\n ]\n}}\n')
        os.replace(new, self.path)

    def add(self, line):
        self.lines = [other for other in self.lines if key(other) != key(line)] + [line]
        self.write()

    def find(self, **wanted):
        """The line with these values, if it holds times."""
        for line in self.lines:
            if "error" not in line and all(line.get(name) == value for name, value in wanted.items()):
                return line
        return None
