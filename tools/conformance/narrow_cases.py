"""Makes cases of 8-bit floats and 4-bit integers, with what ONNX's reference implementation gives, which converts by ml_dtypes.

    pip install -r tools/conformance/requirements.txt
    python tools/conformance/narrow_cases.py OUT

Every case is a folder in the form of the ONNX backend suite. Every f16, every bf16, f32 of random bits and every f32 half-way
between two neighbours are converted to each type, with and without saturation, and every code is converted back.
"""

import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

RANDOM = np.random.default_rng(3)
FLOATS = {
    "e4m3fn": (TensorProto.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn),
    "e4m3fnuz": (TensorProto.FLOAT8E4M3FNUZ, ml_dtypes.float8_e4m3fnuz),
    "e5m2": (TensorProto.FLOAT8E5M2, ml_dtypes.float8_e5m2),
    "e5m2fnuz": (TensorProto.FLOAT8E5M2FNUZ, ml_dtypes.float8_e5m2fnuz),
}
INTEGERS = {"int4": (TensorProto.INT4, ml_dtypes.int4, -8, 7), "uint4": (TensorProto.UINT4, ml_dtypes.uint4, 0, 15)}
WIDE = {"f32": TensorProto.FLOAT, "f16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16, "f64": TensorProto.DOUBLE}


def write(folder, nodes, inputs, constants=(), output="y"):
    """Writes one case. Constants are tensors, so that some are packed and some typed."""
    info = lambda name, array: helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
    given = [info(name, array) for name, array in inputs.items()]
    graph = helper.make_graph(nodes, folder.name, given, [onnx.ValueInfoProto(name=output)], list(constants))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=11)
    [result] = ReferenceEvaluator(model).run(None, inputs)
    data = folder / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / "model.onnx")
    for number, (name, array) in enumerate(inputs.items()):
        (data / f"input_{number}.pb").write_bytes(numpy_helper.from_array(array, name).SerializeToString())
    (data / "output_0.pb").write_bytes(numpy_helper.from_array(np.asarray(result)).SerializeToString())


def between(dtype):
    """The f32 half-way between each two neighbours, and those next to it."""
    codes = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32)
    finite = np.unique(codes[np.isfinite(codes)])
    middle = ((finite[1:].astype(np.float64) + finite[:-1]) / 2).astype(np.float32)
    ends = np.array([finite[-1] * 1.03125, finite[-1] * 1.0625, finite[-1] * 1.125, finite[-1] * 2], np.float32)
    middle = np.concatenate([middle, finite, ends, -ends])
    return np.concatenate([middle, np.nextafter(middle, np.float32(np.inf)), np.nextafter(middle, np.float32(-np.inf))])


def conversions(out):
    every = np.arange(65536, dtype=np.uint16)
    for name, (number, dtype) in FLOATS.items():
        bits = RANDOM.integers(0, 2**32, 65536, np.uint32).view(np.float32)
        # Exponents that the type has.
        near = np.exp2(RANDOM.uniform(-20, 18, 65536)).astype(np.float32) * RANDOM.choice([-1, 1], 65536).astype(np.float32)
        special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45], np.float32)
        f32 = np.concatenate([bits, near, special, between(dtype)])
        sources = {"f32": f32, "f16": every.view(np.float16), "bf16": every.view(ml_dtypes.bfloat16)}
        # Numbers that f32 holds: ml_dtypes rounds others twice, by way of f32.
        sources["f64"] = between(dtype).astype(np.float64)
        for source, x in sources.items():
            for saturate in (0, 1):
                node = helper.make_node("Cast", ["x"], ["y"], to=number, saturate=saturate)
                if source == "f64" and not saturate:
                    continue
                write(out / f"{source}_to_{name}_{saturate}", [node], {"x": x})
        codes = np.arange(256, dtype=np.uint8).view(dtype)
        for target, wide in WIDE.items():
            write(out / f"{name}_to_{target}", [helper.make_node("Cast", ["x"], ["y"], to=wide)], {"x": codes})
    for name, (number, dtype, low, high) in INTEGERS.items():
        x = np.linspace(low - 24, high + 24, 1025)
        for source in (np.float32, np.float16, np.float64):
            write(out / f"{np.dtype(source).name}_to_{name}", [helper.make_node("Cast", ["x"], ["y"], to=number)], {"x": x.astype(source)})
        every = np.arange(low, high + 1)
        for target in (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT8, TensorProto.INT64, TensorProto.UINT8):
            node = helper.make_node("Cast", ["x"], ["y"], to=target)
            if low < 0 and target == TensorProto.UINT8:
                continue
            write(out / f"{name}_to_{target}", [node], {"x": every.astype(np.int8).astype(dtype)})


