"""How many multiply-adds of a model are in 8 bits."""

import math

import onnx
from onnx import TensorProto, numpy_helper

from runners import session

BYTES = (TensorProto.INT8, TensorProto.UINT8)
PRODUCTS = ("Conv", "MatMul", "Gemm", "ConvTranspose")


def shapes(model, names, x):
    """Shapes of values, from a run: shape inference does not know all of them."""
    seen = onnx.ModelProto()
    seen.CopyFrom(model)
    have = {value.name for value in seen.graph.output}
    for name in names:
        if name not in have:
            seen.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
            have.add(name)
    runner = session(seen)
    outputs = [value.name for value in runner.get_outputs()]
    return {name: value.shape for name, value in zip(outputs, runner.run(None, {runner.get_inputs()[0].name: x}))}


def share(path, x):
    """Multiply-adds of products and convolutions whose operands are both 8-bit values, and those of all of them. Recurrent layers
    are left out: none of the methods quantises them."""
    model = onnx.load(path)
    graph = model.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    constants |= {node.output[0]: node.attribute[0].t for node in graph.node if node.op_type == "Constant" and node.attribute[0].name == "value"}
    types = {name: tensor.data_type for name, tensor in constants.items()}
    makers = {output: node for node in graph.node for output in node.output}

    def in_bytes(name):
        node = makers.get(name)
        if node is None or node.op_type not in ("DequantizeLinear", "Transpose", "Reshape", "Identity"):
            return False
        if node.op_type != "DequantizeLinear":
            return in_bytes(node.input[0])
        # The zero point's type, or that of the values themselves.
        zero = node.input[2] if len(node.input) > 2 and node.input[2] else None
        source = makers.get(node.input[0])
        if source is not None and source.op_type == "QuantizeLinear" and len(source.input) > 2:
            zero = zero or source.input[2]
        return types.get(zero, types.get(node.input[0], TensorProto.UINT8 if source is not None else None)) in BYTES

    products = [node for node in graph.node if node.op_type in PRODUCTS]
    wanted = {name for node in products for name in (node.output[0], *node.input[:2]) if name not in constants and name not in {v.name for v in graph.input}}
    extents = shapes(model, wanted, x)
    extents |= {name: tuple(tensor.dims) for name, tensor in constants.items()} | {graph.input[0].name: x.shape}
    total = low = 0
    for node in products:
        result, weights = extents[node.output[0]], extents[node.input[1]]
        if node.op_type == "Conv":
            count = math.prod(result) * math.prod(weights[1:])
        elif node.op_type == "ConvTranspose":
            count = math.prod(extents[node.input[0]]) * math.prod(weights[1:])
        else:
            transposed = node.op_type == "Gemm" and any(a.name == "transA" and a.i for a in node.attribute)
            count = math.prod(result) * extents[node.input[0]][0 if transposed else -1]
        total += count
        low += count if all(map(in_bytes, node.input[:2])) else 0
    return low, total
