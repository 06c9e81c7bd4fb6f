"""Tests the networks that verify Floe: their outputs must depend on all of their weights.

    python tools/conformance/sensitivity.py zoo REFERENCES [--sample N]     # the zoo, on what references.py made
    python tools/conformance/sensitivity.py exported FOLDER                 # tools/benchmark/networks.py, exported into FOLDER; needs torch
    python tools/conformance/sensitivity.py check                           # the committed results have what records count

A comparison of outputs says nothing of weights that the outputs hardly depend on. So every weight of a group is changed
by 10 % of itself, up or down at random and independently, and ONNX Runtime computes the network with both. The change of
some output must violate the bound that the network is held to (tools/conformance/src/bounds.toml). A group is a linear operator
(Conv, MatMul, Gemm, LSTM, Gather from a table ...) with the constants of what follows it up to the next one: bias,
normalisation, scales. Operators that share weights are one group, and squeeze and excitation belongs to what it scales.

sensitivity.json has the results: of each network and precision the smallest change as a multiple of what the bound allows,
and the groups whose change it does not see. sensitivity.toml gives the reason for these; a network without a reason fails,
and so does a reason that nothing needs. `zoo` and `exported` compare with the results, and write them with --write.
"""

import argparse
import hashlib
import json
import os
import sys
import tempfile
import tomllib
import zlib
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RECORDS = ROOT / "targets" / "verified"
BOUNDS = ROOT / "tools" / "conformance" / "src" / "bounds.toml"
RESULTS = HERE / "sensitivity.json"
REASONS = HERE / "sensitivity.toml"
PRECISIONS = ("f32", "f16")
# Operators that multiply by weights and add up; `Gather` is a table of embeddings.
LINEAR = {
    *("Conv", "ConvTranspose", "ConvInteger", "QLinearConv", "DeformConv", "Gemm", "MatMul", "MatMulInteger", "QLinearMatMul"),
    *("Einsum", "LSTM", "GRU", "RNN", "DynamicQuantizeLSTM", "Attention", "Gather"),
}
# Their constants are extents, limits and places, not weights.
SETTINGS = {"Resize", "Upsample", "Pad", "Clip", "Range", "OneHot", "NonMaxSuppression", "Slice", "Tile", "Expand"}
CHANGE = 0.1


# What networks are held to


def bounds(case):
    """The bound of each precision; none where the outputs of another network are held to it instead."""
    known = tomllib.loads(BOUNDS.read_text())
    made = {}
    for precision in PRECISIONS:
        own = [entry for entry in known["network"] if entry["precision"] == precision and entry["name"] == case.removesuffix("-second")]
        bound = own[0] if own else known[precision]
        if "instead" not in bound:
            made[precision] = {name: value for name, value in bound.items() if name not in ("name", "precision", "reason")}
    return made


def excess(bound, expected, found):
    """The change of an output as a multiple of what its bound allows: above 1 it is seen. A largest element that changes
    place does not count: it may by chance."""
    if not np.issubdtype(expected.dtype, np.floating):
        return 0.0 if np.array_equal(expected, found) else np.inf
    a, b = expected.astype(np.float64).ravel(), found.astype(np.float64).ravel()
    if not np.isfinite(b).all():
        return np.inf
    if not a.size:
        return 0.0
    tiny = 1e-300
    off, size = np.abs(a - b), np.abs(a)
    spared = bound.get("spared", 0.0)
    allowed = {
        "terms": lambda limit: (off / (1e-5 * max(1.0, size.max()) + 1e-4 * size)).max() / limit,
        "absolute": lambda limit: off.max() / max(limit, tiny),
        "cosine": lambda limit: (1 - a @ b / max(np.linalg.norm(a) * np.linalg.norm(b), tiny)) / (1 - limit) if a.size > 1 and off.any() else 0.0,
        "l2": lambda limit: np.linalg.norm(off) / max(np.linalg.norm(a), tiny) / limit,
        "element": lambda limit: np.sort(off / np.maximum(np.maximum(size, np.sqrt(np.mean(a * a))), tiny))[-1 - int(spared * a.size)] / limit,
    }
    unknown = set(bound) - set(allowed) - {"spared"}
    if unknown:
        raise ValueError(f"{BOUNDS} has parts of bounds that are unknown here: {unknown}")
    return float(max(allowed[name](limit) for name, limit in bound.items() if name in allowed))


