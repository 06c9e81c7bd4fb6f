"""Makes the small models of the tests: python models.py FOLDER. Each takes an image of 3 channels, 34 rows and 50 columns."""

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

IMAGE = ("image", [1, 3, 34, 50])


def save(name, nodes, outputs, inputs=(IMAGE,), constants=()):
    def values(pairs):
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in pairs]

    constants = [numpy_helper.from_array(np.asarray(array, dtype), name) for name, array, dtype in constants]
    graph = helper.make_graph(nodes, name, values(inputs), values(outputs), constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, Path(sys.argv[1]) / f"{name}.onnx")


node = helper.make_node
mean = node("ReduceMean", ["image"], ["mean"], axes=[2, 3], keepdims=0)

# The frame itself.
save("pixels", [node("Relu", ["image"], ["pixels"])], [("pixels", [1, 3, 34, 50])])
save("batch", [node("Relu", ["image"], ["pixels"])], [("pixels", [2, 3, 34, 50])], [("image", [2, 3, 34, 50])])
# A frame with alpha.
save("alpha", [node("Relu", ["image"], ["pixels"])], [("pixels", [1, 4, 34, 50])], [("image", [1, 4, 34, 50])])
# The mean of each channel, as the score of a class.
save("colours", [mean], [("mean", [1, 3])])
# The sum of the means of all frames so far.
save(
    "total",
    [mean, node("Add", ["before", "mean"], ["after"]), node("Mul", ["after", "one"], ["total"])],
    [("total", [1, 3]), ("after", [1, 3])],
    [IMAGE, ("before", [1, 3])],
    [("one", [1.0], np.float32)],
)
# NaN where a channel is dark.
save("logarithm", [mean, node("Sub", ["mean", "dark"], ["above"]), node("Log", ["above"], ["logarithm"])], [("logarithm", [1, 3])], constants=[("dark", [16.0], np.float32)])
