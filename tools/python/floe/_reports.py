"""Whole commands of `floec`, with arguments in place of options and dicts in place of JSON; as functions and as methods of a model."""

from __future__ import annotations

import functools
import inspect as _inspect
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from . import _native
from ._command import command, each, option
from ._compared import versus
from ._compile import compile  # noqa: A004
from ._model import Folders, ModelLike, as_file, described, extents, folders, names, options, source
from ._plan import Plan
from ._samples import Samples, paths


def targets() -> list[dict[str, Any]]:
    """The machines that plans can be compiled for, with what is known of them."""
    return command(["targets"])[0]


def inspect(
    model: ModelLike | Plan,
    *,
    target: str | Sequence[str] = (),
    shapes: Mapping[str, Sequence[int]] | None = None,
    constants: Mapping[str, float] | None = None,
    operators: Folders = (),
) -> dict[str, Any]:
    """What a model holds, or a plan: as `floec inspect --json` prints it.

    Args:
        model: a model as `floe.compile` takes it, a plan, or a plan's file.
        target: of a model, machines to try; `support` then says steps and expected time there, or why it is refused.
        shapes, constants, operators: as for `floe.compile`.
    """
    if isinstance(model, Plan):
        return model.inspect()
    with as_file(model) as path:
        return command(["inspect", path, *_import(shapes, constants, operators), *each("--target", names(target, "target"))])[0]


def unsupported(
    model: ModelLike,
    target: str | Sequence[str] = "host",
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    constants: Mapping[str, float] | None = None,
) -> list[dict[str, Any]]:
    """All nodes of a model that Floe does not run: dicts of node, operator and reason. Empty where it runs the model.

    Raises:
        CompileError: the model cannot be read, or an open shape is missing.
    """
    found, name = source(model)
    numbers = [(input, float(value)) for input, value in (constants or {}).items()]
    return json.loads(_native.unsupported(found, name, names(target, "target"), extents(shapes), numbers))


