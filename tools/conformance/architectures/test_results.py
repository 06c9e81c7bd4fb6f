"""Tests of results.py and table.py: python -m unittest discover -s tools/conformance/architectures"""

import tempfile
import unittest
from pathlib import Path

import table
from results import FIELDS, Mismatch, Results


def results(folder, *lines):
    made = Results(Path(folder) / "results.tsv")
    made.describe("commit", "c")
    made.describe("configured timm", "7")
    for network, exporter, status, detail in lines:
        made.add({"source": "timm", "network": network, "exporter": exporter, "status": status, "difference": 1e-6, "detail": detail})
    return made


class Tables(unittest.TestCase):
    def test_what_disagrees_or_shows_nothing_stays_in_the_denominator(self):
        with tempfile.TemporaryDirectory() as folder:
            made = results(
                folder,
                ("a", "torchscript", "ok", ""),
                ("a", "dynamo", "export", "no"),
                ("b", "torchscript", "ok", ""),
                ("b", "dynamo", "wrong", "by 1"),
                ("c", "torchscript", "sensitive", "by 2"),
                ("d", "torchscript", "nothing", "constant"),
                ("e", "torchscript", "unrun", "no"),
                ("f", "torchscript", "export", "no"),
            )
            # Configured, tried, exported, run, and one that passes: b disagrees with one exporter.
            self.assertIn("| timm | 7 | 6 | 5 | 4 | 1 |", table.networks(made, ["timm"]))
            self.assertIn("| all | 7 | 6 | 5 | 4 | **1 of 4** |", table.networks(made, ["timm"]))
            text = table.table(made, ["timm"])
            for named in ("b (dynamo) | wrong", "c (torchscript) | sensitive", "d (torchscript) | nothing", "e (torchscript) | unrun"):
                self.assertIn(named, text)

    def test_a_document_with_another_table_fails(self):
        with tempfile.TemporaryDirectory() as folder:
            made = results(folder, ("a", "torchscript", "ok", ""))
            models, table.MODELS = table.MODELS, Path(folder)
            try:
                for name in table.DOCUMENTS:
                    (Path(folder) / name).write_text(f"before\n{table.BEGIN}{table.END}after\n")
                self.assertEqual(table.documents(made, check=True), 1)
                self.assertEqual(table.documents(made, check=False), 0)
                self.assertEqual(table.documents(made, check=True), 0)
                made.add({"source": "timm", "network": "b", "exporter": "torchscript", "status": "wrong", "difference": 1})
                self.assertEqual(table.documents(made, check=True), 1)
            finally:
                table.MODELS = models


class Files(unittest.TestCase):
    def test_results_of_another_commit_are_not_mixed(self):
        with tempfile.TemporaryDirectory() as folder:
            made = Results(results(folder).path)
            made.describe("commit", "c")
            with self.assertRaises(Mismatch):
                made.describe("commit", "d")

    def test_what_passed_is_tried_again_too(self):
        with tempfile.TemporaryDirectory() as folder:
            tries = [("a", "torchscript", "ok", ""), ("b", "torchscript", "wrong", ""), ("c", "torchscript", "export", "")]
            left = lambda made: [line["network"] for line in Results(made.path).lines]
            made = results(folder, *tries)
            made.drop(["papers"], [])
            self.assertEqual(left(made), ["a", "b", "c"])
            made.drop(["timm"], ["wrong"])
            self.assertEqual(left(made), ["a", "c"])
            made.drop(["timm"], [])
            self.assertEqual(left(made), [])

    def test_lines_survive_what_messages_hold(self):
        with tempfile.TemporaryDirectory() as folder:
            made = results(folder, ("a", "dynamo", "export", "\x1b[31mline\n\tof '/tmp/a b/c/model.onnx' and /usr/lib/x.py" + "y" * 300))
            made.rewrite()
            (line,) = Results(made.path).lines
            self.assertEqual(list(line), FIELDS)
            self.assertTrue(line["detail"].startswith("line of") and "x.py" in line["detail"] and "/usr" not in line["detail"])
            self.assertEqual(Results(made.path).about, {"commit": "c", "configured timm": "7"})


if __name__ == "__main__":
    unittest.main()
