"""Tests of `versus`: programs that answer what is asked of them stand for `floec`, `floe` and trtexec, modules for ONNX Runtime and
PyTorch. Needs NumPy; `python3 tools/benchmark/test_versus.py`."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock
from xml.dom import minidom

try:
    import numpy
except ImportError:
    print("skipped: NumPy is missing")
    sys.exit(0)

HERE = Path(__file__).resolve().parent
loader = importlib.machinery.SourceFileLoader("versus", str(HERE / "versus"))
versus = importlib.util.module_from_spec(importlib.util.spec_from_loader("versus", loader))
loader.exec_module(versus)
from _versus import measure, opponents  # noqa: E402 (where versus has found it)

BINDINGS = [
    {"name": "x", "direction": "input", "dtype": "f32", "shape": [2, 3]},
    {"name": "n", "direction": "input", "dtype": "i64", "shape": [4]},
    {"name": "a/b", "direction": "output", "dtype": "f32", "shape": [2, 3]},
]
FLOEC = f"""#!{sys.executable}
import json, pathlib, sys
words = sys.argv[1:]
if words[0] == "compile":
    if "broken" in words[1]:
        sys.exit("error: no such operator")
    pathlib.Path(words[words.index("-o") + 1]).write_text("plan")
else:
    print(json.dumps({{"variants": [{{"target": "host", "precision": "f32", "bindings": {BINDINGS!r}}}]}}))
"""
# Gives twice the first input, as the reference does, but for a thousandth.
FLOE = f"""#!{sys.executable}
import json, pathlib, sys, numpy
words = sys.argv[1:]
if words[0] == "run":
    x = next(word.split("=", 1)[1] for word in words if word.startswith("x="))
    numpy.save(pathlib.Path(words[words.index("--output-dir") + 1]) / "a_b.npy", numpy.load(x) * 2.002)
else:
    pathlib.Path(words[words.index("--json") + 1]).write_text(json.dumps({{"round_trip": {{"median": 40.0}}}}))
"""
TRTEXEC = f"""#!{sys.executable}
import json, pathlib, sys
words = dict(word[2:].split("=", 1) for word in sys.argv[1:] if "=" in word)
if "saveEngine" in words and "{{broken}}" == "yes":
    sys.exit("no parser for this")
if "exportTimes" in words:
    pathlib.Path(words["exportTimes"]).write_text(json.dumps([{{"latencyMs": 0.03}}] * 10))
if "exportOutput" in words:
    pathlib.Path(words["exportOutput"]).write_text(json.dumps([{{"name": "a/b", "dimensions": "2x3", "values": [0.0] * 6}}]))
