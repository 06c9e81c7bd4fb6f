"""What the tests share: small models, made with onnx, and the digits of examples/quickstart."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

QUICKSTART = Path(__file__).parents[3] / "examples/quickstart"


def model(nodes, inputs, outputs, **constants):
    """An ONNX model of nodes, (name, type, shape) of inputs and outputs, and constants by name."""
    values = [[helper.make_tensor_value_info(*value) for value in values] for values in (inputs, outputs)]
    initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "small", *values, initializers)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 8
    onnx.checker.check_model(made)
    return made


@pytest.fixture
def digits():
    """The digit classifier's file, which leaves the batch open."""
    return QUICKSTART / "digits.onnx"


@pytest.fixture
def image():
    """The first digit that was held back."""
    return np.fromfile(QUICKSTART / "held_back.bin", np.uint8)[:64].astype(np.float32).reshape(1, 1, 8, 8) / 16


@pytest.fixture
def weighted():
    """y = x @ w + b, with extents that are not multiples of anything."""
    numbers = np.random.default_rng(1)
    w, b = numbers.standard_normal((5, 3), np.float32), numbers.standard_normal(3, np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"], name="product"), helper.make_node("Add", ["p", "b"], ["y"])]
    made = model(nodes, [("x", TensorProto.FLOAT, [2, 5])], [("y", TensorProto.FLOAT, [2, 3])], w=w, b=b)
    return made, lambda x: x @ w + b


@pytest.fixture
def counter():
    """next = now + step: a state, once `states={"next": "now"}` makes it one; y is twice that."""
    nodes = [
        helper.make_node("Add", ["now", "step"], ["next"]),
        helper.make_node("Add", ["next", "next"], ["y"]),
    ]
    ends = [("now", TensorProto.FLOAT, [4]), ("step", TensorProto.FLOAT, [4])]
    return model(nodes, ends, [("y", TensorProto.FLOAT, [4]), ("next", TensorProto.FLOAT, [4])])


@pytest.fixture
def logarithm():
    """y = log(x), z = (i + 1): a NaN where x is negative, and an input of integers."""
    nodes = [helper.make_node("Log", ["x"], ["y"]), helper.make_node("Add", ["i", "one"], ["z"])]
    inputs = [("x", TensorProto.FLOAT, [3]), ("i", TensorProto.INT64, [2])]
    outputs = [("y", TensorProto.FLOAT, [3]), ("z", TensorProto.INT64, [2])]
    return model(nodes, inputs, outputs, one=np.array(1, np.int64))
