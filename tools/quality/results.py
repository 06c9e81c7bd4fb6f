"""The file of results of a bar: what was measured, and a row for each method. `tools/figures` makes tables of them."""

import json
import os

BARS = ("text", "characters", "orientation", "direction", "faces", "voice", "lobes")
# In the order of the tables.
METHODS = ("f32", "f16", "minmax", "entropy", "percentile", "minmax_tensor", "floe")
TITLES = {
    "f32": "f32",
    "f16": "f16",
    "minmax": "ONNX Runtime, min-max",
    "entropy": "ONNX Runtime, entropy",
    "percentile": "ONNX Runtime, percentile",
    "minmax_tensor": "ONNX Runtime, its defaults",
    "floe": "Floe",
}
ONNX_RUNTIME = ("minmax", "entropy", "percentile")
# Points below f32 that Floe's 8 bits may lose, and from f32 within which methods count as equal.
LEAST, LEAST_OF_LOBES, TIE = 0.5, 1, 0.2


def write(path, result):
    """Whole or not at all, a line of text for each row."""
    rows = ",\n  ".join(json.dumps({"method": method} | row) for method, row in ordered(result["rows"]))
    head = ",\n ".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in result.items() if name != "rows")
    new = path.with_suffix(".new")
    new.write_text(f'{{\n {head},\n "rows": [\n  {rows}\n ]\n}}\n')
    os.replace(new, path)


def ordered(rows):
    return [(method, rows[method]) for method in METHODS if method in rows]


def read(path):
    """A result whose rows are by method."""
    result = json.loads(path.read_text())
    return result | {"rows": {row.pop("method"): row for row in result["rows"]}}


def best_of_onnx_runtime(rows):
    """The highest rate of its three methods, or None."""
    rates = [rows[method]["rate"] for method in ONNX_RUNTIME if method in rows]
    return max(rates, default=None)


def misses(result, least=None):
    """Where Floe's 8 bits do not hold what is asked of them, in words."""
    rows, found = result["rows"], []
    if "floe" not in rows:
        return ["Floe has no row"]
    floe, f32, best = rows["floe"], rows["f32"]["rate"], best_of_onnx_runtime(rows)
    least = least or (LEAST_OF_LOBES if result["bar"] == "lobes" else LEAST)
    if floe["rate"] < f32 - least:
        found.append(f"{f32 - floe['rate']:.2f} points below f32")
    if result["bar"] == "lobes":
        if "minmax_tensor" in rows and rows["minmax_tensor"]["rate"] >= f32 / 2:
            found.append("ONNX Runtime's defaults do not collapse")
    elif best is not None:
        tie = all(abs(rows[method]["rate"] - f32) <= TIE for method in (*ONNX_RUNTIME, "floe") if method in rows)
        if floe["rate"] <= best and not tie:
            found.append(f"not better than ONNX Runtime's best of {best:.2f}")
        share = min(rows[method]["share"] for method in ONNX_RUNTIME if method in rows and rows[method]["rate"] == best)
        if floe["share"] < share:
            found.append(f"{floe['share']:.1f}% of the multiply-adds in 8 bits where ONNX Runtime's best has {share:.1f}%")
    return found
