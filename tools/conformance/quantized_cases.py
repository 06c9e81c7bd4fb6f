"""Makes small quantised networks in the forms that quantisers give them, as reference cases.

    pip install -r tools/conformance/requirements.txt
    python tools/conformance/quantized_cases.py OUT

Every case is a folder in the form of references.py. Two networks have what stands between products of quantised networks:
residual sums, concatenation, pooling, resizing, normalisation, softmax. Weights are random with a seed, calibrated on noise.

- NETWORK-FORM-qdq, NETWORK-FORM-qoperator: by ONNX Runtime's static quantiser, as a whole. Activations have zero points
  unless the form is symmetric. Beside each lies -steps: the same network, cut at every QuantizeLinear and compared as the
  floats that each is to round; or cut at every quantised tensor and compared as the integers themselves.
- form tensorrt: symmetric integers before products and nowhere else, weights as floats that are quantised in the model.
- NETWORK-dynamic: by its dynamic quantiser, scales are computed when the network runs.
- exported_linear, exported_image: how PyTorch exports a layer (weights dequantised, then turned) and how TensorFlow Lite's
  networks are converted (channels last, turned around every convolution).
"""

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

from references import quantised_steps, run, write

SIGNED, UNSIGNED = QuantType.QInt8, QuantType.QUInt8
PRODUCTS = ["Conv", "Gemm", "MatMul"]
# Types of activations and weights, whether each output channel has a scale, and further options.
FORMS = {
    "u8s8": (UNSIGNED, SIGNED, False, {}),
    "u8s8-channels": (UNSIGNED, SIGNED, True, {}),
    "s8s8-channels": (SIGNED, SIGNED, True, {"ActivationSymmetric": True}),
    "s8s8": (SIGNED, SIGNED, False, {}),
    "u8u8": (UNSIGNED, UNSIGNED, False, {}),
    "tensorrt": (
        SIGNED,
        SIGNED,
        True,
        {
            "ActivationSymmetric": True,
            "WeightSymmetric": True,
            "QuantizeBias": False,
            "AddQDQPairToWeight": True,
            "OpTypesToExcludeOutputQuantization": PRODUCTS,
        },
    ),
}