# Networks and their weights


def folded(path, constants):
    """The network as ONNX Runtime folds it: constant expressions are initializers, constant branches are taken."""
    import onnx
    import onnxruntime
    from onnx import numpy_helper

    model = onnx.load(path)
    for name, value in constants.items():
        (info,) = [info for info in model.graph.input if info.name == name]
        model.graph.input.remove(info)
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = os.path.join(folder, "folded.onnx")
        onnx.save(model, os.path.join(folder, "model.onnx"))
        onnxruntime.InferenceSession(os.path.join(folder, "model.onnx"), options, providers=["CPUExecutionProvider"])
        return onnx.load(options.optimized_model_filepath)


def gates(graph):
    """Outputs of linear operators that only compute a gate: factors of a tensor, of that tensor alone (squeeze and excitation)."""
    constants = {tensor.name for tensor in graph.initializer}
    producer = {name: node for node in graph.node for name in node.output}
    given = lambda node: list(dict.fromkeys(name for name in node.input if name and name not in constants))

    def before(name):
        """What a tensor is computed of, where that is one tensor; and the node."""
        node = producer.get(name)
        sources = given(node) if node is not None else []
        if len(sources) == 2 and node.op_type == "Mul":
            # SiLU: x · sigmoid(x).
            sources = [a for a, b in (sources, sources[::-1]) if b in producer and given(producer[b]) == [a]]
        return (sources[0], node) if len(sources) == 1 else (None, None)

    found = set()
    for node in graph.node:
        if node.op_type != "Mul" or len(given(node)) != 2:
            continue
        for scaled, gate in (given(node), given(node)[::-1]):
            path = []
            while gate is not None and gate != scaled:
                gate, made = before(gate)
                path += [made.output[0]] if made is not None and made.op_type in LINEAR else []
            found |= set(path) if gate == scaled else set()
    return found


def groups(graph):
    """Names of groups and the initializers in each."""
    weights = {}
    for tensor in graph.initializer:
        # Scalars are numbers of a formula; 64 and 32 bits of integers are extents and places.
        if np.prod(tensor.dims) > 1 and tensor.data_type in (1, 2, 3, 10, 11, 16):
            weights[tensor.name] = tensor.name
    initial = {tensor.name for tensor in graph.initializer}
    sizes = {tensor.name: np.prod(tensor.dims) for tensor in graph.initializer}
    made, owner, current = {"constants": []}, {}, "constants"
    gating = gates(graph)
    for node in graph.node:
        constant = [name for name in node.input if name in weights]
        if constant and all(name in weights or name in initial or not name for name in node.input):
            # What is computed of weights alone stands for them: DequantizeLinear, Transpose, Cast.
            for name in node.output:
                weights[name] = weights[constant[0]]
            continue
        if not constant or node.op_type in SETTINGS:
            continue
        own = list(dict.fromkeys(weights[name] for name in constant))
        largest = max(own, key=lambda name: sizes[name])
        if largest in owner and node.op_type in LINEAR:
            current = owner[largest]
        elif node.op_type in LINEAR and node.output[0] not in gating and (node.op_type != "Gather" or node.input[0] in weights):
            current = node.name or node.output[0]
        made.setdefault(current, []).extend(name for name in own if name not in owner)
        owner |= {name: current for name in own if name not in owner}
    return {name: own for name, own in made.items() if own}


def changed(value, scale, random):
    """Each weight 10 % larger or smaller; of quantised weights the whole numbers, about their zero point."""
    factor = 1 + CHANGE * random.choice([-1.0, 1.0], value.shape)
    if np.issubdtype(value.dtype, np.floating):
        return (value * factor).astype(value.dtype)
    limits = np.iinfo(value.dtype)
    return np.clip(np.round((value - float(scale)) * factor + scale), limits.min, limits.max).astype(value.dtype)


def digest(path):
    """SHA-256 of the initializers, in the order of their names."""
    import onnx
    from onnx import numpy_helper

    made = hashlib.sha256()
    for tensor in sorted(onnx.load(path).graph.initializer, key=lambda tensor: tensor.name):
        made.update(tensor.name.encode() + numpy_helper.to_array(tensor).tobytes())
    return made.hexdigest()


