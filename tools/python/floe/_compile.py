"""`compile`."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import _native
from ._command import command, each, option
from ._model import Folders, ModelLike, as_file, described, folders, names, source
from ._model import options as shape_options
from ._plan import Plan, load
from ._samples import Samples, paths


def compile(  # noqa: A001
    model: ModelLike,
    target: str | Sequence[str] = "host",
    *,
    shapes: Mapping[str, Sequence[int] | Sequence[Sequence[int]]] | None = None,
    constants: Mapping[str, float] | None = None,
    operators: Folders = (),
    precision: str = "f16",
    budget: str | None = None,
    samples: Samples = None,
    keep_f32: str | Sequence[str] = (),
    preprocess: str | Sequence[str] | Mapping[str, str] | None = None,
    postprocess: str | Sequence[str] | Mapping[str, str] | None = None,
    states: Mapping[str, str] | None = None,
    algorithms: Mapping[str, str] | None = None,
    timings: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    candidates: int | None = None,
    ptx: bool = False,
    version: int = 0,
    limits: Mapping[str, int] | None = None,
    nvrtc: str | os.PathLike[str] | None = None,
    output: str | os.PathLike[str] | None = None,
) -> Plan:
    """Compiles an ONNX model into a plan. The same arguments give the same bytes. Releases the GIL.

    Args:
        model: path of an ONNX file, its bytes, or an onnx.ModelProto. External data needs a path.
        target: machine to compile for, or several; `floe.targets()` lists them.
        shapes: shapes of inputs that the model leaves open, as {'image': (1, 3, 224, 224)}. Lists of shapes make a plan that has
            them all, as {'image': [(1, 3, 320, 320), (1, 3, 640, 640)]}: the first of each input belong together, then the
            second. `Session.choose` chooses.
        constants: inputs that become constants, as {'sr': 16000}.
        operators: folders with descriptions of operators that Floe does not have (OPERATORS.md). Their CUDA becomes part of the
            plan: use files of someone you trust.
        precision: arithmetic on a GPU, 'f16' or 'f32', or 'auto': f16 but for the layers that `budget` needs in f32. The host
            computes in f32.
        budget: with 'auto', what must hold against the host's f32, as 'cosine 0.9999'; `plan.budget` has the decision.
        samples: with 'auto', what to decide on, as for `floe.compare`.
        keep_f32: nodes that stay f32 in an f16 plan.
        preprocess: inputs that become frames of a camera, as {'image': 'nv12:1920x1080,letterbox'} (CAMERA.md has the words).
        postprocess: outputs that become results, as {'logits': 'softmax,topk:5'}.
        states: inputs that keep an output for the next replay, as {output: input}.
        algorithms: algorithms to force, by node.
        timings: tables that `floe measure` wrote.
        candidates: makes a plan for `floe measure`, with about so many candidates of each kernel.
        ptx: stores PTX in place of machine code, which `device="emulated"` and later GPUs run.
        version: the plan's version, which a device may ask for.
        limits: what the import may take, as {'weight-bytes': 1 << 34}.
        nvrtc: NVRTC library, or its folder, in place of the one that is found.
        output: file to write the plan to, as `Plan.save` does.

    Raises:
        CompileError: the model is refused; `node` and `remedy` say where and what helps, where that is known.
        UsageError: an argument is wrong.
        OSError: a file cannot be read or written.
    """
    found, name = source(model)
    tables = [timings] if isinstance(timings, (str, os.PathLike)) else list(timings)
    options = {
        "targets": names(target, "target"),
        "shapes": shape_options(shapes),
        "constants": [(name, float(value)) for name, value in (constants or {}).items()],
        "operators": folders(operators, "operators"),
        "limits": list((limits or {}).items()),
        "states": list((states or {}).items()),
        "preprocess": described(preprocess, "preprocess"),
        "postprocess": described(postprocess, "postprocess"),
        "precision": precision,
        "keep_f32": names(keep_f32, "keep_f32"),
        "algorithms": dict(algorithms or {}),
        "timings": [os.fspath(table) for table in tables],
        "candidates": candidates,
        "nvrtc": None if nvrtc is None else os.fspath(nvrtc),
        "ptx": ptx,
        "version": version,
    }
    if precision == "auto":
        plan = _within_budget(model, options, budget, samples)
    elif budget is not None or samples is not None:
        raise _native.UsageError("budget and samples go with precision='auto'")
    else:
        # Each shape reads the model again: one in memory becomes a file.
        several = any("," in shape for shape in options["shapes"])
        with as_file(model) if several else contextlib.nullcontext(found) as found:
            native, report = _native.compile(found, name, options)
        plan = Plan(native, json.loads(report))
    if output is not None:
        plan.save(output)
    return plan


def _within_budget(model: ModelLike, options: dict[str, Any], budget: str | None, samples: Samples) -> Plan:
    """The search of `floec compile --precision auto`."""
    if budget is None:
        raise _native.UsageError("precision='auto' needs a budget, as 'cosine 0.9999'")

    def pairs(option: str, items: Iterable[tuple[str, Any]]) -> list[str]:
        return [f"{option}={name}={value}" for name, value in items]

    with as_file(model) as path, tempfile.TemporaryDirectory(prefix="floe-") as folder:
        written = Path(folder, "plan.floe")
        report, _ = command([
            "compile", path, f"--output={written}", "--precision=auto", f"--budget={budget}",
            *each("--inputs", paths(samples, Path(folder, "samples"), "samples")), *each("--target", options["targets"]),
            *each("--shape", options["shapes"]), *each("--operators", options["operators"]), *pairs("--constant", options["constants"]), *pairs("--limit", options["limits"]),
            *pairs("--state", options["states"]), *each("--preprocess", options["preprocess"]),
            *each("--postprocess", options["postprocess"]), *each("--keep-f32", options["keep_f32"]),
            *pairs("--algorithm", options["algorithms"].items()), *each("--timings", options["timings"]),
            *option("--candidates", options["candidates"]), *option("--nvrtc", options["nvrtc"]),
            *(["--ptx"] if options["ptx"] else []), f"--plan-version={options['version']}",
        ])  # fmt: skip
        plan = load(written.read_bytes())
    plan.report, plan.budget = report["variants"], report["budget"]
    return plan
