"""The table of what tools/quality measured."""

import importlib.util
from pathlib import Path

from benchmarks import NONE, listed, table

file = Path(__file__).resolve().parent.parent / "quality" / "results.py"
results = importlib.util.module_from_spec(importlib.util.spec_from_file_location("quality_results", file))
results.__spec__.loader.exec_module(results)


class Quality:
    """The results in a folder, one file a task."""

    def __init__(self, folder):
        paths = [folder / f"{name}.json" for name in results.BARS]
        self.results = [results.read(path) for path in paths if path.exists()]

    def text(self):
        if not self.results:
            return NONE
        heads = ["task, model", "metric", "tests", *(results.TITLES[method] for method in results.METHODS)]
        heads += ["in 8 bits: ONNX Runtime's best", "Floe"]
        return "\n\n".join([self.caption(), table(heads, [row(result) for result in self.results]), self.sentences()])

    def caption(self):
        made = dict.fromkeys(f"commit {result['commit'][:7]}{result['commit'][40:]}, {result['date']}" for result in self.results)
        versions = dict.fromkeys(result["onnxruntime"] for result in self.results)
        return (
            "*Per cent; in brackets the middle 95% of the differences from f32 over resampled tests. "
            f"ONNX Runtime {listed(versions)}; {'; '.join(made)}.*"
        )

    def sentences(self):
        """What confirms the rates, and what does not hold."""
        lines = []
        for what, method, key in [
            ("A GPU in software has the outcome of the simulated f16", "f16", "emulated"),
            ("Floe's host has the outcome of ONNX Runtime for Floe's 8 bits", "floe", "host"),
        ]:
            found = [result["rows"][method][key] for result in self.results if key in result["rows"].get(method, {})]
            if found:
                lines.append(f"- {what} on {sum(one['same'] for one in found):,} of {sum(one['tests'] for one in found):,} tests.")
        missed = {result["title"]: results.misses(result) for result in self.results}
        held = [title for title, found in missed.items() if not found]
        lines.append(f"- Floe's 8 bits hold what is asked of them on {len(held)} of {len(missed)} tasks.")
        lines += [f"- Not on {title}: {listed(found)}." for title, found in missed.items() if found]
        return "\n".join(lines)


def row(result):
    rows = result["rows"]
    best = results.best_of_onnx_runtime(rows)
    shares = [rows[method]["share"] for method in results.ONNX_RUNTIME if method in rows and rows[method]["rate"] == best]
    cells = [f"{result['title']}, {result['model']}", result["metric"], f"{result['tests']:,}"]
    cells += [cell(method, rows.get(method)) for method in results.METHODS]
    return [*cells, f"{min(shares):.1f}" if shares else "", f"{rows['floe']['share']:.1f}" if "floe" in rows else ""]


def cell(method, found):
    if found is None:
        return ""
    if method == "f32":
        return f"{found['rate']:.1f}"
    low, high = found["difference_interval"]
    return f"{found['rate']:.1f} ({signed(low)} to {signed(high)})"


def signed(value):
    """Without a negative zero."""
    return f"{round(value, 1) + 0.0:+.1f}"
