"""One try: a network is exported, run by ONNX Runtime, compiled and run by Floe, and the outputs are compared."""

import importlib
import math
import multiprocessing
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch

from settle import other_inputs, settle


def optimised(file, network):
    """Operators of com.microsoft in place of patterns."""
    from onnxruntime.transformers import optimizer

    kinds = sorted(optimizer.MODEL_TYPES, key=len, reverse=True)
    kind = next((kind for kind in kinds if network.startswith(kind)), "bert")
    optimizer.optimize_model(file, model_type=kind, opt_level=0).save_model_to_file(file)


def quantised(file, _network):
    """Weights of products in 8 bits, and rows rounded as they come."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    plain = file + ".plain"
    os.rename(file, plain)
    quantize_dynamic(plain, file, weight_type=QuantType.QInt8)
    os.remove(plain)


# What is made of the export for TorchScript.
REWRITERS = {"optimised": optimised, "quantised": quantised}
# Largest difference to ONNX Runtime that passes, as part of the range of the output.
BOUND = 1e-3


class Outcome(Exception):
    """Ends a try with one of the statuses of results.py."""

    def __init__(self, status, detail=""):
        super().__init__(detail)
        self.status, self.detail = status, detail


def export(build, exporter, file, network):
    """Writes the network; gives inputs of the exported graph, as arrays by name."""
    torch.manual_seed(1)
    model, inputs = build()
    model = model.eval()
    with torch.no_grad():
        settle(model, inputs)
        options = {"dynamo": True, "external_data": False, "verbose": False}
        if exporter != "dynamo":
            # The exporter leaves out what nothing reads; names tell what is left.
            names = [f"input_{number}" for number, _ in enumerate(other_inputs(inputs))]
            options = {"dynamo": False, "opset_version": 17, "input_names": names}
        torch.onnx.export(model, inputs, file, **options)
    if exporter in REWRITERS:
        REWRITERS[exporter](file, network)
    return [tensor.numpy() for tensor in other_inputs(inputs)]


def nudged(file):
    """The network with each weight moved by one unit in its last place, up or down: what rounding alone may do to results."""
    model, random = onnx.load(file), np.random.default_rng(1)
    for tensor in model.graph.initializer:
        values = onnx.numpy_helper.to_array(tensor)
        if values.dtype == np.float32 and values.size > 1:
            towards = random.choice(np.array([-np.inf, np.inf], np.float32), values.shape)
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.nextafter(values, towards), tensor.name))
    return model.SerializeToString()


def reference(file, arrays, level=onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL):
    """What ONNX Runtime computes of a file or a serialised network: inputs and outputs by name."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level, options.graph_optimization_level = 1, 3, level
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    if all(re.fullmatch(r"input_\d+", name) for name in names):
        arrays = [arrays[int(name.removeprefix("input_"))] for name in names]
    if len(names) != len(arrays):
        raise Outcome("unrun", f"the exported network has {len(names)} inputs instead of {len(arrays)}")
    feeds = dict(zip(names, arrays))
    outputs = session.run(None, feeds)
    return feeds, {value.name: output for value, output in zip(session.get_outputs(), outputs)}


def command(words, seconds):
    """Runs a program; its CPU time. Raises what it says when it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(words, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode == -signal.SIGXCPU:
        raise Outcome("slow", f"{Path(words[0]).name} {words[1]} takes more than {seconds} s of CPU time")
    if done.returncode != 0:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()] or ["it says nothing"]
        refused = done.returncode in (1, 2)
        raise Outcome("refused" if refused else "crash", " ".join(lines if refused else lines[-6:]))
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def file_name(name):
    return name.replace("/", "_").replace(":", "_") + ".npy"


def outputs_in(folder, expected):
    """What Floe computed, by name; of an output whose extent depends on data only what is there."""
    outputs = {}
    for name, reference in expected.items():
        outputs[name] = np.load(folder / file_name(name))
        count = folder / file_name(name + ".count")
        if count.exists():
            pairs = zip(outputs[name].shape, reference.shape)
            axis = next((d for d, (room, extent) in enumerate(pairs) if room != extent), 0)
            outputs[name] = outputs[name].take(np.arange(int(np.load(count))), axis)
    return outputs


def compare(outputs, expected):
    """Largest difference as part of an output's range, and where it is."""
    worst, where = 0.0, ""
    for name, reference in expected.items():
        found = outputs[name]
        if found.shape != reference.shape or found.dtype != reference.dtype:
            raise Outcome("wrong", f"{name}: {found.dtype}{found.shape} instead of {reference.dtype}{reference.shape}")
        if not reference.size:
            continue
        found, reference = found.astype(np.float64), reference.astype(np.float64)
        # A single number has no range but its own size.
        span = np.ptp(reference) if reference.size > 1 else np.abs(reference).max()
        difference = np.abs(found - reference).max() / max(span, np.abs(reference).max() * 1e-3, 1e-12)
        if not difference <= worst:
            worst, where = float(difference), name
    return worst, where


