"""Tries networks of public libraries: exports each to ONNX, compiles it with Floe, and compares with ONNX Runtime.

    pip install -r models/requirements.txt torch torchvision timm transformers ultralytics onnxscript
    python models/architectures timm torchvision ultralytics papers --results results.jsonl

Weights are random but behave like trained ones (settle.py), inputs are small and not those of the export. Each source
is a module from_SOURCE.py whose NETWORKS maps a name to a function that gives the network and its example inputs.
Every network goes through both exporters of PyTorch; `optimised` and `quantised` are what ONNX Runtime's transformer
optimiser and its dynamic quantisation make of the export for TorchScript. One line of JSON a try is appended to the
results, and what they have already is not tried again. `--table` writes them as Markdown instead.
"""

import argparse
import importlib
import json
import math
import multiprocessing
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch

from settle import other_inputs, settle
from table import table

EXPORTERS = ["dynamo", "torchscript"]


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
    """Ends a try: `status` is one of ok, compiled, WRONG, refused, crash, export, reference."""

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


def reference(file, arrays, level=onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL):
    """What ONNX Runtime computes: inputs and outputs by name."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level, options.graph_optimization_level = 1, 3, level
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    if all(re.fullmatch(r"input_\d+", name) for name in names):
        arrays = [arrays[int(name.removeprefix("input_"))] for name in names]
    if len(names) != len(arrays):
        raise Outcome("reference", f"the exported network has {len(names)} inputs instead of {len(arrays)}")
    feeds = dict(zip(names, arrays))
    outputs = session.run(None, feeds)
    return feeds, {value.name: output for value, output in zip(session.get_outputs(), outputs)}


def command(words, seconds):
    """Runs a program; its CPU time. Raises what it says when it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise Outcome("crash", f"{Path(words[0]).name} {words[1]} takes more than {seconds} s") from None
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()] or ["it says nothing"]
        refused = done.returncode == 1
        raise Outcome("refused" if refused else "crash", " ".join(lines if refused else lines[-6:])[:600])
    return round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2)


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
            raise Outcome("WRONG", f"{name}: {found.dtype}{found.shape} instead of {reference.dtype}{reference.shape}")
        if not reference.size:
            continue
        found, reference = found.astype(np.float64), reference.astype(np.float64)
        if not np.isfinite(reference).all():
            raise Outcome("reference", f"{name} is not finite")
        difference = np.abs(found - reference).max() / max(np.ptp(reference), np.abs(reference).max() * 1e-3, 1e-12)
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
        raise Outcome("WRONG", f"{len(found)} detections instead of {len(reference)}")
    if not len(found):
        raise Outcome("reference", "it detects nothing")
    distances = np.abs(found[:, None] - reference[None]).max(2)
    return float(max(distances.min(0).max(), distances.min(1).max())), "a detection"


def attempt(arguments, source, network, exporter, line, folder):
    """Fills the line of results."""
    file = folder / "model.onnx"
    try:
        build = importlib.import_module(f"from_{source}").NETWORKS[network]
        arrays = export(build, exporter, str(file), network)
    except Exception as error:
        raise Outcome("export", f"{type(error).__name__}: {str(error).strip()}"[:300]) from error
    model = onnx.load(file, load_external_data=False)
    line["opset"] = next(set.version for set in model.opset_import if set.domain in ("", "ai.onnx"))
    line["nodes"], line["megabytes"] = len(model.graph.node), round(file.stat().st_size / 1e6, 1)
    try:
        feeds, expected = reference(str(file), arrays)
    except Outcome:
        raise
    except Exception as error:
        raise Outcome("reference", str(error)[:300]) from error
    line["flat"] = [name for name, value in expected.items() if value.size > 1 and np.ptp(value) == 0]

    plan = folder / "model.floe"
    shapes = [f"--shape={name}={'x'.join(map(str, array.shape))}" for name, array in feeds.items()]
    line["compile"] = command([arguments.floec, "compile", str(file), "--target", arguments.target, *shapes, "-o", str(plan)], 600)
    if arguments.target != "host":
        raise Outcome("compiled")
    given = []
    for name, array in feeds.items():
        np.save(folder / ("in_" + file_name(name)), array)
        given += ["--input", f"{name}={folder / ('in_' + file_name(name))}"]
    line["run"] = command([arguments.floe, "run", str(plan), "--device", "host", *given, "--output-dir", str(folder / "out")], 600)
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
        what = f"{where} differs by {line['difference']:.2g} of its range, ONNX Runtime without optimisations by {own:.2g}"
        raise Outcome("WRONG" if own < line["difference"] / 10 else "reference", what)
    raise Outcome("ok")


def child(arguments, source, network, exporter, line):
    """One try in a process of its own, so that nothing of an exporter remains."""
    folder = Path(arguments.work) / f"{source}-{network}-{exporter}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    log = os.open(folder / "log.txt", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    torch.set_num_threads(1)
    try:
        attempt(arguments, source, network, exporter, line, folder)
    except Outcome as outcome:
        line["status"], line["detail"] = outcome.status, outcome.detail
    if not arguments.keep and line["status"] in ("ok", "compiled"):
        shutil.rmtree(folder, ignore_errors=True)
    with open(arguments.results, "a") as results:
        results.write(json.dumps(line) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sources", nargs="+", metavar="SOURCE", help="timm, torchvision or another module from_SOURCE.py")
    parser.add_argument("--results", default="results.jsonl", help="file of JSON lines")
    parser.add_argument("--only", nargs="*", help="names of networks")
    parser.add_argument("--exporters", nargs="*", default=EXPORTERS, choices=[*EXPORTERS, *REWRITERS])
    parser.add_argument("--target", default="host", help="for another target than host networks are compiled only")
    parser.add_argument("--again", action="store_true", help="try once more what is not ok in the results")
    parser.add_argument("--keep", action="store_true", help="keep files of what is ok")
    parser.add_argument("--floec", default="target/release/floec")
    parser.add_argument("--floe", default="target/release/floe")
    parser.add_argument("--work", default="/tmp/architectures", help="folder of exported networks")
    parser.add_argument("--table", action="store_true", help="print the results as Markdown")
    arguments = parser.parse_args()
    results = Path(arguments.results)
    done = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    if arguments.table:
        print(table(done, arguments.sources))
        return
    key = lambda line: (line["source"], line["network"], line["exporter"], line["target"])
    last = {key(line): line["status"] for line in done}
    finished = {k for k, status in last.items() if not arguments.again or status in ("ok", "compiled")}
    for source in arguments.sources:
        for network in importlib.import_module(f"from_{source}").NETWORKS:
            for exporter in arguments.exporters:
                line = {"source": source, "network": network, "exporter": exporter, "target": arguments.target}
                chosen = arguments.only is None or network in arguments.only
                if not chosen or key(line) in finished:
                    continue
                start = time.time()
                before = results.stat().st_size if results.exists() else 0
                process = multiprocessing.get_context("fork").Process(target=child, args=(arguments, source, network, exporter, line))
                process.start()
                process.join(1800)
                if process.is_alive():
                    process.kill()
                    process.join()
                if not results.exists() or results.stat().st_size == before:
                    line |= {"status": "export", "detail": f"the exporter's process ended with {process.exitcode}"}
                    with open(results, "a") as file:
                        file.write(json.dumps(line) + "\n")
                line = json.loads(results.read_text().splitlines()[-1])
                print(f"{line['status']:9} {source} {network} {exporter} {line.get('nodes', '')} "
                      f"{line.get('difference', 0):.1e} {time.time() - start:.0f}s {line['detail'][:200]}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
