"""Tests of what judges: rates, boxes, shares and the rounding of f16. `python tools/quality/test.py`; needs no fonts and no binaries."""

import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import boxes  # noqa: E402
import half  # noqa: E402
import lobes  # noqa: E402
import macs  # noqa: E402
import models  # noqa: E402
import rates  # noqa: E402
from bars import faces, text  # noqa: E402
from runners import OnnxRuntime  # noqa: E402


def network(nodes, weights, shape=(1, 2, 4, 4), outputs=("y",)):
    """A model of opset 13 with the input x."""
    tensors = [numpy_helper.from_array(np.array(value), name) for name, value in weights.items()]
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    made = [helper.make_empty_tensor_value_info(name) for name in outputs]
    for value in made:
        value.type.tensor_type.elem_type = TensorProto.FLOAT
    graph = helper.make_graph([helper.make_node(*words[:3], **words[3]) for words in nodes], "g", given, made, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


class Judges(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def save(self, model, name="model.onnx"):
        onnx.save(model, self.folder / name)
        return self.folder / name

    def test_intervals_are_of_pairs(self):
        random = np.random.default_rng(1)
        base = np.stack([random.random(1000) < 0.9, np.ones(1000)], 1)
        other = base.copy()
        other[np.flatnonzero(base[:, 0])[:10], 0] = 0
        found = rates.compared(other, base, rates.accuracy)
        self.assertAlmostEqual(found["difference"], -1.0)
        low, high = found["difference_interval"]
        # Ten of a thousand: 0.31 points of deviation; unpaired it would be 1.4.
        self.assertTrue(-1.8 < low < -1.3 and -0.7 < high < -0.2, found)
        self.assertGreater(found["interval"][1] - found["interval"][0], 3)
        self.assertEqual(rates.compared(base, base, rates.accuracy)["difference_interval"], [0, 0])
        self.assertAlmostEqual(rates.f1((3, 1, 2)), 200 * 3 / 9)

    def test_each_box_is_found_once(self):
        known = np.array([[0, 0, 10, 10], [20, 20, 30, 30]], float)
        found = np.array([[0, 1, 10, 11], [1, 0, 11, 10], [20, 26, 30, 36]], float)
        self.assertEqual(boxes.matched(found, known).tolist(), [1, 2, 1])
        self.assertEqual(boxes.matched(np.zeros((0, 4)), known).tolist(), [0, 0, 2])
        kept = boxes.suppressed(found, np.array([0.5, 0.9, 0.1]), 0.5)
        self.assertEqual(kept[:, 0].tolist(), [1, 20])

    def test_faces_are_decoded_from_anchors(self):
        outputs = [np.full((1, 512, 1), -9.0), np.full((1, 384, 1), -9.0), np.zeros((1, 512, 16)), np.zeros((1, 384, 16))]
        # The second anchor of the place in row 1 and column 2 of 16.
        at = 2 * (16 + 2) + 1
        outputs[0][0, at], outputs[2][0, at, :4] = 9, (4, -4, 20, 10)
        self.assertEqual(faces.outcome(outputs, np.array([[14.0, 3, 34, 13]])).tolist(), [1, 0, 0])

    def test_text_is_read_without_blanks_and_repetitions(self):
        text.characters[:] = ["", "a", "b"]
        self.assertEqual(text.read(np.eye(3)[[1, 1, 0, 1, 2, 2, 0]]), "aab")

    def test_pictures_do_not_depend_on_the_run(self):
        first, classes = lobes.pictures(40, 3)
        self.assertTrue(np.array_equal(first, lobes.pictures(40, 3)[0]))
        self.assertTrue(abs(first).max() < 2 and len(set(classes)) > 8)
        self.assertFalse(first[:, 3].any(), "nothing is transparent")

    def test_the_share_counts_what_has_two_operands_of_bytes(self):
        scale, zero = {"s": np.float32(0.1)}, {"z": np.int8(0)}
        weights = {"w": np.ones((3, 2, 3, 3), np.int8), "v": np.ones((5, 3, 1, 1), np.float32)}
        quantised = [
            ("QuantizeLinear", ["x", "s", "z"], ["q"], {}),
            ("DequantizeLinear", ["q", "s", "z"], ["d"], {}),
            ("DequantizeLinear", ["w", "s", "z"], ["e"], {}),
            ("Conv", ["d", "e"], ["c"], {}),
            ("Conv", ["c", "v"], ["y"], {}),
        ]
        path = self.save(network(quantised, weights | scale | zero))
        x = np.ones((1, 2, 4, 4), np.float32)
        # 3 channels of 2 x 2 places with 2 x 3 x 3 products each; then 5 x 3 on each place.
        self.assertEqual(macs.share(path, x), (216, 216 + 60))
        wide = network(quantised, weights | scale | {"z": np.int16(0), "w": np.ones((3, 2, 3, 3), np.int16)})
        wide.opset_import[0].version = 21
        self.assertEqual(macs.share(self.save(wide), x)[0], 0)

    def test_every_result_is_rounded_to_f16(self):
        nodes = [("Conv", ["x", "w"], ["c"], {}), ("Exp", ["c"], ["y"], {})]
        w = np.random.default_rng(2).standard_normal((3, 2, 3, 3)).astype(np.float32) / 10
        path = self.save(network(nodes, {"w": w}))
        x = np.random.default_rng(3).standard_normal((1, 2, 4, 4)).astype(np.float32)
        half.rounded(path, self.folder / "half.onnx")
        [exact], [found] = OnnxRuntime(path).run(x), OnnxRuntime(self.folder / "half.onnx").run(x)
        self.assertTrue(np.array_equal(found, half.to_half(found)))
        [sums] = OnnxRuntime(self.save(network([nodes[0]], {"w": half.to_half(w)}, outputs=["c"]), "conv.onnx")).run(half.to_half(x))
        self.assertTrue(np.array_equal(found, half.to_half(np.exp(half.to_half(sums)))), "sums stay in f32")
        self.assertFalse(np.array_equal(found, half.to_half(exact)))
        big = network([("Mul", ["x", "k"], ["y"], {})], {"k": np.float32(60000)})
        half.rounded(self.save(big), self.folder / "half.onnx")
        self.assertTrue(np.isinf(OnnxRuntime(self.folder / "half.onnx").run(2 * np.ones((1, 2, 4, 4), np.float32))[0]).all())

    def test_a_model_gets_one_shape_and_one_input(self):
        model = network([("Add", ["x", "h"], ["y"], {})], {})
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
        model.graph.input.append(helper.make_tensor_value_info("h", TensorProto.FLOAT, (1,)))
        models.fixed(self.save(model), self.folder / "fixed.onnx", (3, 2, 4, 4), {"h": np.ones(1, np.float32)})
        fixed = onnx.load(self.folder / "fixed.onnx")
        self.assertEqual(models.input_name(fixed), "x")
        for value in (*fixed.graph.input, *fixed.graph.output):
            self.assertEqual([axis.dim_value for axis in value.type.tensor_type.shape.dim], [3, 2, 4, 4])


if __name__ == "__main__":
    unittest.main()