def measure(name, path, inputs, constants, chosen):
    """Digest of the weights, the number of groups, and the excess of those that are chosen of their names, by precision.

    `inputs` gives the inputs by name, of a list of their ONNX declarations.
    """
    import onnx
    import onnxruntime
    from onnx import numpy_helper

    model = folded(path, constants)
    graph = model.graph
    found, of, held = groups(graph), digest(path), bounds(name)
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    fed = {weight: numpy_helper.to_array(tensors[weight]) for own in found.values() for weight in own}
    zero_points = {node.input[0]: float(numpy_helper.to_array(tensors[node.input[2]]).ravel()[0]) for node in graph.node
                   if node.op_type == "DequantizeLinear" and len(node.input) > 2 and node.input[2] in tensors}
    # As inputs, weights can change between two runs of one session.
    declared = {info.name for info in graph.input}
    feeds = inputs([info for info in graph.input if info.name not in tensors]) | fed
    for weight in fed:
        if weight not in declared:
            graph.input.append(onnx.helper.make_tensor_value_info(weight, tensors[weight].data_type, tensors[weight].dims))
        graph.initializer.remove(tensors[weight])
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 2
    # Threads that wait for each other in a loop cost more than they gain where cores are shared.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "model.onnx")
        onnx.save(model, file)
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    read = {info.name for info in session.get_inputs()}
    feeds = {name: value for name, value in feeds.items() if name in read}
    expected = session.run(None, feeds)
    made = {}
    for group in chosen(list(found)):
        random = np.random.default_rng(zlib.crc32(f"{name} {group}".encode()))
        other = {weight: changed(fed[weight], zero_points.get(weight, 0.0), random) for weight in found[group]}
        outputs = session.run(None, feeds | other)
        made[group] = {precision: max(excess(bound, a, b) for a, b in zip(expected, outputs)) for precision, bound in held.items()}
    return of, len(found), made


# Cases


def zoo(references):
    """Cases of trained networks: name, file, inputs, constants."""
    import onnx
    from onnx import numpy_helper

    for options in sorted(references.glob("*/options")):
        folder = options.parent
        # As tools/verify/gpu: the light networks are in no record.
        if folder.name.startswith("light_") or not bounds(folder.name):
            continue
        words = options.read_text().split()
        constant = dict(word.split("=") for option, word in zip(words, words[1:]) if option == "--constant")
        tensors = [onnx.load_tensor(file) for file in folder.glob("test_data_set_0/input_*.pb")]
        given = {tensor.name: numpy_helper.to_array(tensor) for tensor in tensors}
        constants = {name: value for name, value in given.items() if name in constant}
        yield folder.name, folder / "model.onnx", lambda _, given=given: {n: v for n, v in given.items() if n not in constants}, constants