class Network:
    """A graph with seeded weights."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.nodes, self.weights = [], []

    def weight(self, *shape):
        fan_in = int(np.prod(shape[1:])) if len(shape) > 1 else 16
        # Channels of different size, so that a scale for each matters.
        size = self.random.uniform(0.3, 1.7, (shape[0],) + (1,) * (len(shape) - 1))
        return self.constant(self.random.standard_normal(shape) * size * np.sqrt(2 / fan_in))

    def constant(self, array, dtype=np.float32):
        name = f"constant_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array).astype(dtype), name))
        return name

    def node(self, operator, *inputs, **attributes):
        name = f"{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name, **attributes))
        return name

    def convolution(self, x, channels, outputs, kernel, **attributes):
        weights = self.weight(outputs, channels // attributes.get("group", 1), kernel, kernel)
        return self.node("Conv", x, weights, self.weight(outputs), pads=[kernel // 2] * 4, **attributes)

    def model(self, shape, output):
        graph = helper.make_graph(
            self.nodes,
            "quantised",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
            self.weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def image_network():
    """Convolutions of every kind, with what stands between them."""
    net = Network(1)
    x = net.node("Relu", net.convolution("x", 3, 16, 3, strides=[2, 2]))
    wide = net.node("Relu", net.convolution(x, 16, 40, 1))
    depthwise = net.convolution(wide, 40, 40, 3, group=40)
    depthwise = net.node("Clip", depthwise, net.constant(0), net.constant(6))
    residual = net.node("Add", net.convolution(depthwise, 40, 16, 1), x)
    halved = net.node("MaxPool", residual, kernel_shape=[2, 2], strides=[2, 2])
    branches = [
        net.convolution(halved, 16, 24, 3, group=2),
        net.node("Sigmoid", net.convolution(halved, 16, 8, 1)),
        net.node("AveragePool", halved, kernel_shape=[3, 3], pads=[1] * 4),
    ]
    joined = net.node("Concat", *branches, axis=1)
    sizes = net.constant([1, 1, 2, 2])
    larger = net.node("Resize", joined, "", sizes, mode="nearest")
    x = net.node("LeakyRelu", net.convolution(larger, 48, 21, 5, dilations=[1, 1]), alpha=0.1)
    pooled = net.node("Flatten", net.node("GlobalAveragePool", x))
    x = net.node("Gemm", pooled, net.weight(33, 21), net.weight(33), transB=1)
    return net.model([1, 3, 20, 18], net.node("Softmax", x))


def rows_network():
    """Products of rows, as transformers have them."""
    net = Network(2)
    width, heads = 32, 4
    x = "x"
    for _ in range(2):
        parts = []
        for _ in range(3):
            part = net.node("Add", net.node("MatMul", x, net.weight(width, width)), net.weight(width))
            part = net.node("Reshape", part, net.constant([1, 12, heads, width // heads], np.int64))
            parts.append(net.node("Transpose", part, perm=[0, 2, 1, 3]))
        query, key, value = parts
        scores = net.node("MatMul", query, net.node("Transpose", key, perm=[0, 1, 3, 2]))
        scores = net.node("Softmax", net.node("Mul", scores, net.constant(0.35)))
        y = net.node("Transpose", net.node("MatMul", scores, value), perm=[0, 2, 1, 3])
        y = net.node("MatMul", net.node("Reshape", y, net.constant([1, 12, width], np.int64)), net.weight(width, width))
        y = net.node("Add", x, y)
        x = net.node("LayerNormalization", y, net.weight(width), net.weight(width))
        y = net.node("Relu", net.node("Add", net.node("MatMul", x, net.weight(width, 72)), net.weight(72)))
        x = net.node("Add", x, net.node("MatMul", y, net.weight(72, width)))
    return net.model([1, 12, width], net.node("ReduceMean", x, axes=[1]))


class Noise(CalibrationDataReader):
    """A few random inputs."""

    def __init__(self, shape):
        random = np.random.default_rng(7)
        self.inputs = iter([{"x": random.standard_normal(shape).astype(np.float32)} for _ in range(3)])

    def get_next(self):
        return next(self.inputs, None)


def integer_steps(file, inputs):
    """A network of quantised operators, cut at every quantised tensor: takes them as ONNX Runtime computes them, and gives
    them as each operator makes them of those before."""
    model = onnx.load(file)
    graph = model.graph
    final = [o.name for o in graph.output]
    known = onnx.shape_inference.infer_shapes(model)
    cuts = [v for v in known.graph.value_info if v.type.tensor_type.elem_type in (TensorProto.INT8, TensorProto.UINT8)]
    graph.output.extend(cuts)
    values = dict(zip(final + [v.name for v in cuts], run(model, inputs, optimised=False)))
    for node in graph.node:
        node.input[:] = [name + "/given" if name in values and name not in final else name for name in node.input]
    used = {name for node in graph.node for name in node.input}
    for cut in cuts:
        if cut.name + "/given" in used:
            shape = values[cut.name].shape
            graph.input.append(helper.make_tensor_value_info(cut.name + "/given", cut.type.tensor_type.elem_type, shape))
            inputs = inputs | {cut.name + "/given": values[cut.name]}
    return model, inputs


def static(out, network, source, inputs):
    """A network in every form of the static quantiser."""
    for form, (activations, weights, channels, options) in FORMS.items():
        for style in (QuantFormat.QDQ, QuantFormat.QOperator):
            if form == "tensorrt" and style == QuantFormat.QOperator:
                continue
            name = f"{network}-{form}-{style.name.lower()}"
            file = out / f"{name}.onnx"
            quantize_static(
                str(source),
                str(file),
                Noise(inputs["x"].shape),
                quant_format=style,
                activation_type=activations,
                weight_type=weights,
                per_channel=channels,
                op_types_to_quantize=PRODUCTS if form == "tensorrt" else None,
                extra_options=options,
            )
            write(out / name, file, inputs, run(file, inputs, optimised=False))
            steps, given = (quantised_steps if style == QuantFormat.QDQ else integer_steps)(file, inputs)
            write(out / f"{name}-steps", steps, given, run(steps, given, optimised=False))
            file.unlink()


def exported_linear(out):
    """Layers with their weights as [outputs, inputs]: dequantised for each output, then turned."""
    net = Network(3)
    x = "x"
    for width, outputs in ((24, 40), (40, 10)):
        x = net.node("QuantizeLinear", x, net.constant(0.03), net.constant(3, np.int8))
        x = net.node("DequantizeLinear", x, net.constant(0.03), net.constant(3, np.int8))
        integers = net.constant(net.random.integers(-127, 128, (outputs, width)), np.int8)
        scales = net.constant(net.random.uniform(0.001, 0.004, outputs))
        weights = net.node("DequantizeLinear", integers, scales, net.constant(np.zeros(outputs), np.int8), axis=0)
        x = net.node("MatMul", x, net.node("Transpose", weights, perm=[1, 0]))
        x = net.node("Relu", net.node("Add", x, net.weight(outputs)))
    inputs = {"x": np.random.default_rng(9).standard_normal((2, 7, 24)).astype(np.float32)}
    model = net.model([2, 7, 24], x)
    write(out / "exported_linear", model, inputs, run(model, inputs, optimised=False))


def exported_image(out):
    """Convolutions of u8 images with channels last."""
    net = Network(4)
    scale, zero = net.constant(0.02), net.constant(120, np.uint8)
    x = "x"
    for channels, outputs, group in ((6, 16, 1), (16, 16, 16), (16, 9, 1)):
        x = net.node("DequantizeLinear", net.node("QuantizeLinear", x, scale, zero), scale, zero)
        x = net.node("Transpose", x, perm=[0, 3, 1, 2])
        integers = net.constant(net.random.integers(0, 256, (outputs, channels // group, 3, 3)), np.uint8)
        weights = net.node("DequantizeLinear", integers, net.constant(0.002), net.constant(128, np.uint8))
        x = net.node("Conv", x, weights, net.weight(outputs), pads=[1] * 4, group=group)
        x = net.node("Transpose", net.node("Relu", x), perm=[0, 2, 3, 1])
    inputs = {"x": np.random.default_rng(9).standard_normal((1, 9, 8, 6)).astype(np.float32)}
    model = net.model([1, 9, 8, 6], x)
    write(out / "exported_image", model, inputs, run(model, inputs, optimised=False))


def main():
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for network, plain in (("image", image_network()), ("rows", rows_network())):
        shape = [d.dim_value for d in plain.graph.input[0].type.tensor_type.shape.dim]
        inputs = {"x": np.random.default_rng(9).standard_normal(shape).astype(np.float32)}
        source = out / "plain.onnx"
        onnx.save(plain, source)
        static(out, network, source, inputs)
        dynamic = out / "dynamic.onnx"
        quantize_dynamic(str(source), str(dynamic), weight_type=SIGNED, per_channel=network == "rows")
        write(out / f"{network}-dynamic", dynamic, inputs, run(dynamic, inputs, optimised=False))
        source.unlink()
        dynamic.unlink()
    exported_linear(out)
    exported_image(out)
    print(f"{len(list(out.iterdir()))} cases in {out}")


if __name__ == "__main__":
    main()
