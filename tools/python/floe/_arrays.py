"""Arrays as the bytes of bindings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ._native import UsageError

_PLAIN = {
    "f32": np.float32, "f16": np.float16, "f64": np.float64, "bool": np.bool_,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
}  # fmt: skip

# Types that NumPy lacks, by their names in ml_dtypes.
_NARROW = {
    "bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2": "float8_e5m2",
    "f8e5m2fnuz": "float8_e5m2fnuz", "i4": "int4", "u4": "uint4",
}  # fmt: skip


def _dtype(name: str) -> np.dtype[Any]:
    if name in _PLAIN:
        return np.dtype(_PLAIN[name])
    try:
        import ml_dtypes
    except ImportError:
        # The bits, for who wants them without another package.
        return np.dtype(np.uint16 if name == "bf16" else np.uint8)
    return np.dtype(getattr(ml_dtypes, _NARROW[name]))


@dataclass(frozen=True)
class Binding:
    """An input, output or state of a plan."""

    name: str
    """Its name in the model."""
    dtype: np.dtype[Any]
    """Its element type. One that NumPy lacks is that of the package ml_dtypes, or without that package plain bits: uint16 for
    bfloat16, uint8 for floats of 8 bits and integers of 4."""
    shape: tuple[int, ...]
    """Its extents."""
    number: int
    """Its number in the plan."""
    kind: str = field(default="", repr=False)
    """The plan's name of its element type, as 'bf16'."""

    @classmethod
    def _of(cls, number: int, report: dict[str, Any]) -> Binding:
        return cls(report["name"], _dtype(report["dtype"]), tuple(report["shape"]), number, report["dtype"])

    def _described(self) -> dict[str, Any]:
        return {"number": self.number, "name": self.name, "dtype": self.kind, "shape": list(self.shape)}

    def empty(self) -> np.ndarray[Any, Any]:
        """A new array for this binding, with anything in it."""
        return np.empty(self.shape, self.dtype)

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype.name} {list(self.shape)}"


def is_on_gpu(value: Any) -> bool:
    """Whether a tensor of another library is in a GPU's memory: CUDA's own, or managed."""
    return not isinstance(value, np.ndarray) and hasattr(value, "__dlpack_device__") and int(value.__dlpack_device__()[0]) in (2, 13)


def as_array(binding: Binding, value: Any) -> np.ndarray[Any, Any]:
    """The array that `value` is, without a copy; refused unless element type and shape are the binding's."""
    if isinstance(value, np.ndarray):
        array = value
    elif hasattr(value, "__dlpack__"):
        device, _ = value.__dlpack_device__()
        if int(device) not in (1, 3):  # the CPU's memory, page-locked or not
            raise UsageError(f"'{binding.name}': the tensor is in a GPU's memory, where this cannot take it: hand over tensor.cpu()")
        array = np.from_dlpack(value)
    else:
        array = np.asarray(value)
        if array.dtype != binding.dtype and not hasattr(value, "dtype"):
            # Lists and numbers have no element type of their own.
            array = np.asarray(value, binding.dtype)
    if array.dtype != binding.dtype:
        raise UsageError(
            f"'{binding.name}' is {binding.dtype.name}, and the array is {array.dtype}: "
            f"convert it with array.astype('{binding.dtype.name}')"
        )
    if array.shape != binding.shape:
        raise UsageError(
            f"'{binding.name}' has the shape {binding.shape}, and the array has {array.shape}; "
            "of a plan with several shapes, session.choose takes another"
        )
    return array


def as_bytes(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The bytes of an array in its own memory; of a copy where it is not contiguous."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def target_bytes(binding: Binding, array: Any) -> np.ndarray[Any, Any]:
    """The bytes of an array that results are written into: its own memory, always."""
    if not isinstance(array, np.ndarray) or array.dtype != binding.dtype or array.shape != binding.shape:
        raise UsageError(
            f"out['{binding.name}'] must be a NumPy array of {binding.dtype.name} {binding.shape}, or a tensor on the session's GPU"
        )
    if not (array.flags.c_contiguous and array.flags.writeable):
        raise UsageError(f"out['{binding.name}'] must be contiguous and writable; binding.empty() makes such arrays")
    return array.reshape(-1).view(np.uint8)
