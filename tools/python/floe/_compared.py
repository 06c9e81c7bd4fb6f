"""`versus`."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import _native, _versus
from ._model import ModelLike, as_file
from ._model import options as shape_options


def versus(
    model: ModelLike,
    *,
    target: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    constants: Mapping[str, float] | None = None,
    inputs: Mapping[str, Any] | None = None,
    torch: Any = None,
    rounds: int = 7,
    iterations: int = 20,
    seed: int = 1,
    svg: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """Times Floe on a model beside what else runs it on this machine, and says how far each is from ONNX Runtime's f32.

    All get the same inputs and take turns, each with a time from inputs in the CPU's memory to outputs in it. The others are ONNX
    Runtime on the CPU, on one thread and on all, its CUDA and TensorRT providers, TensorRT (trtexec), and PyTorch; what this
    machine lacks is named with how to install it. It takes a while, and other work on the machine shows in the times.

    Args:
        model, shapes, constants: as for `floe.compile`.
        target: also time Floe on this machine's GPU, with a plan for this target.
        inputs: arrays by input; others are made up.
        torch: the network for PyTorch: a module, or 'package.module:attribute'; else onnx2torch makes one of the model.
        rounds: rounds of all programs.
        iterations: runs of a program in a round.
        seed: of the inputs that are made up.
        svg: also write a picture.

    Returns:
        What `tools/benchmark/versus --json` writes: 'rows' have a program each, with microseconds in 'us', 'relative' error and
        'cosine', or an 'error' where it failed; 'absent' are the programs that are not there; 'table' is all of it as text.

    Raises:
        UsageError: an argument is wrong, or Floe cannot compile the model.
        Error: Floe failed.
    """
    if rounds < 1 or iterations < 1:
        raise _native.UsageError("rounds and iterations count from 1")
    if isinstance(torch, str) and not all(torch.partition(":")):
        raise _native.UsageError(f"torch: '{torch}' names no attribute; write 'package.module:attribute'")

    def program(name: str) -> list[str]:
        # Of this Python, whether its folder of programs is in PATH or not.
        return [sys.executable, "-c", f"import sys; sys.argv[0] = '{name}'; from floe import _programs; _programs.{name}()"]

    with as_file(model) as path, tempfile.TemporaryDirectory(prefix="floe-") as folder:
        wanted = _versus.Wanted(
            Path(path),
            program("floec"),
            program("floe"),
            target=target,
            shapes=shape_options(shapes),
            constants=[f"{name}={number}" for name, number in (constants or {}).items()],
            inputs={name: np.asarray(array) for name, array in (inputs or {}).items()},
            torch=torch,
            rounds=rounds,
            iterations=iterations,
            seed=seed,
        )
        try:
            report = _versus.compare(wanted, Path(folder))
        except _versus.Failure as failure:
            kind = _native.UsageError if failure.status == 2 else _native.Error
            raise kind(str(failure)) from None
    if svg is not None and any("us" in row for row in report["rows"]):
        Path(svg).write_text(_versus.picture(report))
    return {**report, "table": _versus.table(report)}
