"""Tests of the figures in documents: `python3 tools/figures/test.py`."""

import json
import re
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from benchmarks import Benchmarks
from catalogue import GPU, RECORD
from quality import Quality
from documents import process
from marks import Broken, differences, replaced, uncovered

ROOT = Path(__file__).resolve().parent.parent.parent


def times(median):
    return {"min": median - 1, "median": median, "p90": median + 1, "max": median + 9}


def measured(slow="vgg16"):
    """Results of a whole run as tools/benchmark/run writes them; Floe is slower on one network."""
    plans = [(0, "h200", "cost model"), (0, "h200", "timing table"), (16, "jetson-agx-orin", "cost model")]
    plans += [(16, "h200-16", "cost model"), (16, "h200-16", "timing table"), (8, "jetson-orin-nano", "cost model")]
    lines = []
    networks = [
        ("resnet50", 1, 100.0, 25.6e6, 0),
        ("resnet50", 8, 300.0, 26.8e6, 0),
        ("vgg16", 1, 200.0, 138.5e6, 0),
        ("lstm", 1, 50.0, 1e6, 2),
    ]
    for network, batch, own, elements, recurrent in networks:
        base = {"network": network, "batch": batch, "machine": 0}
        for number, (sms, target, plan) in enumerate(plans):
            facts = {"steps": 57, "measured": 0 if plan == "cost model" or recurrent else 9, "recurrent": recurrent}
            facts |= {"flops": 8_200_000_000 * batch, "bytes": int(3 * elements), "elements": int(elements)}
            # As long as it takes at the clock of the H200.
            expected = own * {"jetson-agx-orin": 1980 / 1300, "jetson-orin-nano": 1980 / 1020}.get(target, 1)
            facts |= {"expected": expected, "predicted": own + 1, "dram": 1000 * own * (200 if network == "vgg16" else 1)}
            latency = {"iterations": 500, "device": times(own + number), "round_trip": times(own + 50)}
            lines.append(base | {"sms": sms, "program": "floe", "target": target, "plan": plan} | latency | facts)
        for sms in (0, 16, 8):
            peer = own / 2 if network == slow else 4 * own
            lines.append(base | {"sms": sms, "program": "pytorch", "iterations": 200, "device": times(peer)})
        if not recurrent:
            lines.append(base | {"sms": 0, "program": "torch.compile", "iterations": 200, "device": times(2 * own)})
    for line in [line for line in lines if line["program"] == "floe" and line["network"] in ("resnet50", "vgg16") and line["batch"] == 1]:
        # Faster in 8 bits, except on eight multiprocessors where the network is slow.
        own = line["device"]["median"] * (2 if line["sms"] == 8 and line["network"] == slow else 0.5)
        facts = {"steps": 60, "expected": line["expected"] * own / line["device"]["median"]}
        lines.append(line | {"network": line["network"] + "_int8", "device": times(own)} | facts)
    machine = {"gpu": "NVIDIA H200", "driver": "580.159.04", "id": "0123abcd", "torch": "2.11.0+cu130", "cudnn": 91900}
    return {"run": {"commit": "abc1234", "date": "2026-11-22", "machines": [machine]}, "results": lines}


