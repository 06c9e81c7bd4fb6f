"""Makes model.onnx and reference.npz: a small network for optical flow, and what NumPy makes of a pair of pictures.

    python model.py [FOLDER]

The network finds features of both pictures with the same convolution and correlates them. Its weights are random: correlation finds a
shift all the same.
"""

import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HEIGHT, WIDTH, FEATURES, DISPLACEMENT = 16, 24, 12, 2
SHIFT = (1, -2)


def convolution(x, weights):
    """A 3x3 convolution with one pixel of zeros around the picture."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    height, width = x.shape[2:]
    windows = [padded[:, :, i : i + height, j : j + width] for i in range(3) for j in range(3)]
    return np.einsum("knchw,mck->nmhw", np.stack(windows), weights.reshape(*weights.shape[:2], 9))


def correlation(left, right, displacement):
    """As correlation.cu beside this file, element by element of the displacement."""
    padded = np.pad(right, ((0, 0), (0, 0), (displacement, displacement), (displacement, displacement)))
    height, width = left.shape[2:]
    side = 2 * displacement + 1
    products = [
        (left * padded[:, :, dy : dy + height, dx : dx + width]).mean(axis=1) for dy in range(side) for dx in range(side)
    ]
    return np.stack(products, axis=1)


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
    random = np.random.default_rng(7)
    weights = random.normal(size=(FEATURES, 3, 3, 3)).astype(np.float32)
    weights -= weights.mean(axis=(1, 2, 3), keepdims=True)

    shape = [1, 3, HEIGHT, WIDTH]
    picture = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    channels = (2 * DISPLACEMENT + 1) ** 2
    cost = helper.make_tensor_value_info("cost", TensorProto.FLOAT, [1, channels, HEIGHT, WIDTH])
    window = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["left", "weights"], ["left_features"], "left_features", **window),
        helper.make_node("Conv", ["right", "weights"], ["right_features"], "right_features", **window),
        helper.make_node(
            "Correlation",
            ["left_features", "right_features"],
            ["correlated"],
            "correlation",
            domain="example.vision",
            displacement=DISPLACEMENT,
        ),
        helper.make_node("Relu", ["correlated"], ["cost"], "relu"),
    ]
    inputs = [picture("left"), picture("right")]
    graph = helper.make_graph(nodes, "flow", inputs, [cost], [numpy_helper.from_array(weights, "weights")])
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("example.vision", 1)]
    model = helper.make_model(graph, opset_imports=sets, ir_version=8, producer_name="model.py")
    onnx.save(model, folder / "model.onnx")

    left = random.uniform(-1, 1, shape).astype(np.float32)
    right = np.roll(left, SHIFT, axis=(2, 3))
    features = [convolution(side.astype(np.float64), weights.astype(np.float64)) for side in (left, right)]
    cost = np.maximum(correlation(*features, DISPLACEMENT), 0).astype(np.float32)
    np.savez_compressed(folder / "reference.npz", left=left, right=right, cost=cost)


main()
