"""Makes quantised networks in the form that ONNX Runtime's static quantiser gives them, as reference cases.

    pip install -r tools/conformance/requirements.txt torch torchvision onnxscript
    python tools/conformance/quantized_networks.py OUT [--size PIXELS] [--only NAME ...]

Small networks of torchvision with weights that behave like trained ones (architectures/settle.py), calibrated on noise:
NAME-u8 has unsigned activations with zero points and signed weights with a scale for each channel, NAME-i8 signed
activations and one scale for all of a layer's weights. Every case is a folder in the form of references.py; beside each
lies NAME-steps, the same network cut at every QuantizeLinear.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import onnx
import torch
import torchvision
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

sys.path.insert(0, str(Path(__file__).parent / "architectures"))
from references import quantised_steps, run, write  # noqa: E402
from settle import settle  # noqa: E402

FORMS = {
    "u8": {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8, "per_channel": True},
    "i8": {"activation_type": QuantType.QInt8, "weight_type": QuantType.QInt8, "per_channel": False},
}


class Noise(CalibrationDataReader):
    """A few random images."""

    def __init__(self, name, shape):
        random = np.random.default_rng(7)
        self.images = iter([{name: random.standard_normal(shape).astype(np.float32)} for _ in range(4)])

    def get_next(self):
        return next(self.images, None)


def export(name, size, file):
    """A network of torchvision as floats."""
    torch.manual_seed(1)
    model = torchvision.models.get_model(name, weights=None).eval()
    image = torch.randn(1, 3, size, size)
    with torch.no_grad():
        settle(model, [image])
        torch.onnx.export(model, (image,), file, dynamo=False, opset_version=17, input_names=["image"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--only", nargs="*", default=["resnet18", "mobilenet_v2"])
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.only:
        plain = arguments.out / f"{name}.onnx"
        export(name, arguments.size, str(plain))
        quant_pre_process(str(plain), str(plain), skip_symbolic_shape=True)
        shape = (1, 3, arguments.size, arguments.size)
        inputs = {"image": np.random.default_rng(9).standard_normal(shape).astype(np.float32)}
        for form, options in FORMS.items():
            file = arguments.out / f"{name}-{form}.onnx"
            quantize_static(str(plain), str(file), Noise("image", shape), quant_format=QuantFormat.QDQ, **options)
            write(arguments.out / f"{name}-{form}", file, inputs, run(file, inputs))
            steps, given = quantised_steps(file, inputs)
            onnx.checker.check_model(steps)
            write(arguments.out / f"{name}-{form}-steps", steps, given, run(steps, given, optimised=False))
            file.unlink()


if __name__ == "__main__":
    main()
