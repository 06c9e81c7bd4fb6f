"""What stands for a model: a path, bytes, or an object that serialises itself."""

from __future__ import annotations

import contextlib
import os
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Union

from . import _native
from ._native import UsageError


class _Serializes(Protocol):
    def SerializeToString(self) -> bytes: ...  # noqa: N802


Folders = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]]]
ModelLike = Union[str, "os.PathLike[str]", bytes, _Serializes]

# NVRTC of this Python comes before any other, whether its environment is activated or not.
_native.search_packages(list(dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))))


def source(model: ModelLike) -> tuple[str | bytes, str]:
    """A path or bytes, and a name for messages."""
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model), "the model"
    if hasattr(model, "SerializeToString"):
        return model.SerializeToString(), "the model"
    try:
        path = os.fspath(model)  # type: ignore[arg-type]
    except TypeError:
        kind = type(model).__name__
        raise UsageError(f"model: a path, bytes or an onnx.ModelProto is needed, not {kind}") from None
    return path, path


@contextlib.contextmanager
def as_file(model: ModelLike, name: str = "model.onnx") -> Iterator[str]:
    """A path to the model's file, which lives as long as the context where the model is in memory."""
    found, _ = source(model)
    if isinstance(found, str):
        yield found
        return
    with tempfile.TemporaryDirectory(prefix="floe-") as folder:
        path = Path(folder, name)
        path.write_bytes(found)
        yield str(path)


def names(value: str | list[str] | tuple[str, ...], argument: str) -> list[str]:
    """One string or several as a list."""
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, (list, tuple)) or not all(isinstance(item, str) for item in values):
        raise UsageError(f"{argument}: a string or a list of strings is needed")
    return list(values)


def described(value: str | list[str] | Mapping[str, str] | None, argument: str) -> list[str]:
    """Words of `--preprocess` and `--postprocess`: 'input=rgb:640x480', several of these, or a dict by name."""
    if value is None:
        return []
    if isinstance(value, Mapping):
        return [f"{name}={words}" for name, words in value.items()]
    return names(value, argument)


def options(shapes: Mapping[str, Any] | None) -> list[str]:
    """Shapes as `--shape` has them: extents of an input, or a list of such where the plan is to have several shapes."""

    def words(shape: Any) -> str:
        several = [shape] if not shape or not isinstance(shape[0], (list, tuple)) else shape
        return ",".join("x".join(str(int(extent)) for extent in one) for one in several)

    try:
        return [f"{name}={words(shape)}" for name, shape in (shapes or {}).items()]
    except (TypeError, ValueError, IndexError):
        raise UsageError(
            "shapes: give a dict of extents by input, as {'image': (1, 3, 224, 224)}, or of several: [(1, 3, 224, 224), …]"
        ) from None


def folders(value: Any, argument: str) -> list[str]:
    """One path or several as a list."""
    try:
        return [os.fspath(value)] if isinstance(value, (str, os.PathLike)) else [os.fspath(item) for item in value]
    except TypeError:
        raise UsageError(f"{argument}: a path or a list of paths is needed") from None


def extents(shapes: Mapping[str, Any] | None) -> list[tuple[str, list[int]]]:
    """Shapes by input, as lists of whole numbers."""
    try:
        return [(name, [int(extent) for extent in shape]) for name, shape in (shapes or {}).items()]
    except (TypeError, ValueError):
        raise UsageError("shapes: give a dict of extents by input, as {'image': (1, 3, 224, 224)}") from None
