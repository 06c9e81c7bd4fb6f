"""Tests of `run` without a GPU: programs that answer what is asked of them stand for `floec`, `floe`, nvidia-smi and PyTorch.
`python3 tools/benchmark/test.py`."""

import concurrent.futures.process  # Here, since what is imported under a patch of sys.modules is dropped behind it.
import array
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import struct
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import rounding
from measurements import Results, spread

loader = importlib.machinery.SourceFileLoader("run", str(HERE / "run"))
run = importlib.util.module_from_spec(importlib.util.spec_from_loader("run", loader))
sys.modules["run"] = run
loader.exec_module(run)

FLOEC = """#!/bin/sh
if [ "$1" = compile ]; then
    case $2 in *broken*) echo "error: no such operator" >&2 && exit 1 ;; esac
    for plan; do :; done
    echo "$@" >"$plan"
else
    measured=$(grep -q -e --timings "$2" && echo true || echo false)
    step='{"measured": '$measured', "family": "conv", "flops": 10, "bytes": 20, "expected_us": 1.5}'
    predicted='{"us": 5.0, "dram_read": 30, "dram_written": 10}'
    echo '{"variants": [{"predicted": '$predicted', "steps": ['$step, $step, $step', {"family": "guard"}]}]}'
fi
"""
FLOE = """#!/bin/sh
if [ "$1" = run ]; then
    for folder; do :; done
    exec cp "$(dirname "$0")/output.npy" "$folder"
fi
echo "$@" >>"$(dirname "$0")/log"
times='{"min": 1.0, "median": 2.0, "p90": 3.0, "p99": 4.0, "max": 5.0}'
for word; do
    [ "$last" != --json ] || echo '{"iterations": 500, "device_time": '$times', "round_trip": '$times'}' >"$word"
    last=$word
done
"""
PEERS = """
import json, sys
sms = int(sys.argv[sys.argv.index("--sms") + 1]) if "--sms" in sys.argv else 0
program = "torch.compile" if "--compile" in sys.argv else "pytorch"
for case in sys.argv[1:]:
    if case.count("/") == 1:
        name, batch = case.split("/")
        line = {"network": name, "batch": int(batch), "sms": sms, "program": program, "iterations": 200}
        print("noise", json.dumps(line | {"device": {"min": 1, "median": 4, "p90": 5, "max": 6}}), sep="\\n", flush=True)
"""
SMI = """#!/bin/sh
echo "NVIDIA H200, 580.1, GPU-${UUID-1}"
"""


def npy(path, numbers, kind="<f4", major=1):
    """A .npy file as NumPy writes it."""
    header = repr({"descr": kind, "fortran_order": False, "shape": (len(numbers),)}).encode().ljust(63) + b"\n"
    length = struct.pack("<H" if major == 1 else "<I", len(header))
    path.write_bytes(b"\x93NUMPY" + bytes([major, 0]) + length + header + array.array("f", numbers).tobytes())


def elements(case, path):
    path.touch()
    if not case[0].endswith("_int8"):
        npy(path.with_suffix(".input.npy"), [1.0])
        npy(path.with_suffix(".reference.npy"), [3.0, 4.0])
        path.with_suffix(".input").write_text("x")
    return 1000


