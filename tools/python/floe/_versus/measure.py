"""Floe and others on one model, in turns."""

from __future__ import annotations

import json
import math
import os
import pathlib
import platform
import statistics
import subprocess
import sys
from dataclasses import dataclass, field

from . import opponents
from .opponents import NEVER_RUN, Absent, Case, Floe, OnnxRuntime, PyTorch, TensorRT

DTYPES = {"f32": "float32", "f16": "float16", "f64": "float64", "bool": "bool"} | {
    f"{kind}{bits}": f"{name}{bits}" for kind, name in (("i", "int"), ("u", "uint")) for bits in (8, 16, 32, 64)
}


class Failure(Exception):
    """Bad usage or input, or Floe's own failure; `status` is the exit status that a program has for it."""

    def __init__(self, message, status=2):
        super().__init__(message)
        self.status = status


@dataclass
class Wanted:
    """What is timed, and how."""

    model: pathlib.Path
    # Floe's programs, each as the words of a command line.
    floec: list
    floe: list
    # A target of this machine's GPU.
    target: str | None = None
    # As `floec compile` takes them.
    shapes: list = field(default_factory=list)
    constants: list = field(default_factory=list)
    # Arrays by input, in place of those that are made up.
    inputs: dict = field(default_factory=dict)
    # MODULE:ATTRIBUTE, or a module of PyTorch.
    torch: object = None
    rounds: int = 7
    iterations: int = 20
    seed: int = 1


