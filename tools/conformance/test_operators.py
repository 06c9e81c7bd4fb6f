"""The versions of operators in SUPPORT.md against those that ONNX defines. A version that a newer ONNX adds would otherwise
be taken for the one before."""

import pathlib
import unittest

import onnx.defs

SUPPORT = pathlib.Path(__file__).parents[2] / "SUPPORT.md"

# ONNX Runtime's own: its optimiser leaves them in the default domain.
OF_ONNX_RUNTIME = {"LayerNormalization": {1}, "SimplifiedLayerNormalization": {1}}


def defined(name):
    """Versions of an operator of ai.onnx. The one that only declares it deprecated has no meaning of its own."""
    schemas = [s for s in onnx.defs.get_all_schemas_with_history() if (s.domain, s.name) == ("", name)]
    versions = sorted(s.since_version for s in schemas)
    last = max(schemas, key=lambda schema: schema.since_version, default=None)
    return set(versions[:-1]) if last and last.deprecated and len(versions) > 1 else set(versions)


def accepted():
    """Versions by operator, as the table says."""
    rows = [line.split(" | ") for line in SUPPORT.read_text().splitlines() if line.startswith("| ")]
    rows = [(row[0].removeprefix("| "), row[1].strip()) for row in rows[1:]]
    return {name: [int(v) for v in versions.split(", ")] for name, versions in rows if versions and "." not in name}


class Versions(unittest.TestCase):
    def test_every_version_is_one_that_onnx_defines(self):
        operators = accepted()
        self.assertGreater(len(operators), 150)
        for name, versions in operators.items():
            unknown = set(versions) - defined(name) - OF_ONNX_RUNTIME.get(name, set())
            self.assertFalse(unknown, f"ONNX defines no version {unknown} of {name}")

    def test_no_version_behind_the_first_is_left_out(self):
        for name, versions in accepted().items():
            left_out = {v for v in defined(name) if v > min(versions)} - set(versions)
            self.assertFalse(left_out, f"{name} changed in {left_out}: look at what it means, then accept or refuse it")


if __name__ == "__main__":
    unittest.main()
