"""A model that rounds to f16 where a plan in f16 stores: weights, inputs and every result of a node. Sums stay in f32, as in Floe's
kernels. A plan rounds less often, where it fuses nodes or keeps a value in f32."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# Their later inputs are no data: bounds, scales, sizes.
FIRST_ONLY = ("Clip", "Resize", "Pad", "Slice", "Reshape", "ReduceMean", "TopK")
# What they give has been rounded before, or is no number that is stored.
MOVES = ("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Slice", "Split", "Concat", "Identity", "Gather", "MaxPool", "Relu", "Shape", "Constant", "Cast", "Pad")


def to_half(values):
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float32)


def rounded(path, out):
    model = onnx.shape_inference.infer_shapes(onnx.load(path), data_prop=True)
    graph = model.graph
    floats = {value.name for value in (*graph.value_info, *graph.output) if value.type.tensor_type.elem_type == TensorProto.FLOAT}
    spared = {name for node in graph.node if node.op_type in FIRST_ONLY for name in node.input[1:]}
    for tensor in graph.initializer:
        if tensor.data_type == TensorProto.FLOAT and tensor.name not in spared:
            tensor.CopyFrom(numpy_helper.from_array(to_half(numpy_helper.to_array(tensor)), tensor.name))
    nodes, names = [], {}

    def cast(name, result):
        short = f"{result}/f16"
        nodes.append(helper.make_node("Cast", [name], [short], to=TensorProto.FLOAT16))
        nodes.append(helper.make_node("Cast", [short], [result], to=TensorProto.FLOAT))

    weights = {tensor.name for tensor in graph.initializer}
    for value in graph.input:
        if value.name not in weights and value.type.tensor_type.elem_type == TensorProto.FLOAT:
            names[value.name] = f"{value.name}/rounded"
            cast(value.name, names[value.name])
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        kept = [] if node.op_type in MOVES else [name for name in node.output if name in floats]
        for name in kept:
            node.output[list(node.output).index(name)] = f"{name}/exact"
        copied = onnx.NodeProto()
        copied.CopyFrom(node)
        nodes.append(copied)
        for name in kept:
            cast(f"{name}/exact", name)
    del graph.node[:], graph.value_info[:]
    graph.node.extend(nodes)
    onnx.save(model, out)
