"""Trains the digit classifier of the quickstart and writes digits.onnx and held_back.bin beside this file.

The data are the 1,797 handwritten digits (8x8, 16 grey levels) that scikit-learn ships: a part of "Optical Recognition of
Handwritten Digits" by E. Alpaydin and C. Kaynak, UCI Machine Learning Repository, CC BY 4.0. Every fifth digit is held
back and never trained on.

    pip install scikit-learn onnx numpy
    python examples/quickstart/train.py

Plain NumPy: two convolutions with ReLU and max pooling, two fully connected layers, Adam, shifted copies of the digits as
augmentation. The seed is fixed; the accuracy on the held-back digits must reach 97 %.
"""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

HERE = Path(__file__).parent
random = np.random.default_rng(0)


def patches(x):
    """[n, c, 8|4, w] -> [n, h*w, c*9]: 3x3 neighbourhoods with zero padding."""
    n, c, h, w = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    taps = [padded[:, :, i : i + h, j : j + w] for i in range(3) for j in range(3)]
    return np.stack(taps, 2).reshape(n, c * 9, h * w).transpose(0, 2, 1)


def patches_gradient(g, shape):
    """The adjoint of `patches`."""
    n, c, h, w = shape
    g = g.transpose(0, 2, 1).reshape(n, c, 9, h, w)
    padded = np.zeros((n, c, h + 2, w + 2), np.float32)
    for tap in range(9):
        i, j = divmod(tap, 3)
        padded[:, :, i : i + h, j : j + w] += g[:, :, tap]
    return padded[:, :, 1:-1, 1:-1]


