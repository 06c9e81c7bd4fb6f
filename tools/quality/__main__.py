"""Measures trained models on tests with known answers: f32, f16, and 8 bits by ONNX Runtime's static quantiser and by Floe's.

usage: python tools/quality [BAR…] [--binaries FOLDER] [--work FOLDER] [--zoo FOLDER] [--methods NAMES] [--tests N] [--samples N]
                            [--host N] [--emulated N] [--record] [--check [--least POINTS]]

Without names all bars are measured. Every row is kept in --work, so that what was cut off goes on where it was; a row is measured again
where its model, its tests or the code that makes them is another. `--record` writes tools/quality/results/BAR.json. `--check` fails
where Floe's 8 bits miss what is asked of them. tools/quality/setup installs fonts, espeak-ng and what training needs.
"""

import argparse
import datetime
import hashlib
import json
import pickle
import subprocess
import sys
import time
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))

import bars  # noqa: E402
import numpy as np  # noqa: E402
import onnx  # noqa: E402
import results  # noqa: E402
from half import rounded  # noqa: E402
from macs import share  # noqa: E402
from methods import by_floe, by_onnx_runtime, preprocessed  # noqa: E402
from models import input_name  # noqa: E402
from onnxruntime import __version__ as onnxruntime_version, set_default_logger_severity  # noqa: E402
from rates import compared  # noqa: E402
from runners import Floe, OnnxRuntime  # noqa: E402

# The emulator runs plans of this target.
TARGET = "jetson-orin-nano"


def digest(*things):
    """Of files and of what can be written as JSON."""
    made = hashlib.sha256()
    for thing in things:
        made.update(thing.read_bytes() if isinstance(thing, Path) else json.dumps(thing).encode())
    return made.hexdigest()[:16]


class Measured:
    """One bar, its tests and what is known of them."""

    def __init__(self, name, options):
        self.name, self.options, self.bar = name, options, bars.load(name)
        self.tests = options.tests or self.bar.TESTS
        self.count = options.samples or self.bar.SAMPLES
        self.work = options.work / name
        self.work.mkdir(parents=True, exist_ok=True)
        self.model = self.work / "model.onnx"
        self.whole(self.model, lambda path: self.bar.prepare(options.zoo, path))
        self.made_by = digest(HERE / "bars" / f"{name}.py", *(HERE / file for file in self.bar.MAKERS))

    def whole(self, path, make):
        """Writes a file whole or not at all, and leaves it alone where it has what would be written: another run may read it."""
        new = path.with_suffix(".new.onnx")
        make(new)
        if path.exists() and new.read_bytes() == path.read_bytes():
            new.unlink()
        else:
            new.replace(path)

    def say(self, *words):
        print(f"[{time.strftime('%H:%M:%S')}] {self.name}:", *words, flush=True)

    def example(self, part, number):
        """The same whatever is measured: a generator of random numbers for each example."""
        return self.bar.example(np.random.default_rng((part == "tests", number)), part)

    def examples(self, part, count):
        """Inputs and truths of a part. They are kept in files: making them takes as long as a small network."""
        file, truths, key = self.work / f"{part}.npy", self.work / f"{part}.pickle", (self.made_by, count)
        if truths.exists():
            with truths.open("rb") as kept:
                have, known = pickle.load(kept)
            if have == key:
                return np.load(file, mmap_mode="r"), known
        self.say("making", count, part)
        first, truth = self.example(part, 0)
        inputs = np.lib.format.open_memmap(file, "w+", np.float32, (count, *first.shape))
        inputs[0], known = first, [truth]
        for number in range(1, count):
            inputs[number], truth = self.example(part, number)
            known.append(truth)
        inputs.flush()
        with truths.open("wb") as kept:
            pickle.dump((key, known), kept)
        return inputs, known

    def samples(self):
        return self.examples("samples", self.count)[0]

    def quantised(self, method):
        """The path of the model in 8 bits, made where it is not there."""
        out = self.work / f"{method}.onnx"
        key = digest(self.model, self.made_by, self.count, method, *([self.options.binaries / "floec"] if method == "floe" else []))
        kept = out.with_suffix(".key")
        if out.exists() and kept.exists() and kept.read_text() == key:
            return out
        self.say("quantising by", method)
        began = time.monotonic()
        if method == "floe":
            by_floe(self.options.binaries, self.model, self.samples(), out, self.work)
        else:
            name = input_name(onnx.load(self.model))
            by_onnx_runtime(self.model, name, self.samples(), out, method.removesuffix("_tensor"), "_tensor" not in method)
        kept.write_text(key)
        out.with_suffix(".seconds").write_text(f"{time.monotonic() - began:.0f}")
        return out

    def counted(self, what, runner, key, tests):
        """A row of counts for each test, kept in a file: another method that made the same model has the same counts."""
        key = digest(key, self.made_by)
        for file in self.work.glob("*.npz"):
            with np.load(file) as have:
                if str(have["key"]) == key and len(have["counts"]) >= tests:
                    return have["counts"][:tests]
        self.say(what, "on", tests, "tests")
        run, (inputs, truths) = runner(), self.examples("tests", self.tests)
        counts = [self.bar.outcome(run.run(x), truth) for x, truth in zip(inputs[:tests], truths)]
        part = self.work / f"{what}.part"
        with part.open("wb") as file:
            np.savez(file, key=key, counts=np.array(counts))
        part.replace(self.work / f"{what}.npz")
        return np.array(counts)

    def row(self, method):
        """Counts of a method, and what else is known of it."""
        binaries = self.options.binaries
        if method == "f32":
            return self.counted("f32", lambda: OnnxRuntime(self.model), digest(self.model), self.tests), {}
        if method == "f16":
            path = self.work / "f16.onnx"
            self.whole(path, lambda new: (preprocessed(self.model, new), rounded(new, new)))
            counts = self.counted("f16", lambda: OnnxRuntime(path), digest(path), self.tests)
            return counts, self.confirmed(counts, digest(self.model, binaries / "floec", binaries / "floe"))
        path = self.quantised(method)
        counts = self.counted(method, lambda: OnnxRuntime(path), digest(path), self.tests)
        low, total = share(path, self.samples()[0])
        more = {"share": round(100 * low / total, 1)}
        if method == "floe":
            tests = min(self.options.host, self.tests)
            key = digest(path, binaries / "floec", binaries / "floe")
            host = self.counted("floe-host", lambda: Floe(binaries, path, self.work), key, tests)
            same = int((host == counts[:tests]).all(1).sum())
            more["host"] = {"tests": tests, "same": same, "rate": round(float(self.bar.rate(host.sum(0))), 2)}
        return counts, more

    def confirmed(self, counts, key):
        """How many of a few tests have the simulation's outcome on the GPU in software."""
        tests = min(self.options.emulated, self.tests)
        if not tests:
            return {}
        binaries = self.options.binaries
        runner = lambda: Floe(binaries, self.model, self.work, TARGET, ["--ptx"], "emulated")
        emulated = self.counted("f16-emulated", runner, key, tests)
        return {"emulated": {"tests": tests, "same": int((emulated == counts[:tests]).all(1).sum())}}

    def measure(self):
        rows, base = {}, None
        for method in self.options.methods:
            if method == "minmax_tensor" and not getattr(self.bar, "TENSOR", False):
                continue
            try:
                counts, more = self.row(method)
            except Exception as error:  # A method that fails is a result; the others go on.
                if method == "f32" or self.options.strict:
                    raise
                self.say(method, "FAILED:", str(error)[-400:])
                continue
            base = counts if base is None else base
            rows[method] = compared(counts, base, self.bar.rate) | more
            self.say(f"{results.TITLES[method]}: {rows[method]}")
        return {
            "bar": self.name,
            "title": self.bar.TITLE,
            "metric": self.bar.METRIC,
            "model": self.bar.MODEL,
            "tests": self.tests,
            "samples": self.count,
            "commit": commit(),
            "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
            "onnxruntime": onnxruntime_version,
            "rows": rows,
        }


