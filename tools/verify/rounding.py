"""What rounding does to networks, in ONNX Runtime: the evidence for the bounds of f16 and for what is not comparable.

    pip install -r tools/conformance/requirements.txt
    python tools/verify/rounding.py REFERENCES > tools/verify/rounding.txt

REFERENCES is what tools/conformance/references.py made. Part one rounds every weight and every activation of the float networks to f16,
except what Floe keeps in f32 too: what a logarithm sees, sums over a dimension, states, constants of comparisons, and the
layers that tools/verify/gpu keeps. Part two runs quantised networks with and without ONNX Runtime's optimisations and counts
the 8-bit values that round differently, then changes the inputs by 1e-6 of themselves.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

SUMS = {"ReduceSum", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceProd", "Pow", "LSTM", "GRU", "RNN"}
COMPARISONS = {"Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"}
ACTIVATIONS = {"Relu", "Sigmoid", "Tanh"}
CONTROL = {"Constant", "Shape", "If", "Loop", "Scan"}
KEPT = {"mlsd-tiny-512": ["WireFrameModel_with_alpha/tf_op_layer_RealDiv/RealDiv"] + [f"Conv__22{n}" for n in (0, 1, 2, 3, 6, 7)]}


def run(model, inputs, optimised=False):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def load(case):
    """A model and its inputs."""
    model = onnx.load(case / "model.onnx")
    initial = {t.name for t in model.graph.initializer}
    names = [i.name for i in model.graph.input if i.name not in initial]
    files = [case / "test_data_set_0" / f"input_{number}.pb" for number in range(len(names))]
    return model, {name: numpy_helper.to_array(onnx.load_tensor(str(file))) for name, file in zip(names, files)}


def in_f32(graph, kept):
    """Names of the values that stay f32."""
    made_by = {output: node for node in graph.node for output in node.output}
    stays = set()
    seen_by_logarithm = [name for node in graph.node if node.op_type == "Log" for name in node.input]
    while seen_by_logarithm:
        name = seen_by_logarithm.pop()
        node = made_by.get(name)
        if name not in stays and node is not None and node.op_type not in ACTIVATIONS:
            seen_by_logarithm.extend(node.input)
        stays.add(name)
    for node in graph.node:
        if node.op_type in SUMS:
            stays.update(node.output)
        if node.op_type in COMPARISONS:
            stays.update(node.input)
        if node.name in kept:
            stays.update([*node.input, *node.output])
    return stays


def rounded(model, kept):
    """The model with weights and activations rounded to f16."""
    model = onnx.shape_inference.infer_shapes(model)
    graph = model.graph
    types = {v.name: v.type.tensor_type.elem_type for v in graph.value_info}
    stays = in_f32(graph, kept) | {output.name for output in graph.output}
    for tensor in graph.initializer:
        if tensor.data_type == TensorProto.FLOAT and tensor.name not in stays:
            half = numpy_helper.to_array(tensor).astype(np.float16).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(half, tensor.name))
    nodes = list(graph.node)
    del graph.node[:], graph.value_info[:]
    for node in nodes:
        graph.node.append(node)
        index = len(graph.node) - 1
        for place, name in enumerate(node.output):
            if node.op_type in CONTROL or name in stays or types.get(name) != TensorProto.FLOAT:
                continue
            graph.node[index].output[place] = f"{name} exact"
            graph.node.append(helper.make_node("Cast", [f"{name} exact"], [f"{name} half"], to=TensorProto.FLOAT16))
            graph.node.append(helper.make_node("Cast", [f"{name} half"], [name], to=TensorProto.FLOAT))
    return model


def elements(case):
    """How far the elements of each output are off in f16."""
    model, inputs = load(case)
    exact = run(model, inputs)
    half = run(rounded(model, KEPT.get(case.name, ())), inputs)
    for output, a, b in zip(model.graph.output, exact, half):
        if a.dtype not in (np.float32, np.float64):
            continue
        a, b = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
        if not np.isfinite(b[np.isfinite(a)]).all():
            print(f"{case.name:<32} {output.name[:28]:<28} beyond the range of f16")
            continue
        distance, rms = np.abs(a - b), np.sqrt((a * a).mean())
        part = distance / np.maximum(np.maximum(np.abs(a), rms), 1e-30)
        l2 = np.sqrt((distance**2).mean()) / max(rms, 1e-30)
        beyond = int((part > 0.1).sum())
        print(f"{case.name:<32} {output.name[:28]:<28} {a.size:>8} {l2:>9.1e} {part.max():>9.1e} {beyond:>8}", flush=True)


def steps(case):
    """How many 8-bit values of a quantised network round differently, where they first do, and what becomes of the outputs."""
    model, inputs = load(case)
    initial = {t.name for t in model.graph.initializer}
    types = {t.name: t.data_type for t in model.graph.initializer}
    cuts = [n for n in model.graph.node if n.op_type == "QuantizeLinear" and n.input[0] not in initial]
    made_by = {output: node.op_type for node in model.graph.node for output in node.output}
    final = len(model.graph.output)
    model.graph.output.extend(helper.make_tensor_value_info(n.output[0], types[n.input[2]], None) for n in cuts)
    plain, optimised = run(model, inputs), run(model, inputs, optimised=True)
    print(f"{case.name}: outputs {plain[0].ravel()}, with optimisations {optimised[0].ravel()}")
    first = True
    for node, a, b in list(zip(cuts, plain[final:], optimised[final:])):
        differ = int((a != b).sum())
        large = a.size >= 100_000 and differ > 0.9 * a.size
        if differ and (first or large):
            where = f"behind {made_by.get(node.input[0], 'the input')}, number {cuts.index(node) + 1} of {len(cuts)}"
            print(f"    {'the first' if first else 'nine in ten'} to differ: {differ} of {a.size} values of {node.name}, {where}")
            first = False
            if large:
                break
    del model.graph.output[final:]
    random = np.random.default_rng(0)
    changed = []
    for _ in range(6):
        noise = lambda value: (value * (1 + 1e-6 * random.uniform(-1, 1, value.shape))).astype(value.dtype)
        changed.append(run(model, {name: noise(value) for name, value in inputs.items()})[0].ravel())
    least, most = np.min(changed, axis=0), np.max(changed, axis=0)
    print(f"    inputs changed by 1e-6 of themselves, six times: outputs from {least} to {most}", flush=True)


def main():
    folder = Path(sys.argv[1])
    cases = sorted(path.parent for path in folder.glob("*/model.onnx"))
    print(f"ONNX Runtime {onnxruntime.__version__} on the CPU\n\nWeights and activations rounded to f16: elements of each output,")
    print("relative L2 error, largest |a - b| / max(|a|, rms), elements of which that is more than 0.1")
    for case in cases:
        if "qdq" not in case.name or case.name.endswith("-steps"):
            elements(case)
    print("\nQuantised networks, with and without optimisations")
    for case in cases:
        if "qdq" in case.name and not case.name.endswith("-steps"):
            steps(case)


if __name__ == "__main__":
    main()