class Convolution:
    """3x3 convolution, ReLU, 2x2 max pooling."""

    def __init__(self, inputs, outputs):
        self.w = (random.standard_normal((outputs, inputs * 9)) * np.sqrt(2 / (inputs * 9))).astype(np.float32)
        self.b = np.zeros(outputs, np.float32)

    def forward(self, x):
        n, _, h, w = x.shape
        self.shape, self.p = x.shape, patches(x)
        y = np.maximum(self.p @ self.w.T + self.b, 0).transpose(0, 2, 1)
        blocks = y.reshape(n, -1, h // 2, 2, w // 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, -1, h // 2, w // 2, 4)
        best = blocks.argmax(-1)[..., None]
        self.mask = (np.arange(4) == best) & (blocks > 0)
        return np.take_along_axis(blocks, best, -1)[..., 0]

    def backward(self, g):
        n, _, h, w = self.shape
        g = (g[..., None] * self.mask).reshape(n, -1, h // 2, w // 2, 2, 2).transpose(0, 1, 2, 4, 3, 5)
        g = g.reshape(n, -1, h * w).transpose(0, 2, 1)
        self.gw = np.einsum("npo,npk->ok", g, self.p, optimize=True)
        self.gb = g.sum((0, 1))
        return patches_gradient(g @ self.w, self.shape)


class Linear:
    """Fully connected, ReLU unless it is the last."""

    def __init__(self, inputs, outputs, relu):
        self.w = (random.standard_normal((outputs, inputs)) * np.sqrt(2 / inputs)).astype(np.float32)
        self.b, self.relu = np.zeros(outputs, np.float32), relu

    def forward(self, x):
        self.x, self.y = x, x @ self.w.T + self.b
        return np.maximum(self.y, 0) if self.relu else self.y

    def backward(self, g):
        g = g * (self.y > 0) if self.relu else g
        self.gw, self.gb = g.T @ self.x, g.sum(0)
        return g @ self.w


class Network:
    def __init__(self):
        self.convolutions = [Convolution(1, 16), Convolution(16, 32)]
        self.linears = [Linear(32 * 4, 64, True), Linear(64, 10, False)]
        self.layers = self.convolutions + self.linears
        self.moments = {}
        self.step = 0

    def forward(self, x):
        for layer in self.convolutions:
            x = layer.forward(x)
        self.shape = x.shape
        x = x.reshape(len(x), -1)
        for layer in self.linears:
            x = layer.forward(x)
        return x

    def learn(self, x, labels, rate):
        logits = self.forward(x)
        e = np.exp(logits - logits.max(1, keepdims=True))
        g = (e / e.sum(1, keepdims=True) - np.eye(10, dtype=np.float32)[labels]) / len(x)
        for layer in reversed(self.linears):
            g = layer.backward(g)
        g = g.reshape(self.shape)
        for layer in reversed(self.convolutions):
            g = layer.backward(g)
        self.step += 1
        for number, layer in enumerate(self.layers):
            for name in "wb":
                value, gradient = getattr(layer, name), getattr(layer, "g" + name) + 1e-4 * getattr(layer, name)
                m, v = self.moments.get((number, name), (0, 0))
                m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
                self.moments[number, name] = m, v
                scale = rate * np.sqrt(1 - 0.999**self.step) / (1 - 0.9**self.step)
                value -= (scale * m / (np.sqrt(v) + 1e-8)).astype(np.float32)


def shifted(x):
    """Each digit moved by up to one pixel each way."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    result = np.empty_like(x)
    for k, (i, j) in enumerate(random.integers(0, 3, (len(x), 2))):
        result[k] = padded[k, :, i : i + 8, j : j + 8]
    return result


def export(network, path):
    """Writes the network with a softmax; `image` is [n, 1, 8, 8] in 0..1, `probabilities` is [n, 10]."""
    nodes, weights, x = [], [], "image"
    for number, layer in enumerate(network.convolutions, 1):
        w = layer.w.reshape(len(layer.b), -1, 3, 3)
        weights += [numpy_helper.from_array(w, f"conv{number}.w"), numpy_helper.from_array(layer.b, f"conv{number}.b")]
        inputs = [x, f"conv{number}.w", f"conv{number}.b"]
        nodes.append(helper.make_node("Conv", inputs, [f"c{number}"], f"conv{number}", pads=[1] * 4))
        nodes.append(helper.make_node("Relu", [f"c{number}"], [f"r{number}"], f"relu{number}"))
        pool = dict(kernel_shape=[2, 2], strides=[2, 2])
        nodes.append(helper.make_node("MaxPool", [f"r{number}"], [f"p{number}"], f"pool{number}", **pool))
        x = f"p{number}"
    nodes.append(helper.make_node("Flatten", [x], ["flat"], "flatten"))
    x = "flat"
    for number, layer in enumerate(network.linears, 1):
        weights += [numpy_helper.from_array(layer.w, f"fc{number}.w"), numpy_helper.from_array(layer.b, f"fc{number}.b")]
        inputs = [x, f"fc{number}.w", f"fc{number}.b"]
        nodes.append(helper.make_node("Gemm", inputs, [f"f{number}"], f"fc{number}", transB=1))
        x = f"f{number}"
        if layer.relu:
            nodes.append(helper.make_node("Relu", [x], [f"fr{number}"], f"fc{number}.relu"))
            x = f"fr{number}"
    nodes.append(helper.make_node("Softmax", [x], ["probabilities"], "softmax", axis=1))
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 1, 8, 8])
    probabilities = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["n", 10])
    graph = helper.make_graph(nodes, "digits", [image], [probabilities], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="floe quickstart")
    model.ir_version = 8
    onnx.checker.check_model(model)
    onnx.save(model, path)


def main():
    digits = load_digits()
    x = (digits.images / 16).astype(np.float32)[:, None]
    held_back = np.arange(len(x)) % 5 == 4
    train, labels = x[~held_back], digits.target[~held_back]
    network, batch, epochs = Network(), 64, 60
    for epoch in range(epochs):
        order = random.permutation(len(train))
        for start in range(0, len(train), batch):
            chosen = order[start : start + batch]
            network.learn(shifted(train[chosen]), labels[chosen], 2e-3 * 0.5 * (1 + np.cos(np.pi * epoch / epochs)))
    right = network.forward(x[held_back]).argmax(1) == digits.target[held_back]
    print(f"held-back digits: {right.sum()} of {len(right)} right, {100 * right.mean():.2f} %")
    assert right.mean() >= 0.97
    export(network, HERE / "digits.onnx")
    # 65 bytes a digit: 64 grey levels 0..16, row by row, then the label.
    rows = [np.append(image.ravel(), label) for image, label in zip(digits.images[held_back], digits.target[held_back])]
    (HERE / "held_back.bin").write_bytes(np.array(rows, np.uint8).tobytes())


main()
