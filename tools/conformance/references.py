"""Makes reference cases: networks with inputs and the outputs that ONNX Runtime computes for them on the CPU.

    pip install -r tools/conformance/requirements.txt
    python tools/conformance/references.py OUT [--zoo FOLDER] [--only NAME ...]

Every case is a folder in the form of the ONNX backend suite: model.onnx, test_data_set_0/input_N.pb and output_N.pb.
Besides, for scripts: the inputs as inputs/NAME.npy, and `options`, those of `floec compile` for these shapes.

Two kinds of networks:
- light_*: the nine classic networks that the onnx package carries without weights. Their constant weights are replaced
  by seeded random ones of a sensible size (He initialisation, BatchNorm statistics near one), and the last layer is
  scaled so that the logits spread by about two: neither a flat nor a one-hot softmax would tell errors.
- models of the zoo that `floec zoo fetch` has put into --zoo, on the inputs of zoo_inputs.py: NAME at the shapes of
  zoo.toml, NAME-second at the second ones. silero-vad-v6-stream is 10 s of speech for `floe-verify stream`: frames.npy
  with a frame a row, and probabilities.npy as ONNX Runtime computes them when it carries the state.
"""

import argparse
import hashlib
import json
import shutil
import tomllib
import zlib
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

import audio
from zoo_inputs import ZOO, session

HERE = Path(__file__).resolve().parent
TABLE = HERE.parents[1] / "models" / "zoo.toml"
LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


# Products of integers: where they have the zero point of their values, the weights and the zero point of these.
PRODUCTS = {
    "ConvInteger": (2, 1, 3),
    "DynamicQuantizeMatMul": (None, 1, 3),
    "MatMulInteger": (2, 1, 3),
    "MatMulIntegerToFloat": (4, 1, 5),
    "QAttention": (6, 1, 7),
    "QGemm": (2, 3, 5),
    "QLinearConv": (2, 3, 5),
    "QLinearMatMul": (2, 3, 5),
}


def unsigned_weights(model):
    """The model with constant weights of s8 that meet values of u8 as u8: they and their zero points are 128 more, the products
    the same. Of u8 and s8, ONNX Runtime saturates the sums of two products on x86 without VNNI."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    constants = {tensor.name: tensor for tensor in changed.graph.initializer}
    signed = {tensor.name for tensor in constants.values() if tensor.data_type == onnx.TensorProto.INT8}

    def raised(name, shape=()):
        array = numpy_helper.to_array(constants[name]) if name else np.zeros(shape, np.int8)
        raised = f"{name}.unsigned"
        if raised not in constants:
            constants[raised] = numpy_helper.from_array((array.astype(np.int16) + 128).astype(np.uint8), raised)
            changed.graph.initializer.append(constants[raised])
        return raised

    for node in changed.graph.node:
        values, weights, zero = PRODUCTS.get(node.op_type, (None, None, None))
        inputs = list(node.input) + [""] * 8
        if weights is None or inputs[weights] not in signed or (values is not None and inputs[values] in signed):
            continue
        inputs[weights], inputs[zero] = raised(inputs[weights]), raised(inputs[zero])
        node.input[:] = inputs[: max(len(node.input), zero + 1)]
    return changed


def run(model, inputs, optimised=True):
    """All outputs of ONNX Runtime's CPU provider. Without optimisations they are those of exact sums."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    options.log_severity_level = 3
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        model = unsigned_weights(onnx.load(model) if isinstance(model, Path) else model)
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"]).run(None, inputs)


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


def shapes_of(model):
    """A model of zoo.toml: suffix of the case -> shapes of its inputs."""
    shapes = {"": {i["name"]: i["shape"] for i in model["inputs"]}}
    if all("second_shape" in i for i in model["inputs"]):
        shapes["-second"] = {i["name"]: i["second_shape"] for i in model["inputs"]}
    return shapes


def zoo_makers(folder):
    """Cases of the zoo's models in a folder."""

    def make(name, shapes):
        # Pictures are computed in f64; `ascontiguousarray` would make a vector of a scalar.
        single = lambda v: v.astype(np.float32) if v.dtype == np.float64 else v
        inputs = {n: np.array(single(v), order="C") for n, v in ZOO[name](shapes, folder).items()}
        assert {n: list(v.shape) for n, v in inputs.items()} == shapes, f"{name}: inputs do not have the shapes"
        return folder / f"{name}.onnx", inputs

    models = tomllib.loads(TABLE.read_text())["model"]
    return {
        model["name"] + suffix: lambda _, name=model["name"], shapes=shapes: make(name, shapes)
        for model in models
        for suffix, shapes in shapes_of(model).items()
    }


