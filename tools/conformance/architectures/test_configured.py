"""What transformers.toml names exists. Needs neither torch nor transformers, which configured.py imports."""

import ast
import tomllib
import unittest
from pathlib import Path

HERE = Path(__file__).parent
TABLE = tomllib.loads((HERE / "transformers.toml").read_text())


def keys(name):
    """Keys of a dictionary of configured.py."""
    for node in ast.parse((HERE / "configured.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return {key.value for key in node.value.keys}
    raise LookupError(name)


def tables(value):
    """A table and those in it."""
    if isinstance(value, dict):
        yield value
        for part in value.values():
            yield from tables(part)


class Configured(unittest.TestCase):
    def test_bases_inputs_makers_and_calls_exist(self):
        makers, calls, settings = keys("MAKERS"), keys("CALLS"), TABLE["settings"]
        for section in ("settings", "transformers", "transformers_more"):
            for name, row in TABLE[section].items():
                self.assertLessEqual({table["base"] for table in tables(row) if "base" in table}, set(settings), name)
        rows = TABLE["transformers"] | TABLE["transformers_more"]
        self.assertEqual({row["call"] for row in rows.values() if "call" in row}, calls)
        inputs = [row.get("inputs", "text") for row in rows.values()] + list(TABLE["inputs"].values())
        self.assertLessEqual({name for name in inputs if isinstance(name, str)}, set(TABLE["inputs"]))
        used = {words.split()[0] for table in inputs if isinstance(table, dict) for words in table.values()}
        self.assertEqual(used, makers)

    def test_all_networks_of_the_results_are_there(self):
        for section, others in {"transformers": 1, "transformers_more": 0}.items():
            steps = [row for row in TABLE[section].values() if row.get("kind") in ("decoder", "seq2seq") and row.get("past", True)]
            said = f"# configured {section}: {len(TABLE[section]) + len(steps) + others}\n"
            self.assertTrue(said in (HERE / "results.tsv").read_text(), said)


if __name__ == "__main__":
    unittest.main()