def quantisation(out):
    x = (RANDOM.standard_normal((3, 8, 5)) * 300).astype(np.float32)
    shapes = {"tensor": ((), {}), "axis": ((8,), {"axis": 1}), "blocked": ((3, 2, 5), {"axis": 1, "block_size": 4})}
    types = {**{name: (*rest, 0, 0) for name, rest in FLOATS.items()}, **INTEGERS}
    for name, (number, dtype, low, high) in types.items():
        for kind, (shape, attributes) in shapes.items():
            scale = np.asarray(RANDOM.uniform(20, 90, shape), np.float32)
            zeros = np.asarray(RANDOM.integers(low, high + 1, shape)).astype(np.int8).astype(dtype)
            # Initializers: one packed as raw data, one in the typed field.
            constants = [numpy_helper.from_array(scale, "scale"), helper.make_tensor("zeros", number, zeros.shape, zeros.reshape(-1).astype(np.float32))]
            quantise = helper.make_node("QuantizeLinear", ["x", "scale", "zeros"], ["q"], **attributes)
            restore = helper.make_node("DequantizeLinear", ["q", "scale", "zeros"], ["y"], **attributes)
            write(out / f"quantise_{name}_{kind}", [quantise], {"x": x}, constants, "q")
            write(out / f"both_{name}_{kind}", [quantise, restore], {"x": x}, constants)
            q = np.asarray(RANDOM.integers(low, high + 1, x.shape) if high else x / 100).astype(np.int8 if high else np.float32).astype(dtype)
            write(out / f"restore_{name}_{kind}", [restore], {"q": q}, constants)
        # Movement, of the type itself.
        moves = [
            helper.make_node("Transpose", ["q"], ["t"], perm=[2, 0, 1]),
            helper.make_node("Flatten", ["t"], ["f"], axis=1),
            helper.make_node("Cast", ["f"], ["y"], to=TensorProto.FLOAT),
        ]
        write(out / f"moved_{name}", moves, {"q": q})
        # A layer with weights of the type, an odd number of them, in blocks along the inputs.
        weights = np.asarray(RANDOM.integers(low, high + 1, (9, 7)) if high else RANDOM.standard_normal((9, 7)) * 4)
        packed = weights.astype(np.int8 if high else np.float32).astype(dtype)
        scales = RANDOM.uniform(0.01, 0.1, (3, 7)).astype(np.float32)
        layer = [
            helper.make_node("DequantizeLinear", ["w", "s"], ["v"], axis=0, block_size=3),
            helper.make_node("MatMul", ["a", "v"], ["y"]),
        ]
        constants = [numpy_helper.from_array(packed, "w"), numpy_helper.from_array(scales, "s")]
        write(out / f"layer_{name}", layer, {"a": RANDOM.standard_normal((4, 9)).astype(np.float32)}, constants)
    # What quantisers of 8-bit floats write: quantised and restored before a product, weights as constants.
    for name, (number, dtype) in list(FLOATS.items())[::2]:
        weights = (RANDOM.standard_normal((16, 8, 3, 3)) * 8).astype(dtype)
        network = [
            helper.make_node("QuantizeLinear", ["x", "sx", "zero"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "sx", "zero"], ["a"]),
            helper.make_node("DequantizeLinear", ["w", "sw"], ["v"], axis=0),
            helper.make_node("Conv", ["a", "v"], ["c"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["r"]),
            helper.make_node("QuantizeLinear", ["r", "sy", "zero"], ["p"]),
            helper.make_node("DequantizeLinear", ["p", "sy", "zero"], ["y"]),
        ]
        constants = [
            numpy_helper.from_array(np.float32(0.0078125), "sx"),
            numpy_helper.from_array(np.exp2(RANDOM.integers(-6, -3, 16)).astype(np.float32), "sw"),
            numpy_helper.from_array(np.float32(0.25), "sy"),
            numpy_helper.from_array(np.zeros((), dtype), "zero"),
            numpy_helper.from_array(weights, "w"),
        ]
        # Sums that are exact in f32, so that none lies on the other side of half-way by its order.
        image = (RANDOM.integers(-8, 9, (1, 8, 9, 10)) / 8).astype(np.float32)
        write(out / f"network_{name}", network, {"x": image}, constants)
        # A first layer, and a product of two values whose second lies as in attention's first product or as in its second.
        weights = (RANDOM.standard_normal((16, 3, 3, 3)) * 8).astype(dtype)
        constants = constants[:-1] + [numpy_helper.from_array(weights, "w")]
        write(out / f"first_{name}", network, {"x": image[:, :3]}, constants)
        for kind, permutation in [("columns", [0, 1, 3, 2]), ("rows", [0, 1, 2, 3])]:
            restored = [
                node
                for value in "ab"
                for node in [
                    helper.make_node("QuantizeLinear", [value, "sx", "zero"], [f"{value}_q"]),
                    helper.make_node("DequantizeLinear", [f"{value}_q", "sx", "zero"], [f"{value}_r"]),
                ]
            ]
            product = [
                helper.make_node("Transpose", ["b_r"], ["turned"], perm=permutation),
                helper.make_node("MatMul", ["a_r", "turned"], ["y"]),
            ]
            shapes = {"a": (2, 3, 19, 32), "b": (2, 3, 17, 32) if kind == "columns" else (2, 3, 32, 17)}
            factors = {k: (RANDOM.integers(-8, 9, shape) / 8).astype(np.float32) for k, shape in shapes.items()}
            scales = [constants[0], constants[3]]
            write(out / f"product_{kind}_{name}", restored + product, factors, scales)


if __name__ == "__main__":
    out = Path(sys.argv[1])
    conversions(out)
    quantisation(out)