def random_input(name, shape, seed=1):
    """What floe-verify gives an input without a file: uniform in [-1, 1), SplitMix64 from the name's FNV-1a."""
    hash = 0xCBF29CE484222325
    for byte in name.encode():
        hash = (hash ^ byte) * 0x100000001B3 % 2**64
    with np.errstate(over="ignore"):
        z = np.uint64(seed ^ hash) + np.uint64(0x9E3779B97F4A7C15) * np.arange(1, np.prod(shape) + 1, dtype=np.uint64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return ((z >> np.uint64(40)).astype(np.float32) / np.float32(2**23) - np.float32(1)).reshape(shape)


def exported(folder):
    """Cases of networks that are exported from PyTorch, at batch 1: others have the same weights."""
    sys.path.insert(0, str(ROOT / "tools" / "benchmark"))
    import networks

    inputs = lambda declared: {i.name: random_input(i.name, [d.dim_value for d in i.type.tensor_type.shape.dim]) for i in declared}
    folder.mkdir(parents=True, exist_ok=True)
    for name in networks.NETWORKS:
        file = folder / f"{name}-1.onnx"
        if not file.exists():
            networks.export(name, 1, str(file))
        yield name, file, inputs, {}


# Results


def significant(value):
    """Three digits; a number that is not finite, as text."""
    return float(f"{value:.3g}") if np.isfinite(value) else str(value)


def summary(weights, count, made):
    """What the results say of a network."""
    precisions = {}
    for precision in next(iter(made.values()), {}):
        changes = {group: excess[precision] for group, excess in made.items()}
        unseen = {group: significant(change) for group, change in changes.items() if not change > 1}
        precisions[precision] = {"smallest": significant(min(changes.values())), "unseen": unseen}
    return {"weights": weights, "groups": count, **precisions}


def differences(result, weights, count, made):
    """What was measured of some groups and is not what the results say."""
    if result is None:
        return ["has no results"]
    found = []
    if result["weights"] != weights:
        found.append("has other weights than the results")
    if result["groups"] != count:
        found.append(f"has {count} groups instead of {result['groups']}")
    for group, changes in made.items():
        for precision, change in changes.items():
            listed = group in result.get(precision, {}).get("unseen", {})
            if listed == (change > 1):
                found.append(f"{group} changes outputs by {change:.3g} of the bound of {precision}, and is {'' if listed else 'not '}listed as unseen")
    return found


def check(results, reasons, counted):
    """What is wrong with the results: networks that are missing, unseen groups without a reason, reasons without them."""
    found = [f"{name}: a record counts it, and it has no results" for name in sorted(counted - set(results)) if bounds(name)]
    needed = {(name, precision) for name, result in results.items() for precision in PRECISIONS if result.get(precision, {}).get("unseen")}
    given = {(name, precision) for entry in reasons for name in entry["networks"] for precision in entry["precisions"]}
    for name, precision in sorted(needed - given):
        unseen = results[name][precision]["unseen"]
        found.append(f"{name}, {precision}: {len(unseen)} of {results[name]['groups']} groups are not seen, and there is no reason for it")
    found += [f"{name}, {precision}: a reason that nothing needs" for name, precision in sorted(given - needed)]
    for name, result in results.items():
        if result["bounds"] != bounds(name):
            found.append(f"{name}: is held to other bounds than when it was measured")
    return found


def records():
    """Names of the networks that records count."""
    reports = [report for path in RECORDS.glob("*.json") for report in json.loads(path.read_text()).get("networks", {}).values()]
    return {report["plan"].rsplit("-", 1)[0] for report in reports}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS, help="file of results")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("zoo", "exported"):
        command = commands.add_parser(name)
        command.add_argument("folder", type=Path)
        command.add_argument("--sample", type=int, default=0, metavar="N", help="measure at most N groups of each network")
        command.add_argument("--only", nargs="*", help="names of networks")
        command.add_argument("--write", action="store_true", help="write the results instead of comparing with them")
        command.add_argument("--missing", action="store_true", help="leave out networks that have results under today's bounds")
    commands.add_parser("check")
    arguments = parser.parse_args()
    results = json.loads(arguments.results.read_text()) if arguments.results.exists() else {}
    failures = []
    if arguments.command == "check":
        failures = check(results, tomllib.loads(REASONS.read_text())["unseen"], records())
    else:
        # Spread over the whole network.
        sampled = lambda names: names[:: -(-len(names) // arguments.sample)] if arguments.sample else names
        if arguments.write and arguments.sample:
            parser.error("--write measures all groups: leave out --sample")
        for case, file, inputs, constants in (zoo if arguments.command == "zoo" else exported)(arguments.folder):
            known = case in results and results[case]["bounds"] == bounds(case)
            if arguments.only and case not in arguments.only or arguments.missing and known:
                continue
            measured = measure(case, file, inputs, constants, sampled)
            made = summary(*measured)
            parts = [f"{p} {made[p]['smallest']} ({len(made[p]['unseen'])} unseen)" for p in PRECISIONS if p in made]
            print(f"{case}: {len(measured[2])} of {made['groups']} groups, smallest change ÷ bound: {', '.join(parts)}", flush=True)
            if arguments.write:
                results[case] = made | {"bounds": bounds(case)}
                arguments.results.write_text(json.dumps(dict(sorted(results.items())), indent=1) + "\n")
            else:
                failures += [f"{case}: {difference}" for difference in differences(results.get(case), *measured)]
    for failure in failures:
        print(f"FAIL  {failure}", file=sys.stderr)
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