def compare(
    model: ModelLike,
    target: str,
    *,
    samples: Samples = None,
    reference: Samples = None,
    device: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    constants: Mapping[str, float] | None = None,
    operators: Folders = (),
    host_library: str | os.PathLike[str] | None = None,
    precision: str = "f16",
    keep_f32: str | Sequence[str] = (),
    preprocess: str | Sequence[str] | Mapping[str, str] | None = None,
    postprocess: str | Sequence[str] | Mapping[str, str] | None = None,
    budget: str | None = None,
    threshold: float = 1e-2,
    outputs_only: bool = False,
    most_samples: int | None = None,
    seed: int = 1,
    html: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """Compares a target's plan with the host's f32, output by output, then layer by layer.

    Args:
        model, target, shapes, constants, operators, precision, keep_f32: as for `floe.compile`.
        host_library: as for `Plan.session`: the host's f32 needs it for operators that Floe does not have.
        samples: a dict of arrays with a row for each sample, a list of dicts, or paths; random ones by default.
        reference: results from elsewhere for the same samples, in the same forms, by output.
        device: 'cuda', 'emulated', 'simulated' (the host with f16's rounding) or 'host'; by default a GPU that suits, else one
            in software.
        preprocess: how pictures among the samples become inputs.
        postprocess: as for `floe.compile`; boxes are then matched by overlap.
        budget: what must hold, as 'cosine 0.9999'.
        threshold: relative error beyond which a layer is named as the first.
        outputs_only: leave layers out.
        most_samples: use the first ones only.
        seed: of random samples.
        html: also write a page with a plot.

    Returns:
        What `floec compare --json` prints. Its key 'failure' is None, or says that the budget is not held, or that an output is
        not finite that should be.
    """
    with as_file(model) as path, tempfile.TemporaryDirectory(prefix="floe-") as folder:
        inputs = paths(samples, Path(folder, "samples"), "samples")
        expected = paths(reference, Path(folder, "reference"), "reference")
        report, failure = command([
            "compare", path, "--target", target, *_import(shapes, constants, operators), *_library(host_library),
            *each("--inputs", inputs), *each("--reference", expected), *option("--device", device),
            "--precision", precision, *each("--keep-f32", names(keep_f32, "keep_f32")),
            *each("--preprocess", described(preprocess, "preprocess")),
            *each("--postprocess", described(postprocess, "postprocess")),
            *option("--budget", budget), f"--threshold={threshold}", *(["--outputs-only"] if outputs_only else []),
            *option("--samples", most_samples), f"--seed={seed}",
            *option("--html", None if html is None else os.path.abspath(html)),
        ])  # fmt: skip
    return {**report, "failure": failure}


def quantize(
    model: ModelLike,
    samples: Samples = None,
    *,
    calibration: str | os.PathLike[str] | Mapping[str, tuple[float, float]] | None = None,
    target: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    constants: Mapping[str, float] | None = None,
    operators: Folders = (),
    host_library: str | os.PathLike[str] | None = None,
    preprocess: str | Sequence[str] | Mapping[str, str] | None = None,
    budget: str | None = None,
    keep: str | Sequence[str] = (),
    format: str | None = None,  # noqa: A002
    symmetric: bool = False,
    all_products: bool = False,
    effort: str | None = None,
    weights: str | None = None,
    group: int | None = None,
    most_samples: int | None = None,
    output: str | os.PathLike[str] | None = None,
) -> Quantized:
    """Makes an 8-bit model of a float model. It needs samples of the inputs, or ranges that another program has measured, and
    neither a GPU nor a training framework.

    Args:
        model, shapes, constants, operators: as for `floe.compile`.
        host_library: as for `Plan.session`: the host's f32 needs it for operators that Floe does not have.
        samples: a dict of arrays with a row for each sample, a list of dicts, or paths.
        calibration: in place of samples, the smallest and the largest number of values by name, or a file that ONNX Runtime or
            TensorRT has written. Nothing is measured then, so that no other method is tried.
        target: weighs accuracy against the time that this target saves.
        preprocess: how pictures among the samples become inputs.
        budget: what must hold, as 'cosine 0.999'; layers stay float until it does.
        keep: nodes that stay float.
        format: 'int8', or 'fp8' for floats of 8 bits (E4M3).
        symmetric: write the form that TensorRT takes.
        all_products: also the factors of products of two values, for programs that compute these in 8 bits.
        effort: 'least', 'default' or 'high'.
        weights: 'int8' or 'int4': weights of matrix products alone.
        group: with `weights`, elements that share a scale.
        most_samples: use the first ones only.
        output: file to write the model to as well; an interrupted run goes on when the call is repeated.
    """
    with as_file(model) as path, tempfile.TemporaryDirectory(prefix="floe-") as folder:
        written = Path(folder, "model.onnx") if output is None else Path(output)
        if isinstance(calibration, Mapping):
            ranges = {name: [float(least), float(most)] for name, (least, most) in calibration.items()}
            calibration = Path(folder, "calibration.json")
            calibration.write_text(json.dumps(ranges))
        report, failure = command([
            "quantize", path, *each("--samples", paths(samples, Path(folder, "samples"), "samples")),
            *option("--calibration", calibration),
            *option("--target", target), *_import(shapes, constants, operators), *_library(host_library),
            *each("--preprocess", described(preprocess, "preprocess")), *option("--budget", budget),
            *each("--keep", names(keep, "keep")), *option("--format", format), *(["--symmetric"] if symmetric else []),
            *(["--all-products"] if all_products else []), *option("--effort", effort), *option("--weights", weights),
            *option("--group", group), *option("--most-samples", most_samples), f"--output={os.path.abspath(written)}",
        ])  # fmt: skip
        found = written.read_bytes()
    return Quantized(found, report, failure, shapes=shapes, constants=constants, operators=operators)


def prove(
    model: ModelLike | Plan,
    target: str,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    constants: Mapping[str, float] | None = None,
    operators: Folders = (),
    host_library: str | os.PathLike[str] | None = None,
    inputs: Mapping[str, Any] | None = None,
    seed: int = 1,
) -> dict[str, Any]:
    """Runs a model's plan on a GPU in software, with every access watched: out of bounds, uninitialised, races.

    Args:
        model: a model as `floe.compile` takes it, or a plan with PTX.
        target: machine to compile for, or the plan's variant.
        shapes, constants, operators: as for `floe.compile`.
        host_library: as for `Plan.session`; without it such a model is not compared with the host.
        inputs: arrays by input; others are random.
        seed: of random inputs.

    Returns:
        What `floec prove --json` prints; 'findings' is empty where nothing was found.
    """
    found = bytes(model) if isinstance(model, Plan) else model
    with as_file(found) as path, tempfile.TemporaryDirectory(prefix="floe-") as folder:
        files = []
        for number, (name, array) in enumerate((inputs or {}).items()):
            np.save(Path(folder, f"{number}.npy"), array)
            files.append(f"{name}={folder}/{number}.npy")
        arguments = ["prove", path, "--target", target, *_import(shapes, constants, operators), f"--seed={seed}"]
        return command([*arguments, *_library(host_library), *each("--inputs", files)])[0]


def _import(
    shapes: Mapping[str, Sequence[int]] | None, constants: Mapping[str, float] | None, operators: Folders
) -> list[str]:
    return [
        *each("--shape", options(shapes)),
        *each("--constant", [f"{name}={number}" for name, number in (constants or {}).items()]),
        *each("--operators", folders(operators, "operators")),
    ]


def _library(host_library: str | os.PathLike[str] | None) -> list[str]:
    return option("--host-library", None if host_library is None else os.fspath(host_library))


_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def _method(
    function: Callable[Concatenate[Any, _Arguments], _Result],
) -> Callable[Concatenate[Model, _Arguments], _Result]:
    """A function of a model as a method, with the same arguments. Where one of them says how the model is read and is left out, it
    is the model's own."""
    taken = _inspect.signature(function).parameters.keys() & {"shapes", "constants", "operators"}

    @functools.wraps(function)
    def method(self: Model, /, *arguments: _Arguments.args, **options: _Arguments.kwargs) -> _Result:
        own: dict[str, Any] = {name: getattr(self, name) for name in taken}
        return function(self.model, *arguments, **{**own, **options})

    return method


@dataclass(frozen=True)
class Model:
    """A model and how it is read. The functions of this package that take a model are its methods, with the same arguments:

        model = floe.Model("resnet50.onnx", shapes={"image": (1, 3, 224, 224)})
        plan = model.compile("jetson-orin-nano")
        print(model.compare("jetson-orin-nano")["outputs"])
        small = model.quantize("samples/")
        plan = small.compile("jetson-orin-nano")
    """

    model: ModelLike
    """Path of an ONNX file, its bytes, or an onnx.ModelProto."""
    _: KW_ONLY
    shapes: Mapping[str, Any] | None = None
    """Shapes of inputs that the model leaves open, as for `floe.compile`."""
    constants: Mapping[str, float] | None = None
    """Inputs that become constants."""
    operators: Folders = ()
    """Folders with descriptions of operators that Floe does not have."""

    compare = _method(compare)
    compile = _method(compile)
    inspect = _method(inspect)
    prove = _method(prove)
    quantize = _method(quantize)
    unsupported = _method(unsupported)
    versus = _method(versus)


@dataclass(frozen=True)
class Quantized(Model):
    """What `quantize` makes: a model, which is read as the one that it was made of."""

    model: bytes
    """The ONNX file."""
    report: dict[str, Any]
    """What `floec quantize --json` prints: what became 8 bits, why the rest did not, and the errors."""
    failure: str | None
    """That the budget does not hold, where one was given."""

    def SerializeToString(self) -> bytes:  # noqa: N802
        """The ONNX file, for `floe.compile`, which takes this object as it is."""
        return self.model

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the ONNX file."""
        Path(path).write_bytes(self.model)