def floe_says(*words):
    """What a program of Floe prints; ends with its error and exit status where it fails."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode:
        raise Failure(done.stderr.strip().removeprefix("error: "), done.returncode if done.returncode in (1, 2) else 1)
    return done.stdout


def made_up(binding, random):
    """Contents of an input: normal numbers, and 0 or 1 where indices, tokens or flags may be meant."""
    import numpy

    if binding["dtype"] not in DTYPES:
        raise Failure(f"input '{binding['name']}' is of {binding['dtype']}, which NumPy cannot hold; this model cannot be compared here")
    dtype = numpy.dtype(DTYPES[binding["dtype"]])
    values = random.standard_normal(binding["shape"]) if dtype.kind == "f" else random.integers(0, 2, binding["shape"])
    return values.astype(dtype)


def given(name, values, inputs):
    """Puts these contents into an input."""
    if name not in inputs:
        raise Failure(f"the model has no input '{name}'; it has {', '.join(inputs)}")
    if values.shape != inputs[name].shape or values.dtype != inputs[name].dtype:
        wanted = f"{inputs[name].dtype} {list(inputs[name].shape)}"
        raise Failure(f"'{name}': {values.dtype} {list(values.shape)}, the input is {wanted}")
    inputs[name] = values


def constants(wanted):
    """What constants fix, as ONNX Runtime takes it."""
    import numpy

    if not wanted.constants:
        return {}
    runtime = opponents.module("onnxruntime", "onnxruntime")
    session = runtime.InferenceSession(str(wanted.model), providers=["CPUExecutionProvider"])
    kinds = {value.name: (value.type[7:-1], value.shape) for value in session.get_inputs()}
    found = {}
    for text in wanted.constants:
        name, _, number = text.partition("=")
        kind, shape = kinds[name]  # floec has refused others.
        dtype = {"float": "float32", "double": "float64"}.get(kind, kind)
        found[name] = numpy.full([extent if isinstance(extent, int) else 1 for extent in shape], float(number)).astype(dtype)
    return found


def distance(found, reference):
    """Relative L2 error and cosine of the output that is furthest off, or None where they do not compare."""
    import numpy

    worst = (0.0, 1.0)
    for name, expected in reference.items():
        if found.get(name) is None or found[name].size != expected.size:
            return None
        a, b = (numpy.asarray(values, dtype=numpy.float64).ravel() for values in (found[name], expected))
        length = float(numpy.linalg.norm(b))
        product = float(numpy.linalg.norm(a)) * length
        relative = float(numpy.linalg.norm(a - b)) / length if length else float(numpy.linalg.norm(a))
        cosine = float(a @ b) / product if product else 1.0 if not length else 0.0
        if not math.isfinite(relative):
            return (math.inf, math.nan)
        worst = max(worst, (relative, min(cosine, 1.0)))
    return worst


def makers(wanted, case, plans):
    """Who is to be timed: name, and what makes the program ready."""
    threads = os.cpu_count() or 1
    found = [
        (
            f"Floe {target}",
            lambda target=target, plan=plan, precision=precision: Floe(case, wanted.floe, plan, target, precision),
        )
        for target, (plan, precision) in plans.items()
    ]
    for count in sorted({1, threads}):
        found.append(("ONNX Runtime CPU", lambda count=count: OnnxRuntime(case, "CPU", count)))
    found += [
        (f"ONNX Runtime {provider}", lambda provider=provider: OnnxRuntime(case, provider)) for provider in ("CUDA", "TensorRT")
    ]
    found.append(("TensorRT", lambda: TensorRT(case)))
    for count in sorted({1, threads}):
        found.append(("PyTorch", lambda count=count: PyTorch(case, wanted.torch, "cpu", count)))
    found.append(("PyTorch CUDA", lambda: PyTorch(case, wanted.torch, "cuda")))
    return found


def ready(found):
    """The programs that are there, and those that are not with the reason."""
    programs, absent = [], []
    for name, make in found:
        try:
            programs.append(make())
        except Absent as missing:
            absent.append({"program": name, "why": missing.args[0], "install": missing.args[1]})
        except Exception as error:  # One that fails must not cost the others.
            absent.append({"program": name, "why": f"fails: {str(error)[:300]}", "install": None})
    # One line for what is absent on one thread and on all.
    return programs, list({entry["program"]: entry for entry in absent}.values())


def measure(programs, wanted, reference):
    """A row for each program; what fails is left out and named."""
    rounds, failed, outputs = {number: [] for number in range(len(programs))}, {}, {}
    for turn in range(wanted.rounds + 1):
        for number, program in enumerate(programs):
            if number in failed:
                continue
            try:
                if turn == 0:  # The first turn is not timed: it shows who works.
                    outputs[number] = program.outputs()
                else:
                    rounds[number].append(statistics.median(program.round(wanted.iterations)))
            except Exception as error:
                failed[number] = str(error)[:300]
        if sys.stderr.isatty():
            print(
                f"\rround {turn} of {wanted.rounds}",
                end="" if turn < wanted.rounds else "\r\033[K",
                file=sys.stderr,
                flush=True,
            )
    rows = []
    for number, program in enumerate(programs):
        row = {"program": program.name, "version": getattr(program, "version", None), "device": program.device}
        row |= {"precision": program.precision, "threads": program.threads}
        if number in failed:
            rows.append(row | {"error": failed[number]})
            continue
        times = rounds[number]
        row["us"] = {"median": round(statistics.median(times), 2), "min": round(min(times), 2), "max": round(max(times), 2)}
        off = distance(outputs[number], reference) if reference else None
        rows.append(row | ({"relative": off[0], "cosine": off[1]} if off else {"relative": None, "cosine": None}))
    return rows


def machine():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines() if os.path.exists("/proc/cpuinfo") else []
    name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
    return f"{name}, {os.cpu_count()} processors"


def compare(wanted, folder):
    """A report of all programs; `folder` is for what they write."""
    import numpy

    targets = ["host"] + ([wanted.target] if wanted.target and wanted.target != "host" else [])
    plan = folder / "plan.floe"
    words = [word for text in wanted.shapes for word in ("--shape", text)]
    words += [word for text in wanted.constants for word in ("--constant", text)]
    floe_says(
        *wanted.floec,
        "compile",
        wanted.model,
        *(word for target in targets for word in ("--target", target)),
        *words,
        "-o",
        plan,
    )
    variants = {
        variant["target"]: variant for variant in json.loads(floe_says(*wanted.floec, "inspect", plan, "--json"))["variants"]
    }
    bindings = variants["host"]["bindings"]
    random = numpy.random.default_rng(wanted.seed)
    inputs = {binding["name"]: made_up(binding, random) for binding in bindings if binding["direction"] == "input"}
    for name, values in wanted.inputs.items():
        given(name, values, inputs)
    outputs = [binding["name"] for binding in bindings if binding["direction"] == "output"]
    reference = None
    try:
        case = Case(wanted.model, inputs, outputs, folder, constants(wanted))
        reference = OnnxRuntime(case, is_optimised=False).outputs()
    except Absent:
        case = Case(wanted.model, inputs, outputs, folder)
    programs, absent = ready(makers(wanted, case, {name: (plan, variant["precision"]) for name, variant in variants.items()}))
    return {
        "model": wanted.model.name,
        "machine": machine(),
        "rounds": wanted.rounds,
        "iterations": wanted.iterations,
        "clock": "round trip: from inputs in the host's memory to outputs in the host's memory",
        "reference": "ONNX Runtime on the CPU in f32 without optimisations" if reference else None,
        "rows": measure(programs, wanted, reference),
        "absent": absent,
        "never_run_here": NEVER_RUN,
    }