class Marks(unittest.TestCase):
    text = "It takes <!-- figure time -->73 µs<!-- end -->.\n\n<!-- figure table -->\n| a |\n| 1 |\n<!-- end -->\n"
    figures = {"time": "73 µs", "table": "| a |\n| 1 |"}

    def test_a_planted_wrong_number_is_found(self):
        self.assertEqual(differences(self.text, self.figures.get), [])
        wrong = differences(self.text.replace("73", "72"), self.figures.get)
        self.assertEqual(wrong, ["1: figure time: expected '73 µs', found '72 µs'"])
        wrong = differences(self.text.replace("| 1 |", "| 2 |"), self.figures.get)
        self.assertEqual(wrong, ["5: figure table: expected '| 1 |', found '| 2 |'"])
        self.assertEqual(replaced(self.text.replace("73", "72"), self.figures.get), self.text)

    def test_a_missing_row_is_found(self):
        wrong = differences(self.text.replace("| 1 |\n", ""), self.figures.get)
        self.assertEqual(wrong, ["5: figure table: expected '| 1 |', found ''"])

    def test_marks_are_pairs_of_known_figures(self):
        def unknown(name):
            raise LookupError("there is no such figure")

        for text in ["a <!-- figure time -->73", "a <!-- end -->", "<!-- figure a -->1 <!-- figure b -->2<!-- end -->"]:
            with self.assertRaises(Broken, msg=text):
                replaced("\n" + text, self.figures.get)
        with self.assertRaisesRegex(Broken, "^2: figure nothing: there is no such figure"):
            replaced("\na <!-- figure nothing -->1<!-- end -->", unknown)
        with self.assertRaisesRegex(Broken, "^2: figure time: a figure within a line must not begin it"):
            replaced("It takes\n  <!-- figure time -->73 µs<!-- end --> on `this`.", self.figures.get)

    def test_an_unmarked_number_is_found(self):
        for text in ["73 µs", "1.4ms", "82 KiB of code", "3.2 times as fast", "62 % of it", "1,609 of the 1,905 cases", "33 of 34", "4.8 TB/s",
                     "989 TFLOP/s", "82\nKiB", "110 ms in f32", "2× as long", "takes\n a <!-- figure time -->73 µs<!-- end --> and 5 s"]:  # fmt: skip
            found = uncovered(f"First line.\n\nIt is {text}.\n")
            self.assertEqual(len(found), 1, (text, found))
            self.assertTrue(found[0].startswith("4" if "takes" in text else "3"), found)
        self.assertEqual(len(uncovered("| resnet18 | 73 | **3.55** |")), 2)

    def test_what_is_no_claim_is_left_alone(self):
        for text in ["16 multiprocessors", "JetPack 6 and 2048 inputs", "`--minutes 9 s`", "so:\n```\nsleep 5 s\n```\n", "[page](a/5 ms.md)", "f16 and compute_87",
                     "<!-- figure time -->73<!-- end --> µs", "glibc 2.31 on `x`", "Section 20. So it is"]:  # fmt: skip
            self.assertEqual(uncovered(f"It is {text}, as said.\n"), [], text)
        self.assertEqual(uncovered("| CUDA | 11.4 |", ["| CUDA | 11.4 |"]), [])


