"""The networks that are benchmarked and verified on a GPU: architectures of torchvision and timm, whose random weights
behave like trained ones. `tools/conformance/sensitivity.py` tests that all of them matter to the output."""

import sys
from pathlib import Path

import numpy as np
import timm
import torch
import torchvision
from torch import nn

from detector import Detector
from measurements import QUANTISED

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "conformance" / "architectures"))
from settle import settle  # noqa: E402


class Recurrent(nn.Module):
    """Two layers of 256 over 100 steps of 80 features, as a small acoustic model has them."""

    def __init__(self, cell):
        super().__init__()
        self.layers = cell(80, 256, num_layers=2, batch_first=True)
        self.head = nn.Linear(256, 40)

    def forward(self, x):
        return self.head(self.layers(x)[0])


def encoder():
    """Six layers of width 384 with twelve heads over 128 tokens."""
    layer = nn.TransformerEncoderLayer(384, 12, 1536, activation="gelu", batch_first=True)
    network = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
    # Its layers are copies of one.
    for parameter in network.parameters():
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)
    return network


def deeplab():
    return torchvision.models.segmentation.deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None)


IMAGE = (3, 224, 224)
# Name: constructor, shape of the input without the batch.
NETWORKS = {
    "resnet18": (torchvision.models.resnet18, IMAGE),
    "resnet50": (torchvision.models.resnet50, IMAGE),
    "mobilenet_v2": (torchvision.models.mobilenet_v2, IMAGE),
    "efficientnet_b0": (torchvision.models.efficientnet_b0, IMAGE),
    "convnext_tiny": (torchvision.models.convnext_tiny, IMAGE),
    "vgg16": (torchvision.models.vgg16, IMAGE),
    "deeplabv3_mobilenet_512": (deeplab, (3, 512, 512)),
    "detector_640": (lambda: Detector(640), (3, 640, 640)),
    "vit_tiny": (lambda: timm.create_model("vit_tiny_patch16_224"), IMAGE),
    "vit_b_16": (torchvision.models.vit_b_16, IMAGE),
    "encoder_6x384_128": (encoder, (128, 384)),
    "lstm_2x256_100": (lambda: Recurrent(nn.LSTM), (100, 80)),
    "gru_2x256_100": (lambda: Recurrent(nn.GRU), (100, 80)),
}
BATCHES = {"resnet50": (1, 8), "mobilenet_v2": (1, 8)}
# Those that are measured in 8 bits as well: products, depthwise layers, squeeze-and-excitation, large weights.
IN_8_BITS = ["resnet18", "resnet50", "mobilenet_v2", "efficientnet_b0", "vgg16", "detector_640"]


def cases():
    """Pairs of network and batch."""
    floats = [(name, batch) for name in NETWORKS for batch in BATCHES.get(name, (1,))]
    return floats + [(name + QUANTISED, 1) for name in IN_8_BITS]


def make(name, batch, device):
    """The network in f32 and a random input. Weights are made on the CPU: they do not depend on the device."""
    torch.manual_seed(0)
    constructor, shape = NETWORKS[name]
    network, x = constructor().eval(), torch.randn(batch, *shape)
    with torch.no_grad():
        settle(network, [x[:1]], unit=True)
    return network.to(device), x.to(device)


class Noise:
    """A few random images of a model's input, for calibration."""

    def __init__(self, model):
        given = model.graph.input[0]
        shape = [axis.dim_value for axis in given.type.tensor_type.shape.dim]
        random = np.random.default_rng(7)
        self.images = iter([{given.name: random.standard_normal(shape, dtype=np.float32)} for _ in range(2)])

    def get_next(self):
        return next(self.images, None)


def quantise(plain, path):
    """Writes the quantised form of a model as ONNX Runtime's static quantiser makes it: QDQ, signed, a scale for each channel."""
    import onnx
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    folded = f"{path}.folded"
    quant_pre_process(plain, folded, skip_symbolic_shape=True)
    types = {"activation_type": QuantType.QInt8, "weight_type": QuantType.QInt8}
    symmetric = {"ActivationSymmetric": True, "WeightSymmetric": True}
    quantize_static(
        folded,
        path,
        Noise(onnx.load(folded)),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        extra_options=symmetric,
        **types,
    )
    Path(folded).unlink()


def result(network, x):
    """The one output of a network."""
    found = network(x)
    return found["out"] if isinstance(found, dict) else found


def save_reference(network, x, path):
    """Writes beside the model at `path` what the network makes of the input in f32: .input.npy and .reference.npy, and the input's
    name to .input."""
    import onnx

    torch.backends.mha.set_fastpath_enabled(False)
    with torch.no_grad():
        np.save(path.with_suffix(".reference.npy"), result(network, x).numpy())
    np.save(path.with_suffix(".input.npy"), x.numpy())
    [given] = onnx.load(path.with_suffix(".new"), load_external_data=False).graph.input
    path.with_suffix(".input").write_text(given.name)


def export(name, batch, path):
    """Writes the network as ONNX: in f32, or quantised where its name says so."""
    if name.endswith(QUANTISED):
        plain = f"{path}.plain"
        export(name.removesuffix(QUANTISED), batch, plain)
        quantise(plain, path)
        Path(plain).unlink()
        return
    network, x = make(name, batch, "cpu")
    # The fused path of attention has no ONNX form.
    torch.backends.mha.set_fastpath_enabled(False)
    torch.onnx.export(network, (x,), path, dynamo=False, opset_version=17)
