"""How far results in f16 are from those in f32, of the same weights and inputs.

The reference is PyTorch's in f32 on the CPU, whose products no tensor core rounds. `run` calls this where there is no NumPy.
"""

import array
import ast
import math
import struct
import sys


def load(path):
    """The numbers of a .npy file of f32 or f64, and nothing of their shape."""
    with open(path, "rb") as file:
        magic, major = file.read(6), file.read(2)[0]
        if magic != b"\x93NUMPY":
            raise ValueError(f"{path} is no .npy file")
        [length] = struct.unpack("<H" if major == 1 else "<I", file.read(2 if major == 1 else 4))
        header = ast.literal_eval(file.read(length).decode("latin1"))
        kinds = {"<f4": "f", "<f8": "d"}
        if header["descr"] not in kinds:
            raise ValueError(f"{path} holds {header['descr']}, not f32 or f64")
        numbers = array.array(kinds[header["descr"]], file.read())
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def relative(numbers, reference):
    """Length of the difference over that of the reference in three digits, or None where a number is not finite."""
    if len(numbers) != len(reference):
        raise ValueError(f"{len(numbers)} numbers, the reference has {len(reference)}")
    difference = sum((one - other) ** 2 for one, other in zip(numbers, reference))
    length = sum(number * number for number in reference)
    ratio = difference / length if length else math.inf
    return float(f"{math.sqrt(ratio):.3g}") if math.isfinite(ratio) else None


def said(error):
    return "not finite" if error is None else f"{error:.1e}"
