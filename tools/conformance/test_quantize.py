"""`floec quantize` against ONNX Runtime: it takes the files, computes with them what Floe's host does, and what it computes is as
near to f32 as the report says. From a calibration table of ONNX Runtime come the scales that its own quantiser has. The binaries
are those of `cargo test`, or in the folder FLOE_BINARIES."""

import contextlib
import io
import json
import logging
import os
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.calibrate import create_calibrator, save_tensors_data
from onnxruntime.quantization.quant_utils import write_calibration_table

ROOT = pathlib.Path(__file__).parents[2]
BINARIES = pathlib.Path(os.environ.get("FLOE_BINARIES", pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug"))


class Network:
    """A network in the making, with random weights."""

    def __init__(self, shape):
        self.random = np.random.default_rng(5)
        self.shape, self.rank, self.nodes, self.constants = shape, len(shape), [], []

    def constant(self, values):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def normal(self, *shape, scale=1.0):
        return self.constant((self.random.standard_normal(shape) * scale).astype(np.float32))

    def node(self, operator, *inputs, **attributes):
        output = f"{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [output], name=output, **attributes))
        return output

    def conv(self, x, outputs, inputs, kernel, groups=1, bias=True):
        depth = inputs // groups * kernel * kernel
        w = self.normal(outputs, inputs // groups, kernel, kernel, scale=depth**-0.5)
        b = [self.normal(outputs, scale=0.1)] if bias else []
        return self.node("Conv", x, w, *b, pads=[kernel // 2] * 4, group=groups)

    def save(self, file, output, opset=17):
        value = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        result = value(output, [f"d{number}" for number in range(self.rank)])
        graph = helper.make_graph(self.nodes, "net", [value("x", self.shape)], [result], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        onnx.checker.check_model(model)
        onnx.save(model, file)


def residual():
    """Convolutions, batch normalisation, a residual sum, pooling, a classifier."""
    net = Network([1, 3, 24, 24])
    x = net.conv("x", 16, 3, 3, bias=False)
    one = np.ones(16, np.float32)
    bn = [net.constant(v) for v in (one * 1.3, one * 0.1, one * 0.05, one * 0.8)]
    x = net.node("Relu", net.node("BatchNormalization", x, *bn))
    y = net.node("Relu", net.conv(x, 16, 16, 3))
    x = net.node("Relu", net.node("Add", net.conv(y, 16, 16, 3), x))
    x = net.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.node("Flatten", net.node("GlobalAveragePool", x))
    net.rank = 2
    return net, net.node("Gemm", x, net.normal(10, 16), net.normal(10, scale=0.1), transB=1)


def gated():
    """Depthwise convolutions, SiLU, squeeze and excitation, a concatenation."""
    net = Network([1, 8, 16, 16])
    silu = lambda x: net.node("Mul", x, net.node("Sigmoid", x))
    x = silu(net.conv("x", 24, 8, 1))
    y = silu(net.conv(x, 24, 24, 3, groups=24))
    s = net.node("Relu", net.conv(net.node("GlobalAveragePool", y), 6, 24, 1))
    y = net.node("Mul", y, net.node("HardSigmoid", net.conv(s, 24, 6, 1)))
    y = net.node("Concat", net.conv(y, 8, 24, 1), net.conv(x, 8, 24, 1), axis=1)
    return net, net.conv(y, 4, 16, 3)


def rows():
    """Layer normalisation with outliers and products behind it."""
    net = Network([1, 40, 64])
    gamma = np.ones(64, np.float32)
    gamma[[3, 50]] = 40.0
    x = net.node("LayerNormalization", "x", net.constant(gamma), net.normal(64, scale=0.1))
    x = net.node("Add", net.node("MatMul", x, net.normal(64, 96, scale=0.1)), net.normal(96, scale=0.1))
    return net, net.node("MatMul", net.node("Tanh", x), net.normal(96, 32, scale=0.1))


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def run_program(self, program, *arguments):
        done = subprocess.run([BINARIES / program, *map(str, arguments)], capture_output=True, text=True, cwd=self.path)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def outputs(self, file):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(self.path / file, options)
        return [session.run(None, {"x": x})[0] for x in self.samples]

    def error(self, exact, found):
        difference = np.concatenate([(a - b).ravel() for a, b in zip(exact, found)])
        return np.linalg.norm(difference) / np.linalg.norm(np.concatenate([a.ravel() for a in exact]))


class Quantized(Case):
    def quantize(self, net, output, *arguments, opset=17):
        random = np.random.default_rng(8)
        self.samples = random.standard_normal([12, *net.shape]).astype(np.float32)
        np.savez(self.path / "samples.npz", x=self.samples)
        net.save(self.path / "net.onnx", output, opset)
        text = self.run_program("floec", "quantize", "net.onnx", "--samples", "samples.npz", "-o", "q.onnx", "--json", *arguments)
        onnx.checker.check_model(onnx.load(self.path / "q.onnx"), full_check=not any("weights" in str(a) for a in arguments))
        return json.loads(text)

    def floe(self, number):
        """What Floe's host makes of a sample."""
        np.save(self.path / "x.npy", self.samples[number])
        if number == 0:
            self.run_program("floec", "compile", "q.onnx", "--target", "host", "-o", "q.floe")
        self.run_program("floe", "run", "q.floe", "--device", "host", "--input", "x=x.npy", "--output-dir", "out")
        return np.load(next((self.path / "out").glob("*.npy")))

    def check(self, network, *arguments, most, opset=17):
        net, output = network()
        report = self.quantize(net, output, *arguments, opset=opset)
        exact, found = self.outputs("net.onnx"), self.outputs("q.onnx")
        error = self.error(exact, found)
        self.assertLess(error, most)
        own = [self.floe(number).reshape(found[number].shape) for number in range(3)]
        # Values halfway between two steps may fall to either side.
        self.assertLess(self.error(found[:3], own), error / 3)
        if report["kind"] == "8 bits":
            self.assertAlmostEqual(error, report["distance"]["relative"], delta=error / 4)
        return report

    def test_residual_networks(self):
        report = self.check(residual, most=0.02)
        self.assertEqual((len(report["layers"]), report["left"]), (4, []))

    def test_old_opsets(self):
        self.check(residual, most=0.02, opset=11)

    def test_gated_networks(self):
        self.assertEqual(len(self.check(gated, most=0.03)["layers"]), 7)

    def test_products(self):
        report = self.check(rows, most=0.02)
        self.assertTrue(report["evened_out"])

    def test_adaptive_rounding(self):
        self.check(gated, "--effort", "high", most=0.03)

    def test_symmetric(self):
        report = self.check(residual, "--symmetric", most=0.03)
        self.assertTrue(report["fits_tensorrt"])
        model = onnx.load(self.path / "q.onnx")
        zeros = {node.input[2] for node in model.graph.node if node.op_type == "QuantizeLinear"}
        tensors = [t for t in model.graph.initializer if t.name in zeros]
        self.assertTrue(tensors and all(t.data_type == TensorProto.INT8 and not numpy_helper.to_array(t).any() for t in tensors))

    def test_refusals(self):
        net, output = residual()
        self.quantize(net, output)
        self.assertEqual(sorted(file.name for file in self.path.iterdir()), ["net.onnx", "q.onnx", "samples.npz"])
        before = (self.path / "q.onnx").read_bytes()
        for arguments, word in [
            ("net.onnx --samples none -o q.onnx", "none"),
            ("net.onnx --samples samples.npz -o net.onnx", "would be overwritten"),
            ("net.onnx --samples samples.npz -o q.onnx --budget mAP", "cosine 0.999"),
            ("net.onnx --samples samples.npz -o q.onnx --keep nothing", "'nothing'"),
            ("net.onnx --samples samples.npz -o q.onnx --target nowhere", "nowhere"),
            ("net.onnx --samples samples.npz -o q.onnx --weights int4 --group 24", "power of two"),
            ("q.onnx --samples samples.npz -o r.onnx", "quantised already"),
            ("samples.npz --samples samples.npz -o r.onnx", "samples.npz"),
        ]:
            command = [BINARIES / "floec", "quantize", *arguments.split()]
            done = subprocess.run(command, capture_output=True, text=True, cwd=self.path)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments + done.stderr)
            self.assertIn(word, done.stderr)
        self.assertEqual((self.path / "q.onnx").read_bytes(), before)
        self.assertFalse((self.path / "r.onnx").exists())

    def test_packed_weights(self):
        for form, most in (["--weights", "int4", "--group", "16"], 0.2), (["--weights", "int8"], 0.01):
            report = self.check(rows, *form, most=most)
            self.assertEqual(len(report["layers"]), 2)
            for layer in report["layers"]:
                self.assertLessEqual(layer["error"], layer["error_nearest"])


class Samples(CalibrationDataReader):
    def __init__(self, samples):
        self.rest = iter(samples)

    def get_next(self):
        sample = next(self.rest, None)
        return None if sample is None else {"x": sample}


class Tables(Case):
    def parameters(self, file):
        """Scale, zero point and type of every value that is quantised."""
        model = onnx.load(self.path / file)
        constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        nodes = [node for node in model.graph.node if node.op_type == "QuantizeLinear"]
        found = {node.input[0]: [constants[name] for name in node.input[1:3]] for node in nodes}
        return {name: (float(scale), int(zero), zero.dtype.name) for name, (scale, zero) in found.items() if scale.size == 1}

    def compare(self, network, method):
        """As many values as Floe quantises by a table, with the scales of `quantize_static`."""
        net, output = network()
        net.save(self.path / "net.onnx", output)
        self.samples = np.random.default_rng(8).standard_normal([12, *net.shape]).astype(np.float32)
        calibrator = create_calibrator(self.path / "net.onnx", None, self.path / "augmented.onnx", method)
        calibrator.collect_data(Samples(self.samples))
        data = calibrator.compute_data()
        write_calibration_table(data, self.path)
        save_tensors_data(data, self.path / "saved.json")
        static = {}
        for kind, symmetric in (QuantType.QUInt8, False), (QuantType.QInt8, True):
            options = {"ActivationSymmetric": symmetric}
            words = {"quant_format": QuantFormat.QDQ, "calibrate_method": method, "activation_type": kind, "extra_options": options}
            quantize_static(self.path / "net.onnx", self.path / "static.onnx", Samples(self.samples), **words)
            static["int8" if symmetric else "uint8"] = self.parameters("static.onnx")
        for words in [], ["--symmetric"]:
            for table in "calibration.json", "saved.json":
                self.run_program("floec", "quantize", "net.onnx", "--calibration", table, "-o", "q.onnx", *words)
                own = self.parameters("q.onnx")
                # What is as large on both sides of 0 is i8 without --symmetric too.
                for name, (scale, zero, kind) in own.items():
                    expected, *others = static[kind][name]
                    self.assertEqual([zero, kind], others, name)
                    self.assertAlmostEqual(scale / expected, 1, 6, name)
                kinds = {kind for *_, kind in own.values()}
                self.assertTrue(kinds == {"int8"} if words else "uint8" in kinds, kinds)
                self.assertLess(self.error(self.outputs("net.onnx"), self.outputs("q.onnx")), 0.1)
        return len(own)

    def test_tables(self):
        logging.disable(logging.WARNING)
        self.addCleanup(logging.disable, logging.NOTSET)
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(self.compare(residual, CalibrationMethod.MinMax), 7)
            self.assertEqual(self.compare(gated, CalibrationMethod.Percentile), 8)
            self.assertEqual(self.compare(rows, CalibrationMethod.Entropy), 2)


if __name__ == "__main__":
    unittest.main()
