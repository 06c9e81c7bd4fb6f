"""The file of results: what it is of, and one line a try."""

import os
import re
from pathlib import Path

FILE = Path(__file__).parent / "results.tsv"
# Packages whose versions decide a result.
PACKAGES = ["torch", "onnx", "onnxruntime", "timm", "torchvision", "ultralytics", "transformers"]
FIELDS = ["source", "network", "exporter", "status", "nodes", "compile", "difference", "detail"]
# What becomes of a graph that ONNX Runtime runs.
PASSED = "ok"
FAILED = {
    "wrong": "differs from ONNX Runtime",
    "refused": "`floec` refuses it",
    "crash": "`floec` or `floe` ends otherwise",
    "slow": "`floec` or `floe` reaches the time limit",
    "sensitive": "ONNX Runtime differs as much from itself without its optimisations, or with weights moved by one unit in the last place",
    "nothing": "nothing to compare: outputs are constant, empty or not finite",
}
# What has no graph, or one that ONNX Runtime does not run.
FOREIGN = {"export": "not exported", "unrun": "not run by ONNX Runtime"}


class Mismatch(Exception):
    """The file holds results of something else."""


class Results:
    """`about` maps commit, versions and `configured SOURCE` to their values; `lines` are dictionaries of FIELDS."""

    def __init__(self, path=FILE):
        self.path = Path(path)
        self.about, self.lines = {}, []
        text = self.path.read_text() if self.path.exists() else ""
        for row in text.splitlines():
            if row.startswith("# "):
                name, _, value = row[2:].partition(": ")
                self.about[name] = value
            else:
                self.lines.append(dict(zip(FIELDS, row.split("\t"), strict=True)))

    def _append(self, row):
        # One write, so that several processes can append.
        with open(self.path, "a") as file:
            file.write(row + "\n")

    def describe(self, name, value):
        """States what the results are of. Raises Mismatch if the file says something else."""
        if name not in self.about:
            self._append(f"# {name}: {value}")
            self.about[name] = value
        elif self.about[name] != value:
            raise Mismatch(f"{self.path} is of {name} {self.about[name]}, not {value}: give --fresh to begin anew")

    def add(self, line):
        line = {name: clean(line.get(name, "")) for name in FIELDS}
        self.lines.append(line)
        self._append("\t".join(line.values()))

    def drop(self, sources, statuses):
        """Takes out the lines of these sources and statuses; all statuses if none is given."""
        self.lines = [line for line in self.lines if line["source"] not in sources or statuses and line["status"] not in statuses]
        self.rewrite()

    def rewrite(self):
        """Writes the file whole, in an order that does not depend on that of the tries."""
        self.lines.sort(key=lambda line: [line[name] for name in ("source", "exporter", "network")])
        rows = [f"# {name}: {value}" for name, value in sorted(self.about.items())]
        rows += ["\t".join(line[name] for name in FIELDS) for line in self.lines]
        new = self.path.with_suffix(".new")
        new.write_text("\n".join(rows) + "\n")
        os.replace(new, self.path)


def clean(value):
    """A field: no colours, folders or line ends, at most 160 characters."""
    if isinstance(value, float):
        return f"{value:.2g}"
    text = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", str(value)).split())
    return re.sub(r"/(?:[\w.+-]+/)+(?=[\w.+-])", "", text)[:160]