def quantised_steps(file, inputs):
    """A quantised network cut at every QuantizeLinear: takes the quantised tensors, as ONNX Runtime computes them, and
    gives what each QuantizeLinear is to round. So an error is seen where it is made: in the whole network one value
    that rounds the other way spreads to all later ones.
    """
    model = onnx.load(file)
    graph = model.graph
    initial = {t.name for t in graph.initializer}
    cuts = [n for n in graph.node if n.op_type == "QuantizeLinear" and n.input[0] not in initial]
    types = {t.name: t.data_type for t in graph.initializer}
    quantised = [onnx.helper.make_tensor_value_info(n.output[0], types[n.input[2]], None) for n in cuts]
    final = len(graph.output)
    graph.output.extend(quantised)
    values = run(model, inputs, optimised=False)[final:]
    del graph.output[final:]
    for node, tensor, value in zip(cuts, quantised, values):
        graph.node.remove(node)
        graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.type.tensor_type.elem_type, value.shape))
        graph.output.append(onnx.helper.make_tensor_value_info(node.input[0], onnx.TensorProto.FLOAT, value.shape))
    # What is an input itself is no step; several may round the same tensor.
    kept = {o.name: o for o in graph.output if o.name not in inputs}
    del graph.output[:]
    graph.output.extend(kept.values())
    used = {name for node in graph.node for name in node.input}
    for unused in [i for i in graph.input if i.name not in used]:
        graph.input.remove(unused)
    del graph.value_info[:]
    return model, {n: v for n, v in (inputs | dict(zip((q.name for q in quantised), values))).items() if n in used}


def write_stream(folder, zoo):
    """Ten seconds of speech, frame by frame."""
    frames = audio.frames_with_context(audio.speech(10 * audio.RATE))
    detector = session(zoo / "silero-vad-v6.onnx")
    state, rate = np.zeros((2, 1, 128), np.float32), np.array(audio.RATE, np.int64)
    probabilities = []
    for frame in frames:
        probability, state = detector.run(None, {"input": frame[None], "state": state, "sr": rate})
        probabilities.append(probability[0, 0])
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "frames.npy", np.ascontiguousarray(frames))
    np.save(folder / "probabilities.npy", np.array(probabilities, np.float32))


def write_options(folder, inputs):
    """The file `options`: those of `floec compile` for a case, words separated by spaces."""
    decides = [name for name, value in inputs.items() if value.dtype == np.int64 and not value.shape]
    words = [f"--constant {name}={inputs[name]}" for name in decides]
    given = {name: value for name, value in inputs.items() if name not in decides}
    words += [f"--shape {name}={'x'.join(map(str, value.shape))}" for name, value in given.items()]
    (folder / "options").write_text(" ".join(words) + "\n")


def write(folder, model, inputs, outputs):
    data = folder / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    (folder / "inputs").mkdir(exist_ok=True)
    write_options(folder, inputs)
    for name, value in inputs.items():
        np.save(folder / "inputs" / (name.replace("/", "_").replace(":", "_") + ".npy"), value)
    if isinstance(model, Path):
        shutil.copyfile(model, folder / "model.onnx")
        model = onnx.load(model)
    else:
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
        makers |= zoo_makers(arguments.zoo)
        quantised = "smart-turn-v3.2-qdq"
        whole = makers[quantised]
        makers[f"{quantised}-steps"] = lambda _: quantised_steps(*whole(quantised))
        makers["silero-vad-v6-stream"] = None
    scripts = [HERE / "references.py", HERE / "audio.py", HERE / "zoo_inputs.py", TABLE]
    scripts = b"".join(path.read_bytes() for path in scripts)
    made_by = json.dumps({"onnxruntime": onnxruntime.__version__, "scripts": hashlib.sha256(scripts).hexdigest()})
    for name, make in makers.items():
        folder = arguments.out / name
        complete = folder / "complete"
        if arguments.only and name not in arguments.only or complete.exists() and complete.read_text() == made_by:
            continue
        shutil.rmtree(folder, ignore_errors=True)
        if make is None:
            write_stream(folder, arguments.zoo)
        else:
            model, inputs = make(name)
            # A cut network leaves nothing to fuse; its parts are compared operator by operator.
            outputs = run(model, inputs, optimised=not name.endswith("-steps"))
            write(folder, model, inputs, outputs)
            print(f"{name}: {[list(o.shape) for o in outputs]}", flush=True)
        # Last, so that an interrupted run is repeated.
        complete.write_text(made_by)


if __name__ == "__main__":
    main()