class Run(unittest.TestCase):
    cases = [("a", 1), ("a", 8), ("b", 1)]

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for name, text in [("floec", FLOEC), ("floe", FLOE), ("nvidia-smi", SMI), ("peers.py", PEERS)]:
            (self.folder / name).write_text(text)
            (self.folder / name).chmod(0o755)
        self.out = self.folder / "out.json"
        npy(self.folder / "output.npy", [3.0, 4.5])
        torch = types.SimpleNamespace(
            __version__="2.11", backends=types.SimpleNamespace(cudnn=types.SimpleNamespace(version=lambda: 91900))
        )
        networks = types.SimpleNamespace(cases=lambda: self.cases)
        elements.__module__, elements.__qualname__ = "run", "export"
        for patch in [
            mock.patch.dict(sys.modules, {"torch": torch, "networks": networks}),
            mock.patch.dict(os.environ, {"PATH": f"{self.folder}:{os.environ['PATH']}"}),
            mock.patch.object(run, "HERE", self.folder),
            mock.patch.object(run, "export", elements),
        ]:
            patch.start()
            self.addCleanup(patch.stop)

    def call(self, *words):
        """Exit status and what was printed."""
        said = io.StringIO()
        arguments = [
            "run",
            self.folder,
            self.out,
            "--work",
            self.folder / "work",
            "--compile",
            "b/1",
            "--commit",
            "abc",
            *words,
        ]
        with (
            mock.patch.object(sys, "argv", [str(word) for word in arguments]),
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(said),
        ):
            with self.assertRaises(SystemExit) as left:
                run.main()
        return left.exception.code, said.getvalue()

    def benches(self):
        """What was timed, without the runs that only have PTX translated."""
        return [line for line in (self.folder / "log").read_text().splitlines() if "--json" in line]

    def test_everything_is_measured_once(self):
        self.assertEqual(self.call()[0], 0)
        results = Results(self.out)
        self.assertEqual(
            results.run["machines"][0] | {"id": ""},
            {"gpu": "NVIDIA H200", "driver": "580.1", "id": "", "torch": "2.11", "cudnn": 91900},
        )
        # Six plans and three slices of PyTorch for each network, and one torch.compile.
        self.assertEqual(len(results.lines), 3 * (6 + 3) + 1)
        line = results.find(network="a", batch=8, sms=16, plan="timing table")
        self.assertEqual([line[name] for name in ("steps", "measured", "flops", "bytes", "elements")], [3, 3, 30, 60, 1000])
        self.assertEqual(line["device"], {"min": 1.0, "median": 2.0, "p90": 3.0, "max": 5.0})
        log = (self.folder / "log").read_text().splitlines()
        self.assertEqual(len(log), 18 + 6, "plans of PTX are run once before anything is timed")
        self.assertTrue(all("--iterations 1 " in line for line in log[:6]))
        self.assertEqual(sum(line.startswith('  {"network":') for line in self.out.read_text().splitlines()), 28)
        self.assertEqual(self.call("--resume")[0], 0)
        self.assertEqual(len(self.benches()), 18)

    def test_a_run_is_resumed(self):
        status, said = self.call("--minutes", "0")
        self.assertEqual((status, len(Results(self.out).lines)), (1, 0))
        self.assertIn("28 of 28 measurements are missing", said)
        self.assertEqual(self.call("--resume", "--only", "a")[0], 0)
        self.assertEqual(self.call("--resume")[0], 0)
        self.assertEqual((len(self.benches()), len(Results(self.out).lines)), (18, 28))

    def test_nothing_is_overwritten_and_commits_are_not_mixed(self):
        self.call()
        self.assertEqual(self.call()[0], 2)
        self.assertEqual(self.call("--resume", "--commit", "def")[0], 2)

    def test_a_table_is_of_one_machine(self):
        self.call()
        results = Results(self.out)
        results.lines.remove(results.find(network="b", sms=16, program="pytorch"))
        results.write()
        with mock.patch.dict(os.environ, {"UUID": "2"}):
            self.assertEqual(self.call("--resume")[0], 0)
        results = Results(self.out)
        self.assertEqual({(line["sms"], line["machine"]) for line in results.lines}, {(0, 0), (16, 1), (8, 0)})
        self.assertEqual(len(results.lines), 28)

    def test_a_network_that_fails_does_not_cost_the_others(self):
        self.cases = [*self.cases, ("broken", 1)]
        status, said = self.call()
        self.assertEqual((status, len(Results(self.out).lines)), (1, 28 + 3))
        self.assertIn("no such operator", said)
        self.assertIn("6 of 37 measurements are missing", said)

    def test_quantised_networks_are_timed_without_peers(self):
        self.cases = [*self.cases, ("b_int8", 1)]
        self.assertEqual(self.call()[0], 0)
        lines = Results(self.out).lines
        self.assertEqual(len(lines), 28 + 6)
        self.assertEqual({line["program"] for line in lines if line["network"] == "b_int8"}, {"floe"})

    def test_only_the_kinds_of_plans_asked_for_are_measured(self):
        self.assertEqual(self.call("--plans", "cost model")[0], 0)
        lines = Results(self.out).lines
        self.assertEqual(len(lines), 3 * (4 + 3) + 1)
        self.assertEqual({line.get("plan") for line in lines}, {"cost model", None})
        self.assertEqual(self.call("--resume", "--plans", "guess")[0], 2)

    def test_the_error_of_f16_stands_beside_the_time(self):
        self.cases = [*self.cases, ("b_int8", 1)]
        status, said = self.call("--no-peers")
        self.assertEqual(status, 0)
        # 0.5 of 5.
        self.assertIn("2.0 us, f16 error 1.0e-01", said)
        errors = {(line["network"], line.get("f16_error")) for line in Results(self.out).lines}
        self.assertEqual(errors, {("a", 0.1), ("b", 0.1), ("b_int8", None)})
        npy(self.folder / "output.npy", [3.0, float("nan")])
        _, said = self.call("--resume", "--no-peers", "--only", "b", "--commit", "abc")
        self.assertNotIn("f16 error", said)
        self.out.unlink()
        self.assertIn("2.0 us, f16 error not finite", self.call("--no-peers")[1])
        npy(self.folder / "output.npy", [3.0])
        self.out.unlink()
        status, said = self.call("--no-peers")
        self.assertEqual(status, 1)
        self.assertIn("1 numbers, the reference has 2", said)

    def test_numbers_are_read_as_numpy_writes_them(self):
        for major in (1, 2):
            npy(self.folder / "a.npy", [1.0, -2.5], major=major)
            self.assertEqual(list(rounding.load(self.folder / "a.npy")), [1.0, -2.5])
        npy(self.folder / "a.npy", [1.0], kind="<i4")
        with self.assertRaisesRegex(ValueError, "holds <i4"):
            rounding.load(self.folder / "a.npy")
        (self.folder / "a.npy").write_text("no numbers")
        with self.assertRaisesRegex(ValueError, "is no .npy file"):
            rounding.load(self.folder / "a.npy")

    def test_percentiles_are_by_nearest_rank(self):
        self.assertEqual(spread(range(200, 0, -1)), {"min": 1, "median": 100, "p90": 180, "max": 200})
        self.assertEqual(spread([3.0]), {"min": 3.0, "median": 3.0, "p90": 3.0, "max": 3.0})


if __name__ == "__main__":
    unittest.main()
