"""Tests of sensitivity.py: python -m unittest discover -s models -p 'test_*.py'"""

import tempfile
import unittest
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

import sensitivity

FLOAT = onnx.TensorProto.FLOAT


def model(nodes, weights, shape):
    """A network with the input x and the output y."""
    value = lambda name, shape: helper.make_tensor_value_info(name, FLOAT, shape)
    graph = helper.make_graph(nodes, "test", [value("x", shape)], [value("y", None)], [numpy_helper.from_array(v, n) for n, v in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def measured(made):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        onnx.save(made, file)
        random = np.random.default_rng(1)
        inputs = lambda declared: {"x": random.standard_normal([d.dim_value for d in declared[0].type.tensor_type.shape.dim]).astype(np.float32)}
        return sensitivity.measure("a network", file, inputs, {}, lambda names: names)


def normal(*shape, scale=1.0):
    return (np.random.default_rng(len(shape)).standard_normal(shape) * scale).astype(np.float32)


class Measuring(unittest.TestCase):
    def classifier(self, head):
        nodes = [
            helper.make_node("MatMul", ["x", "first"], ["a"], name="first"),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("Gemm", ["b", "head", "bias"], ["y"], name="last"),
        ]
        return model(nodes, {"first": normal(16, 32), "head": head, "bias": normal(10)}, [1, 16])

    def test_what_a_head_of_zeros_hides_is_not_seen(self):
        changes = measured(self.classifier(np.zeros((32, 10), np.float32)))[2]
        self.assertEqual([changes["first"][precision] for precision in ("f32", "f16")], [0, 0])
        changes = measured(self.classifier(normal(32, 10)))[2]
        self.assertTrue(all(change > 1 for group in changes.values() for change in group.values()), changes)

    def test_a_branch_of_small_scale_is_seen_in_f32_only(self):
        nodes = [
            helper.make_node("MatMul", ["x", "inner"], ["a"], name="inner"),
            helper.make_node("Mul", ["a", "scale"], ["b"]),
            helper.make_node("Add", ["x", "b"], ["y"]),
        ]
        made = model(nodes, {"inner": normal(16, 16), "scale": np.full(16, 1e-3, np.float32)}, [1, 16])
        ((_, changes),) = measured(made)[2].items()
        self.assertGreater(changes["f32"], 1)
        self.assertLess(changes["f16"], 0.1)

    def test_groups_are_linear_operators_with_what_follows(self):
        nodes = [
            helper.make_node("MatMul", ["x", "a"], ["1"], name="one"),
            helper.make_node("Add", ["1", "bias"], ["2"]),
            helper.make_node("MatMul", ["2", "a"], ["3"], name="again"),
            helper.make_node("Mul", ["3", "scale"], ["4"]),
            helper.make_node("MatMul", ["4", "b"], ["y"], name="two"),
        ]
        graph = model(nodes, {"a": normal(8, 8), "b": normal(8, 4), "bias": normal(8), "scale": normal(8)}, [1, 8]).graph
        self.assertEqual(sensitivity.groups(graph), {"one": ["a", "bias", "scale"], "two": ["b"]})

    def test_squeeze_and_excitation_belongs_to_what_it_scales(self):
        nodes = [
            helper.make_node("Conv", ["x", "k"], ["c"], name="conv"),
            helper.make_node("GlobalAveragePool", ["c"], ["p"]),
            helper.make_node("Conv", ["p", "down"], ["d"], name="down"),
            helper.make_node("Sigmoid", ["d"], ["e"]),
            helper.make_node("Mul", ["d", "e"], ["f"]),
            helper.make_node("Conv", ["f", "up"], ["g"], name="up"),
            helper.make_node("Sigmoid", ["g"], ["h"]),
            helper.make_node("Mul", ["c", "h"], ["y"]),
        ]
        graph = model(nodes, {"k": normal(8, 3, 3, 3), "down": normal(2, 8, 1, 1), "up": normal(8, 2, 1, 1)}, [1, 3, 8, 8]).graph
        self.assertEqual(sensitivity.groups(graph), {"conv": ["k", "down", "up"]})

    def test_an_unknown_part_of_a_bound_is_an_error(self):
        with self.assertRaises(ValueError):
            sensitivity.excess({"l2": 0.1, "other": 1.0}, normal(3), normal(3))

    def test_any_part_of_a_bound_sees(self):
        a = np.ones(1000, np.float32)
        b = a.copy()
        b[3] = 1.5
        self.assertLess(sensitivity.excess({"l2": 0.1}, a, b), 1)
        self.assertGreater(sensitivity.excess({"l2": 0.1, "element": 0.1}, a, b), 1)
        self.assertLess(sensitivity.excess({"l2": 0.1, "element": 0.1, "spared": 0.001}, a, b), 1)
        self.assertEqual(sensitivity.excess({"l2": 0.1}, a, np.full(1000, np.nan, np.float32)), np.inf)


class Results(unittest.TestCase):
    RESULT = {"weights": "d", "groups": 2, "f16": {"smallest": 0.5, "unseen": {"b": 0.5}}, "bounds": sensitivity.bounds("n")}

    def test_what_differs_from_the_results_is_named(self):
        differences = lambda **made: sensitivity.differences(self.RESULT, "d", 2, made)
        self.assertEqual(differences(a={"f16": 2.0}, b={"f16": 0.5}), [])
        self.assertIn("is not listed", differences(a={"f16": 0.9})[0])
        self.assertIn("is listed", differences(b={"f16": 1.1})[0])
        self.assertIn("other weights", sensitivity.differences(self.RESULT, "e", 2, {})[0])

    def test_reasons_are_those_that_are_needed(self):
        reason = {"networks": ["n"], "precisions": ["f16"]}
        self.assertEqual(sensitivity.check({"n": self.RESULT}, [reason], {"n"}), [])
        self.assertIn("no reason", sensitivity.check({"n": self.RESULT}, [], {"n"})[0])
        seen = self.RESULT | {"f16": {"smallest": 2, "unseen": {}}}
        self.assertIn("nothing needs", sensitivity.check({"n": seen}, [reason], {"n"})[0])
        self.assertIn("no results", sensitivity.check({}, [], {"n"})[0])
        self.assertIn("other bounds", sensitivity.check({"n": self.RESULT | {"bounds": {}}}, [reason], set())[0])


if __name__ == "__main__":
    unittest.main()