class Tables(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.file = Path(self.folder.name) / "results.json"
        self.addCleanup(self.folder.cleanup)

    def tables(self, results):
        self.file.write_text(json.dumps(results))
        return Benchmarks(self.file, ROOT / "targets/descriptions")

    def test_means_are_with_and_without_recurrent_layers_and_name_the_losses(self):
        text = self.tables(measured()).whole()
        # 4, 4, 0.5 and 4; without the last, whose plan by the timing table has no measured step, also by that table.
        self.assertIn("Plans by the cost model: PyTorch + cuDNN takes **2.38** times", text)
        self.assertIn(
            "(geometric mean of 4 rows; 2.00 without the 1 with recurrent layers). Floe is slower on vgg16 (0.50).", text
        )
        self.assertIn("(geometric mean of 3 rows). Floe is slower on vgg16 (0.50).", text)
        self.assertIn("commit abc1234, 2026-11-22", text)
        self.assertIn("Floe is slower on none of them", self.tables(measured(slow=None)).whole())

    def test_larger_errors_of_f16_are_named(self):
        results = measured()
        self.assertNotIn("f16 error", self.tables(results).whole())
        errors = {("resnet50", "floe"): 1e-3, ("resnet50", "pytorch"): 2e-3, ("vgg16", "floe"): 3e-3, ("vgg16", "pytorch"): 2e-3}
        for line in results["results"]:
            if (line["network"], line["program"]) in errors and line["batch"] == 1:
                line["f16_error"] = errors[line["network"], line["program"]]
        text = self.tables(results).whole()
        self.assertIn("Floe's f16 error is **0.87** times PyTorch's (geometric mean of 2 rows); larger on vgg16 (1.50 times).", text)

    def test_a_network_without_measured_kernels_has_no_time_by_the_table(self):
        [row] = [line for line in self.tables(measured()).whole().splitlines() if line.startswith("| lstm")]
        self.assertEqual(row, "| lstm | 1 | 57 |  | 50 |  | 100 | 200 | 4.00 |  | 13 |")

    def test_floors_are_of_the_device_and_leave_out_what_its_cache_holds(self):
        tables = self.tables(measured())
        orin = tables.descriptions["jetson-agx-orin"]
        arithmetic = 8.2e9 / (orin["f16_tflops"] * 1e6)
        memory = (2 * 138.5e6 - orin["l2_bytes"]) / (orin["bandwidth"] * 1e3)
        self.assertAlmostEqual(
            tables.floor(("resnet50", 1), "jetson-agx-orin"),
            max(arithmetic, (2 * 25.6e6 - orin["l2_bytes"]) / (orin["bandwidth"] * 1e3)),
        )
        self.assertAlmostEqual(tables.floor(("vgg16", 1), "jetson-agx-orin"), memory)
        self.assertAlmostEqual(tables.traffic(("vgg16", 1), "jetson-agx-orin"), 3 * 138.5e6 / (orin["bandwidth"] * 1e3))
        # Half of the bandwidth, and a smaller cache.
        self.assertGreater(tables.floor(("vgg16", 1), "jetson-orin-nano"), 2 * memory)
        # 51 MB fit into the cache of an H200: what is left is arithmetic.
        h200 = tables.descriptions["h200"]
        self.assertAlmostEqual(tables.floor(("resnet50", 1), "h200"), 8.2e9 / (h200["f16_tflops"] * 1e6))

    def test_a_gpu_has_its_own_bandwidth_whichever_plans_it_runs(self):
        described, results = self.tables(measured()), measured()
        results["run"]["machines"][0]["gpu"] = "NVIDIA H100 80GB HBM3"
        own, network = self.tables(results), ("vgg16", 1)
        self.assertAlmostEqual(own.floor(network, "h200") / described.floor(network, "h200"), 4800 / 3350)
        self.assertEqual(own.floor(network, "jetson-agx-orin"), described.floor(network, "jetson-agx-orin"))

    def test_8_bits_are_compared_with_f16_and_stand_in_no_other_table(self):
        tables = self.tables(measured())
        text = tables.quantised()
        self.assertRegex(text, r"\| resnet50 \| 57 \| 60 \| 100 \| 50 \| 2.00 \|")
        self.assertIn("On the whole GPU: f16 takes **2.00** times as long as 8 bits (geometric mean of 2 rows)", text)
        self.assertIn("Orin Nano's code: f16 takes **1.00** times as long", text)
        self.assertIn("8 bits are slower on vgg16 (0.50).", text)
        self.assertNotIn("_int8", tables.whole() + tables.short() + tables.slice(16))
        # Half of the bytes, and another rate.
        orin = tables.descriptions["jetson-agx-orin"]
        self.assertAlmostEqual(
            tables.floor(("vgg16_int8", 1), "jetson-agx-orin"), (138.5e6 - orin["l2_bytes"]) / (orin["bandwidth"] * 1e3)
        )

    def test_measured_times_stand_beside_expected_ones_at_the_clock_of_the_slice(self):
        tables = self.tables(measured())
        orin, h200 = (tables.descriptions[name] for name in ("jetson-agx-orin", "h200"))
        at_clock, time, share = tables.expected(("resnet50", 1), 16)
        self.assertEqual((orin["clock"], h200["clock"]), (1300, 1980))
        self.assertAlmostEqual(at_clock, 100)
        # Of Orin's code, not of Hopper's on the same slice.
        self.assertEqual(time, 102)
        self.assertAlmostEqual(share, 102 / 100)
        self.assertEqual(tables.expected(("resnet50", 1), 0), (100, 100, 1))
        # Memory takes 40 MB over 204.8 GB/s there, 64 % of what is expected; on the whole GPU it counts.
        self.assertIsNone(tables.expected(("vgg16", 1), 16)[2])
        self.assertEqual(tables.expected(("vgg16", 1), 0), (200, 200, 1))
        text = tables.predictions()
        self.assertRegex(text, r"\| resnet50 \| 100 \| 100 \| 1.00 \| 100 \| 102 \| 1.02 \|")
        self.assertIn("expected time: vgg16 and vgg16_int8.", text)
        self.assertEqual(tables.predicted("resnet50", "jetson-agx-orin"), "0.10 ms")

    def test_errors_of_f16_stand_beside_times(self):
        results = measured()
        self.assertNotIn("f16 error", self.tables(results).whole())
        for line in results["results"]:
            if line["network"] in ("resnet50", "vgg16"):
                line["f16_error"] = {"floe": 2.04e-2, "pytorch": 1.5e-2, "torch.compile": 1e-2}[line["program"]]
            if line["network"] == "vgg16" and line["program"] == "floe":
                line["f16_error"] = None
        tables = self.tables(results)
        self.assertIn("| ratio, timing table | f16 error: Floe | f16 error: PyTorch |", tables.whole())
        self.assertRegex(tables.whole(), r"\| resnet50 \| 1 \| .*\| 2.0e-02 \| 1.5e-02 \|")
        self.assertRegex(tables.whole(), r"\| vgg16 \| 1 \| .*\| not finite \| 1.5e-02 \|")
        self.assertRegex(tables.whole(), r"\| lstm \| 1 \| .*\|  \|  \|")
        self.assertIn("f16 error: torch.compile |", tables.compiled())

    def test_an_error_is_no_time(self):
        results = measured()
        for line in results["results"]:
            if line["network"] == "vgg16" and line["program"] == "pytorch":
                del line["device"]
                line["error"] = "out of memory"
        text = self.tables(results).whole()
        self.assertIn("geometric mean of 3 rows", text)
        self.assertRegex(text, r"\| vgg16 \| 1 \| 57 \| 9 \| 200 \| 201 \| 250 \|  \|  \|  \|")


def quality(bar, f32, **rates):
    """Results of a bar as tools/quality writes them: rates and, for 8 bits, shares."""
    rows = [{"method": "f32", "rate": f32, "interval": [f32 - 1, f32 + 1], "difference": 0.0, "difference_interval": [0.0, 0.0]}]
    for method, (rate, share) in rates.items():
        off = rate - f32
        row = {"method": method, "rate": rate, "difference": off, "difference_interval": [off - 0.2, off + 0.2]}
        rows.append(row | ({"share": share} if share else {}))
    head = {"bar": bar, "title": f"the task {bar}", "metric": "right", "model": "net", "tests": 1000, "samples": 100}
    return head | {"commit": "0123456789" * 4, "date": "2026-11-23", "onnxruntime": "1.31.1", "rows": rows}


class QualityTable(unittest.TestCase):
    def text(self, *found):
        with tempfile.TemporaryDirectory() as folder:
            for result in found:
                (Path(folder) / f"{result['bar']}.json").write_text(json.dumps(result))
            return Quality(Path(folder)).text()

    def test_rates_stand_beside_those_of_f32_and_onnx_runtime(self):
        text = self.text(
            quality("text", 90.0, f16=(90.1, None), minmax=(80.0, 99.0), entropy=(85.0, 98.0), floe=(89.6, 98.04)),
            quality("faces", 90.0, minmax=(89.9, 99.0), floe=(89.9, 99.0)),
        )
        self.assertIn("| the task text, net | right | 1,000 | 90.0 | 90.1 (-0.1 to +0.3) | 80.0 (-10.2 to -9.8) | 85.0", text)
        self.assertIn("| 89.6 (-0.6 to -0.2) | 98.0 | 98.0 |", text)
        self.assertNotIn("its defaults", text)
        self.assertIn("commit 0123456, 2026-11-23", text)
        self.assertIn("hold what is asked of them on 2 of 2 tasks.", text)
        self.assertEqual(self.text(), "*Not measured yet.*")

    def test_what_is_missed_is_named(self):
        for floe, others, missed in [
            ((89.0, 99.0), {"minmax": (80.0, 99.0)}, "1.00 points below f32"),
            ((89.6, 99.0), {"minmax": (80.0, 99.0), "percentile": (89.7, 99.0)}, "not better than ONNX Runtime's best of 89.70"),
            ((89.9, 98.0), {"minmax": (80.0, 97.0), "percentile": (89.8, 99.0)}, "98.0% of the multiply-adds in 8 bits where ONNX Runtime's best has 99.0%"),
            (None, {"minmax": (80.0, 99.0)}, "Floe has no row"),
        ]:  # fmt: skip
            text = self.text(quality("text", 90.0, **others, **({"floe": floe} if floe else {})))
            self.assertIn(f"- Not on the task text: {missed}.", text)
            self.assertIn("on 0 of 1 tasks", text)
        held = quality("lobes", 90.0, minmax_tensor=(44.9, 99.0), floe=(89.1, 90.0))
        self.assertIn("on 1 of 1 tasks", self.text(held))
        self.assertIn("| 44.9 (-45.3 to -44.9) |", self.text(held))
        text = self.text(quality("lobes", 90.0, minmax_tensor=(45.1, 99.0), floe=(88.9, 90.0)))
        self.assertIn("1.10 points below f32 and ONNX Runtime's defaults do not collapse", text)

    def test_confirmations_are_summed(self):
        found = quality("text", 90.0, f16=(90.0, None), floe=(90.0, 99.0))
        found["rows"][1]["emulated"] = {"tests": 20, "same": 19}
        found["rows"][2]["host"] = {"tests": 50, "same": 50, "rate": 90.0}
        text = self.text(found, found | {"bar": "faces"})
        self.assertIn("has the outcome of the simulated f16 on 38 of 40 tests", text)
        self.assertIn("for Floe's 8 bits on 100 of 100 tests", text)


# What tools/conformance/architectures/results.py offers, in short.
RESULTS = """
FOREIGN, PASSED = {"export": "", "unrun": ""}, "ok"
class Results:
    def __init__(self, path):
        self.lines = [dict(zip(("source", "network", "status"), line.split())) for line in path.read_text().splitlines()]
"""


class Documents(unittest.TestCase):
    """The documents of this repository with other results."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for path in ["README.md", "BENCHMARKS.md", "CHANGELOG.md", "STABILITY.md", "SUPPORT.md", "Cargo.toml", "engine/src/plan", "tools/timings/src", "engine/tests", "models/zoo.toml", "targets", "tools/floec/src", "tools/quality"]:
            copy = shutil.copytree if (ROOT / path).is_dir() else shutil.copy
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            copy(ROOT / path, self.root / path)
        shutil.copytree(ROOT / "tools/conformance/architectures", self.root / "tools/conformance/architectures")
        self.assertEqual(process(self.root, True), [])

    def test_a_new_run_needs_no_edits_by_hand(self):
        (self.root / f"targets/benchmarks/{GPU}.json").write_text(json.dumps(measured()))
        self.assertNotEqual(process(self.root, False), [])
        self.assertEqual(process(self.root, True), [])
        self.assertEqual(process(self.root, False), [])
        readme, benchmarks = ((self.root / name).read_text() for name in ("README.md", "BENCHMARKS.md"))
        for text in (readme, benchmarks):
            self.assertIn("abc1234", text)
            self.assertNotIn("01b67c1", text)
            self.assertNotIn("Not measured yet", text)
        self.assertIn("plans by the cost model", readme)
        self.assertNotIn("timing table", readme.split("## How fast")[1].split("## From Rust")[0])
        self.assertRegex(readme, r"\| network \| Floe \| PyTorch \+ cuDNN \| Orin's code, 16 SMs \|.* AGX Orin: floor \|")
        self.assertEqual(len(re.findall(r"^\| resnet50 \| 8 \|", benchmarks, re.MULTILINE)), 5)

    def test_what_a_run_left_out_stands_in_results_of_before(self):
        folder, results = self.root / "targets/benchmarks", measured()
        for older in folder.glob(f"{GPU}-*.json"):
            older.unlink()
        (folder / f"{GPU}-1234567.json").write_text(json.dumps(results | {"run": results["run"] | {"commit": "1234567"}}))
        results["results"] = [line for line in results["results"] if line["program"] != "torch.compile"]
        (folder / f"{GPU}.json").write_text(json.dumps(results))
        process(self.root, True)
        compiled = (self.root / "BENCHMARKS.md").read_text().split("## torch.compile")[1].split("\n## ")[0]
        self.assertIn("commit 1234567", compiled)
        self.assertNotIn("abc1234", compiled)

    def test_a_new_record_needs_no_edits_by_hand(self):
        def change(change):
            path = self.root / f"targets/verified/{RECORD}.json"
            record = json.loads(path.read_text())
            change(record)
            path.write_text(json.dumps(record))
            self.assertEqual(process(self.root, True), [])
            return (self.root / "README.md").read_text()

        def new(record):
            record["run"] |= {"commit": "0123456789abcdef with changes", "date": "2026-11-22", "sources": {"engine": "aaa"}}
            passed, failed = {"passed": 1500, "failures": []}, {"passed": 10, "unsupported": ["a"], "failures": ["wrong"]}
            record["kernels"] = {"87ptx": {"conv": passed, "top_k": failed}, "90": {"conv": passed}}
            latency = {"device": {"median": 71.2}}
            record["networks"] = {
                f"blazeface-front-{kind}": {"failures": [], "timed": 0, "latency": latency}
                for kind in ("f16 h200 f16", "orin jetson-orin-nano f16")
            } | {
                "near-orin jetson-orin-nano f16": {"failures": [], "latency": None, "emulated": {"part": 0.0, "same": 7, "elements": 7}},
                "apart-orin jetson-orin-nano f16": {
                    "failures": ["emulated: differs by 1"],
                    "latency": None,
                    "emulated": {"part": 1.0, "same": 6, "elements": 7},
                },
                "smart-turn-v3.2-qdq-orin jetson-orin-nano f16": {
                    "failures": ["far off"],
                    "latency": None,
                    "instead": "smart-turn-v3.2-qdq-steps",
                }
            }
            record["suite"] = {"h200 f32": {"passed": 1609, "cases": 1905}, "h200 f16": {"passed": 1500, "cases": 1905}}
            record["heap"] = {
                mode: {"replays": 100_000, "heap": {}, "growth": [0, 0]} for mode in ("device poll", "device block")
            }

        gpu = json.loads((self.root / f"targets/verified/{RECORD}.json").read_text())["run"]["gpu"]
        readme = change(new)
        for text in ["commit 0123456 with changes, 2026-11-22<", "1,510 of 1,511 (all but 1 of `top_k`)", "figure record networks jetson-orin-nano -->3 of 4<", "figure record emulated -->1 of 2<", "figure record identical -->1<",
                     f"On an {gpu}, 1,609 of 1,905 in f32 and 1,500 of 1,905 in f16 pass.",
                     "100,000 replays in each of 2 modes: no call of an allocating function."]:  # fmt: skip
            self.assertIn(text, readme)
        part = change(lambda record: record["run"].update(skipped=["suite", "soak/a", "soak/b"]))
        self.assertIn("all but `suite` and 2 of `soak` were made.", part)
        self.assertIn("all were made.", change(lambda record: record["run"].pop("skipped")))
        soak = {"replays": 1000, "different": 0, "median": 100.0, "p999": 140.0, "busy_wait": 110.0, "failures": []}
        fails = change(lambda record: record.update(soak={"a": soak | {"failures": ["a leak", "more"]}, "b": soak | {"p999": 160.0}}))
        self.assertRegex(fails, r"[1-9] of them failed: .*`soak`, a: a leak[;.]")
        self.assertIn("of 2,000 replays that wait in 2 ways, 0 differ; p99.9 of the round trip is 1.40 to 1.60 times its median (goal: 1.5, missed by 1 of 2), that of busy waits as long 1.10 times.", fails)
        self.assertIn("(goal: 1.5, met)", change(lambda record: record["soak"]["b"].update(p999=149.0)))
        sound = change(lambda record: [one.update(failures=[]) for part in ("soak", "networks") for one in record[part].values()])
        self.assertIn("None of them failed.", sound)
        self.assertIn("| blazeface-front | 71 | 71 |", (self.root / "BENCHMARKS.md").read_text())
        readme = change(
            lambda record: record["heap"]["device poll"].update(heap={"replay": {"malloc": 3, "free": 2}}, growth=[1, 0])
        )
        self.assertIn("2 modes: calls of `malloc`, `free` and the like, by way of waiting: 5 with `poll` and 0 with `block`; 1 blocks and 0 mappings were left.", readme)
        # A part that has not been made again is that of an older record, which is named; without one nothing is said.
        folder = self.root / "targets/verified"
        for path in folder.glob(f"{RECORD}-*.json"):
            path.unlink()
        older = json.loads((folder / f"{RECORD}.json").read_text())
        older["run"]["commit"] = "fedcba9876543210"
        (folder / f"{RECORD}-fedcba9.json").write_text(json.dumps(older))
        readme = change(lambda record: record.pop("heap"))
        self.assertRegex(readme, r"commit fedcba9, 2026-11-22\), 100,000 replays in each of 2 modes")
        readme = change(lambda record: record["kernels"].pop("87ptx"))
        self.assertRegex(readme, r"1,510 of 1,511 \(all but 1 of `top_k`\) \(in an older record: .*, commit fedcba9, 2026-11-22\)")
        change(lambda record: record.update(kernels=older["kernels"]))
        (folder / f"{RECORD}-fedcba9.json").unlink()
        self.assertNotIn("100,000 replays", change(lambda record: None))

    def test_a_new_suite_and_new_architectures_need_no_edits_by_hand(self):
        support = self.root / "SUPPORT.md"
        counts = "input of the plan (1290 cases). Where the model\ncompiles: the case is *baked* (251), or *folded* where the compiler computed everything (68)."
        support.write_text(f"of 1905 cases 1609 pass. Every {counts}\nOf the 929 core cases 927 pass;")
        folder = self.root / "tools/conformance/architectures"
        (folder / "results.py").write_text(RESULTS)
        lines = [
            "timm\ta\tok",
            "timm\ta\texport",
            "timm\tb\trefused",
            "papers\tc\tok",
            "timm\td\tunrun",
            "transformers\te\tok",
        ]
        (folder / "results.tsv").write_text("\n".join(lines))
        self.assertEqual(process(self.root, True), [])
        readme = (self.root / "README.md").read_text()
        for text in ["1,290 take every input at run time, 251 have some", ">2 of 3 networks<", ">1 of 1 networks<"]:
            self.assertIn(text, readme)

    def test_a_wrong_figure_in_a_sentence_is_found(self):
        path = self.root / "README.md"
        path.write_text(re.sub(r"(<!-- figure suite core -->)[\d,]+", r"\g<1>928", path.read_text()))
        [found] = process(self.root, False)
        self.assertRegex(found, r"^README.md:\d+: figure suite core: expected '.* of .*', found '928 of")

    def test_a_typed_figure_is_found(self):
        path = self.root / "BENCHMARKS.md"
        path.write_text(path.read_text() + "\nAll in all 3.2 times as fast.\n")
        [found] = process(self.root, False)
        self.assertRegex(found, r"^BENCHMARKS.md:\d+: '3.2 times' comes from no results file")
        self.assertNotEqual(process(self.root, True), [], "nor does writing hide it")


if __name__ == "__main__":
    unittest.main()