def compare_sets(outputs, expected):
    """As `compare` for detections: of each the nearest one counts, since equally good ones may change places."""
    tables = []
    for name in expected:
        values = [side[name].reshape(len(side[name]), math.prod(side[name].shape[1:])).astype(np.float64) for side in (outputs, expected)]
        span = max(np.ptp(values[1]), 1e-12) if values[1].size else 1.0
        tables.append([side / span for side in values])
    found, reference = (np.concatenate(sides, 1) for sides in zip(*tables))
    if len(found) != len(reference):
        raise Outcome("wrong", f"{len(found)} detections instead of {len(reference)}")
    distances = np.abs(found[:, None] - reference[None]).max(2)
    return float(max(distances.min(0).max(), distances.min(1).max())), "a detection"


def check_meaning(expected):
    """Outputs that say something about the network: finite, and not all of them constant or empty."""
    for name, value in expected.items():
        if np.issubdtype(value.dtype, np.floating) and not np.isfinite(value).all():
            raise Outcome("nothing", f"{name} is not finite")
    if all(value.size == 0 for value in expected.values()):
        raise Outcome("nothing", "all outputs are empty")
    if all(value.size == 0 or (value.size > 1 and np.ptp(value) == 0) for value in expected.values()):
        raise Outcome("nothing", "all outputs are constant")


def attempt(arguments, source, network, exporter, line, folder, stage):
    """Fills the line of results; `stage` is told what it means if the process ends there."""
    file = folder / "model.onnx"
    try:
        build = importlib.import_module(f"from_{source}").NETWORKS[network]
        arrays = export(build, exporter, str(file), network)
    except Exception as error:
        raise Outcome("export", f"{type(error).__name__}: {str(error).strip()}") from error
    line["nodes"] = len(onnx.load(file, load_external_data=False).graph.node)
    stage("unrun")
    try:
        feeds, expected = reference(str(file), arrays)
    except Outcome:
        raise
    except Exception as error:
        raise Outcome("unrun", str(error)) from error
    check_meaning(expected)
    stage("crash")

    plan = folder / "model.floe"
    shapes = [f"--shape={name}={'x'.join(map(str, array.shape))}" for name, array in feeds.items()]
    compiling = [arguments.floec, "compile", str(file), "--target", "host", "--precision", "f32", *shapes, "-o", str(plan)]
    line["compile"] = command(compiling, arguments.limit)
    given = []
    for name, array in feeds.items():
        np.save(folder / ("in_" + file_name(name)), array)
        given += ["--input", f"{name}={folder / ('in_' + file_name(name))}"]
    command([arguments.floe, "run", str(plan), "--device", "host", *given, "--output-dir", str(folder / "out")], arguments.limit)
    counted = any((folder / "out").glob("*.count.npy"))
    difference = compare_sets if counted else compare
    line["difference"], where = difference(outputs_in(folder / "out", expected), expected)
    if not line["difference"] <= BOUND:
        _, plain = reference(str(file), arrays, onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
        own, _ = difference(plain, expected)
        # Its optimisations may be what changes results: it pads for the largest of a window with zeros.
        unchanged, _ = difference(outputs_in(folder / "out", expected), plain)
        if unchanged <= BOUND:
            line["difference"] = unchanged
            raise Outcome("ok", f"{where} as ONNX Runtime without optimisations; with them it differs by {own:.2g}")
        try:
            _, moved = reference(nudged(str(file)), arrays)
            own = max(own, difference(moved, expected)[0])
        except Exception as error:
            print(f"its rounded form does not run: {error}", file=sys.stderr)
        what = f"{where} differs by {line['difference']:.2g} of its range, ONNX Runtime with its own roundings changed by {own:.2g}"
        raise Outcome("wrong" if own < line["difference"] / 10 else "sensitive", what)
    raise Outcome("ok")


def child(arguments, source, network, exporter, sender):
    """Sends the line of results, and before each stage what it is if the process ends there."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (arguments.limit, arguments.limit + 5))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    folder = Path(arguments.work) / f"{source}-{network}-{exporter}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    log = os.open(folder / "log.txt", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    torch.set_num_threads(1)
    line = {"source": source, "network": network, "exporter": exporter}
    stage = lambda status: sender.send(line | {"status": status, "detail": ""})
    try:
        stage("export")
        attempt(arguments, source, network, exporter, line, folder, stage)
    except Outcome as outcome:
        line["status"], line["detail"] = outcome.status, outcome.detail
    if not arguments.keep:
        shutil.rmtree(folder, ignore_errors=True)
    sender.send(line)


def in_child(arguments, source, network, exporter):
    """The line of results of one try, made in a process of its own so that nothing of an exporter remains."""
    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)
    process = fork.Process(target=child, args=(arguments, source, network, exporter, sender))
    process.start()
    sender.close()
    line, ended = {}, False
    # CPU time is what is limited; this ends what waits for ever.
    while receiver.poll(10 * arguments.limit):
        try:
            line = receiver.recv()
        except EOFError:
            ended = True
            break
    if not ended:
        os.killpg(process.pid, signal.SIGKILL)
    process.join()
    if process.exitcode != 0:
        over = not ended or process.exitcode == -signal.SIGXCPU
        line["detail"] = f"more than {arguments.limit} s of CPU time" if over else f"its process ended with {process.exitcode}"
    return line