def commit():
    git = lambda *words: subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ":!tools/quality/results", ":!.ci/results", ":!BENCHMARKS.md")
    return git("rev-parse", "HEAD") + (" with changes" if changed else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bars", nargs="*", metavar="BAR", help=", ".join(bars.NAMES))
    parser.add_argument("--binaries", type=Path, default=ROOT / "target/release", help="the folder of floec and floe")
    parser.add_argument("--work", type=Path, default=ROOT / "target/quality", help="for models and what was counted")
    parser.add_argument("--zoo", type=Path, default=ROOT / ".cache/zoo")
    parser.add_argument("--methods", default=",".join(results.METHODS))
    parser.add_argument("--tests", type=int, help="tests of each bar; what the bar says by default")
    parser.add_argument("--samples", type=int, help="samples for calibration; what the bar says by default")
    parser.add_argument("--host", type=int, default=50, metavar="N", help="tests that Floe's host runs as well")
    parser.add_argument("--emulated", type=int, default=20, metavar="N", help="tests that confirm the simulation of f16")
    parser.add_argument("--record", action="store_true", help="write tools/quality/results")
    parser.add_argument("--check", action="store_true", help="fail where Floe's 8 bits miss what is asked of them")
    parser.add_argument("--least", type=float, metavar="POINTS", help="what they may lose; for few tests, whose rates are less sure")
    parser.add_argument("--strict", action="store_true", help="end with the first method that fails")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    set_default_logger_severity(3)
    options.methods = options.methods.split(",")
    for given, known in ((options.bars, bars.NAMES), (options.methods, results.METHODS)):
        if unknown := set(given) - set(known):
            parser.error(f"nothing is called {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    missed = []
    for name in options.bars or bars.NAMES:
        measured = Measured(name, options)
        result = measured.measure()
        if options.record:
            (HERE / "results").mkdir(exist_ok=True)
            results.write(HERE / "results" / f"{name}.json", result)
        found = results.misses(result, options.least)
        missed += [f"{name}: {miss}" for miss in found]
        measured.say("; ".join(found) or "holds")
    print("\n".join(missed))
    sys.exit(bool(options.check and missed))


if __name__ == "__main__":
    main()
