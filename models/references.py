"""Makes reference cases: networks with inputs and the outputs that ONNX Runtime computes for them on the CPU.

    pip install -r models/requirements.txt
    python models/references.py OUT [--zoo FOLDER] [--only NAME ...]

Every case is a folder in the form of the ONNX backend suite: model.onnx, test_data_set_0/input_N.pb and output_N.pb.

Two kinds of networks:
- light_*: the nine classic networks that the onnx package carries without weights. Their constant weights are replaced
  by seeded random ones of a sensible size (He initialisation, BatchNorm statistics near one), and the last layer is
  scaled so that the logits spread by about two: neither a flat nor a one-hot softmax would tell errors.
- models of the zoo that `floec zoo fetch` has put into --zoo, on real pictures from scikit-image and scikit-learn.
"""

import argparse
import json
import zlib
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper
from PIL import Image

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


def run(model, inputs):
    """All outputs of ONNX Runtime's CPU provider."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    source = model if isinstance(model, str) else model.SerializeToString()
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"]).run(None, inputs)


def picture(name, height, width, channels=3):
    """A picture as [1, channels, height, width], f32 in 0..255; the fourth channel is opaque white."""
    if name in ("china.jpg", "flower.jpg"):
        from sklearn.datasets import load_sample_image

        pixels = load_sample_image(name)
    else:
        import skimage.data

        pixels = getattr(skimage.data, name)()
    image = Image.fromarray(pixels).convert("RGB").resize((width, height), Image.Resampling.BILINEAR)
    planes = np.asarray(image, np.float32).transpose(2, 0, 1)
    if channels == 4:
        planes = np.concatenate([planes, np.full((1, height, width), 255, np.float32)])
    return planes[None]


def imagenet(pixels):
    mean = np.array([0.485, 0.456, 0.406], np.float32).reshape(3, 1, 1)
    spread = np.array([0.229, 0.224, 0.225], np.float32).reshape(3, 1, 1)
    return (pixels / 255 - mean) / spread


def page_rotations():
    page = picture("page", 224, 224)[0]
    return imagenet(np.stack([np.rot90(page, k, (1, 2)) for k in range(4)]))


def line_crops():
    page = picture("page", 191, 384)[0]
    lines = [page[:, 20 * k : 20 * k + 24, 8:200] for k in range(6)]
    resized = [np.stack([np.asarray(Image.fromarray(c).resize((192, 48))) for c in line]) for line in lines]
    return (np.stack(resized) / 255 - 0.5) / 0.5


# The zoo models of the tests: input name -> how its value is made.
ZOO = {
    "blazeface-front": {"input:0": lambda: picture("astronaut", 128, 128).transpose(0, 2, 3, 1) / 127.5 - 1},
    "mlsd-tiny-512": {"input_image_with_alpha:0": lambda: picture("china.jpg", 512, 512, 4).transpose(0, 2, 3, 1)},
    "ppocrv6-det-small": {"x": lambda: imagenet(picture("page", 384, 768))},
    "ppocr-cls-mobilev2": {"x": line_crops},
    "pplcnet-orientation": {"x": page_rotations},
    "ddddocr-yolox-det": {"images": lambda: picture("text", 416, 416)},
}


def fill(model, random):
    """Replaces the constant weights of a light network by random ones."""
    graph = model.graph
    readers = {}
    for node in graph.node:
        for position, name in enumerate(node.input):
            readers.setdefault(name, []).append((node, position))
    shapes = {t.name: numpy_helper.to_array(t) for t in graph.initializer}

    def use(name):
        node, position = readers[name][0]
        return use(node.output[0]) if node.op_type == "Unsqueeze" else (node.op_type, position)

    def value(name, shape):
        kind, position = use(name)
        if kind in ("Conv", "Gemm") and position == 1:
            return random.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))
        if (kind == "BatchNormalization" and position in (1, 4)) or kind == "Mul":
            return random.uniform(0.5, 1.5, shape)
        return random.standard_normal(shape) * 0.05

    made = []
    for node in list(graph.node):
        if node.op_type == "ConstantOfShape":
            shape = tuple(shapes[node.input[0]])
            made.append(numpy_helper.from_array(value(node.output[0], shape).astype(np.float32), node.output[0]))
            graph.node.remove(node)
    graph.initializer.extend(made)
    used = {name for node in graph.node for name in node.input}
    for tensor in [t for t in graph.initializer if t.name not in used]:
        graph.initializer.remove(tensor)
    initial = {t.name for t in graph.initializer}
    for value_info in [v for v in graph.input if v.name in initial or v.name not in used]:
        graph.input.remove(value_info)
    return made


def light(name):
    """A light network with random weights, and its input."""
    model = onnx.load(LIGHT / f"{name}.onnx")
    random = np.random.default_rng(zlib.crc32(name.encode()))
    made = fill(model, random)
    (image,) = model.graph.input
    shape = [d.dim_value for d in image.type.tensor_type.shape.dim]
    inputs = {image.name: random.standard_normal(shape).astype(np.float32)}
    # Scale what makes the logits: the last Gemm or Conv.
    last = [node for node in model.graph.node if node.op_type in ("Gemm", "Conv")][-1]
    logits = onnx.helper.make_tensor_value_info(last.output[0], onnx.TensorProto.FLOAT, None)
    model.graph.output.append(logits)
    spread = float(np.std(run(model, inputs)[-1]))
    del model.graph.output[-1]
    for tensor in made:
        if tensor.name in last.input[1:]:
            scaled = numpy_helper.to_array(tensor) * np.float32(2 / spread)
            [t for t in model.graph.initializer if t.name == tensor.name][0].CopyFrom(
                numpy_helper.from_array(scaled, tensor.name)
            )
    return model, inputs


def zoo(name, folder):
    model = onnx.load(folder / f"{name}.onnx")
    return model, {name: np.ascontiguousarray(make(), np.float32) for name, make in ZOO[name].items()}


def write(folder, model, inputs, outputs):
    data = folder / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    # The inputs once more for `floe run` and `floe-verify networks --inputs`.
    (folder / "inputs").mkdir(exist_ok=True)
    for name, value in inputs.items():
        np.save(folder / "inputs" / (name.replace("/", "_").replace(":", "_") + ".npy"), value)
    onnx.save(model, folder / "model.onnx")
    initial = {t.name for t in model.graph.initializer}
    names = [i.name for i in model.graph.input if i.name not in initial]
    for number, name in enumerate(names):
        (data / f"input_{number}.pb").write_bytes(numpy_helper.from_array(inputs[name], name).SerializeToString())
    for number, (info, output) in enumerate(zip(model.graph.output, outputs)):
        (data / f"output_{number}.pb").write_bytes(numpy_helper.from_array(output, info.name).SerializeToString())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--zoo", type=Path, help="folder with fetched zoo models; without it only light networks")
    parser.add_argument("--only", nargs="*", help="names of cases")
    arguments = parser.parse_args()
    makers = {path.stem: lambda name: light(name) for path in sorted(LIGHT.glob("*.onnx"))}
    if arguments.zoo:
        makers |= {name: lambda name: zoo(name, arguments.zoo) for name in ZOO}
    for name, make in makers.items():
        folder = arguments.out / name
        if arguments.only and name not in arguments.only or (folder / "complete").exists():
            continue
        model, inputs = make(name)
        outputs = run(model, inputs)
        write(folder, model, inputs, outputs)
        # Last, so that an interrupted run is repeated.
        (folder / "complete").write_text(json.dumps({"onnxruntime": onnxruntime.__version__}))
        print(f"{name}: {[list(o.shape) for o in outputs]}", flush=True)


main()