"""


class Session:
    """Of an ONNX Runtime that doubles `x`."""

    def __init__(self, model, options=None, providers=()):
        self.providers = [provider if isinstance(provider, str) else provider[0] for provider in providers]

    def get_providers(self):
        return self.providers

    def run(self, outputs, feeds):
        assert list(outputs) == ["a/b"] and set(feeds) == {"x", "n"}
        return [feeds["x"] * 2]


def onnx_runtime():
    runtime = types.ModuleType("onnxruntime")
    runtime.__version__ = "1.2.3"
    runtime.get_available_providers = lambda: ["CPUExecutionProvider"]
    runtime.SessionOptions = types.SimpleNamespace
    runtime.GraphOptimizationLevel = types.SimpleNamespace(ORT_DISABLE_ALL=0)
    runtime.InferenceSession = Session
    return runtime


class Versus(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.program("floec", FLOEC)
        self.program("floe", FLOE)
        (self.folder / "net.onnx").write_text("model")
        self.modules = {"onnxruntime": onnx_runtime(), "torch": None, "onnx2torch": None}

    def program(self, name, text):
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o755)

    def run_with(self, *words, model="net.onnx", path=""):
        """Exit status, standard output and standard error."""
        arguments = ["versus", str(self.folder / model), "--binaries", str(self.folder), "--rounds", "2", "--iterations", "3"]
        out, err = io.StringIO(), io.StringIO()
        paths = mock.patch.dict(os.environ, {"PATH": f"{path}{os.pathsep}{os.path.dirname(sys.executable)}"})
        with mock.patch.dict(sys.modules, self.modules), mock.patch.object(sys, "argv", [*arguments, *words]), paths:
            with mock.patch.object(opponents.TensorRT, "PLACES", ()), contextlib.redirect_stdout(
                out
            ), contextlib.redirect_stderr(err):
                with self.assertRaises(SystemExit) as ended:
                    versus.main()
        return int(ended.exception.code or 0), out.getvalue(), err.getvalue()

    def report(self, *words, **others):
        status, out, err = self.run_with("--json", "-", *words, **others)
        self.assertEqual((status, err), (0, ""))
        return json.loads(out)

    def rows(self, report):
        return {(row["program"], row["threads"]): row for row in report["rows"]}

    def test_times_and_accuracy_stand_in_one_row(self):
        rows = self.rows(self.report())
        floe = rows["Floe host", 1]
        self.assertEqual(floe["us"], {"median": 40.0, "min": 40.0, "max": 40.0})
        self.assertAlmostEqual(floe["relative"], 1e-3, places=6)
        self.assertAlmostEqual(floe["cosine"], 1.0, places=6)
        self.assertEqual(rows["ONNX Runtime CPU", 1]["relative"], 0.0)
        self.assertIn(("ONNX Runtime CPU", os.cpu_count()), rows)

    def test_what_is_absent_is_named_with_how_to_install_it(self):
        report = self.report()
        absent = {entry["program"]: entry["install"] for entry in report["absent"]}
        self.assertEqual(set(absent), {"ONNX Runtime CUDA", "ONNX Runtime TensorRT", "TensorRT", "PyTorch", "PyTorch CUDA"})
        self.assertIn("pip install torch", absent["PyTorch"])
        self.assertTrue(all(absent.values()), absent)
        _, out, _ = self.run_with()
        self.assertIn("to have it: pip install torch", out)
        self.assertIn("Never run where this was written: ONNX Runtime CUDA", out)

    def test_without_onnx_runtime_nothing_is_said_of_accuracy(self):
        self.modules["onnxruntime"] = None
        report = self.report()
        self.assertIsNone(report["reference"])
        self.assertIsNone(self.rows(report)["Floe host", 1]["relative"])

    def test_tensorrt_is_timed_by_its_own_program(self):
        self.program("trtexec", TRTEXEC)
        row = self.rows(self.report(path=str(self.folder)))["TensorRT", None]
        self.assertEqual((row["us"]["median"], row["precision"], row["relative"]), (30.0, "f16", 1.0))

    def test_a_peer_that_fails_does_not_cost_the_others(self):
        self.program("trtexec", TRTEXEC.replace("{broken}", "yes"))
        report = self.report(path=str(self.folder))
        [reason] = [entry["why"] for entry in report["absent"] if entry["program"] == "TensorRT"]
        self.assertIn("no parser for this", reason)
        self.assertIn(("Floe host", 1), self.rows(report))

    def test_failure_of_floe_is_exit_status_1(self):
        self.program("floe", "#!/bin/sh\necho 'error: no' >&2; exit 1\n")
        status, out, _ = self.run_with()
        self.assertEqual(status, 1)
        self.assertIn("failed: error: no", out)
        (self.folder / "broken.onnx").write_text("model")
        self.assertEqual(self.run_with(model="broken.onnx")[::2], (1, "error: no such operator\n"))

    def test_a_picture_has_a_bar_for_each_row(self):
        picture = self.folder / "times.svg"
        status, out, _ = self.run_with("--svg", str(picture))
        bars = [bar for bar in minidom.parse(str(picture)).getElementsByTagName("rect") if bar.getAttribute("class") != "back"]
        self.assertEqual((status, len(bars)), (0, out.count("thread")))
        self.assertEqual(len([bar for bar in bars if bar.getAttribute("class") == "floe"]), 1)

    def test_inputs_are_those_that_are_given(self):
        for name, values, problem in [
            ("x", numpy.ones((2, 3), numpy.float32), None),
            ("x", numpy.ones((3, 2), numpy.float32), "the input is float32 [2, 3]"),
            ("n", numpy.ones(4, numpy.int32), "the input is int64 [4]"),
            ("z", numpy.ones(4), "no input 'z'"),
        ]:
            path = self.folder / "given.npy"
            numpy.save(path, values)
            status, _, err = self.run_with("--input", f"{name}={path}")
            self.assertEqual(status, 2 if problem else 0, err)
            self.assertIn(problem or "", err)

    def test_bad_usage_is_exit_status_2(self):
        for words, problem in [
            (["--rounds", "0"], "count from 1"),
            (["--torch", "resnet"], "MODULE:ATTRIBUTE"),
            (["--binaries", "/nowhere"], "cargo build"),
            (["--input", "x=/nowhere.npy"], "No such file"),
            (["--svg", str(self.folder / "net.onnx")], "would be overwritten"),
        ]:
            status, out, err = self.run_with(*words)
            self.assertEqual((status, out), (2, ""), words)
            self.assertIn(problem, err)
        self.assertEqual(self.run_with(model="none.onnx")[0], 2)

    def test_the_output_that_is_furthest_off_counts(self):
        a, b = numpy.array([3.0, 4.0]), numpy.array([1.0])
        self.assertEqual(measure.distance({"a": a, "b": b}, {"a": a, "b": b}), (0.0, 1.0))
        relative, cosine = measure.distance({"a": a, "b": -b}, {"a": a, "b": b})
        self.assertEqual((relative, cosine), (2.0, -1.0))
        self.assertIsNone(measure.distance({"a": a}, {"a": a, "b": b}))
        self.assertEqual(measure.distance({"a": a * numpy.nan}, {"a": a})[0], float("inf"))


if __name__ == "__main__":
    unittest.main()
