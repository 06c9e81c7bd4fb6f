#!/usr/bin/env python3
"""Times host plans beside ONNX Runtime on one thread of the CPU, in turns, and prints the ratios.

    tools/benchmark/host.py MODEL.onnx… [--floec PATH] [--floe PATH] [--rounds N] [--json FILE]

Each round replays Floe's plan and then runs ONNX Runtime's session, so that whatever else the machine does hits both. The least
time of all rounds counts. Inputs are zeros where a model's shapes are known; models with open shapes are skipped by name.
"""

import argparse
import json
import math
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime

TYPES = {"tensor(float)": np.float32, "tensor(uint8)": np.uint8, "tensor(int64)": np.int64, "tensor(int32)": np.int32}


def peer(model):
    """A function that runs the model in ONNX Runtime and returns the seconds it took; None where shapes are open."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    inputs = session.get_inputs()
    constants = {value.name for value in session.get_overridable_initializers()}
    inputs = [value for value in inputs if value.name not in constants]
    if any(not isinstance(extent, int) for value in inputs for extent in value.shape):
        return None
    feeds = {value.name: np.zeros(value.shape, TYPES[value.type]) for value in inputs}

    def run():
        start = time.perf_counter()
        session.run(None, feeds)
        return time.perf_counter() - start

    return run


def replay(floe, plan, iterations, record):
    """The least seconds of a few replays."""
    command = [floe, "bench", plan, "--device", "host", "--iterations", str(iterations), "--warmup", "1", "--json", record]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return json.loads(pathlib.Path(record).read_text())["round_trip"]["min"] / 1e6


def compare(arguments, model, folder):
    run = peer(model)
    if run is None:
        print(f"{model.stem}: skipped, the model leaves shapes open", file=sys.stderr)
        return None
    plan = os.path.join(folder, "plan.floe")
    subprocess.run([arguments.floec, "compile", model, "--target", "host", "-o", plan], check=True, capture_output=True)
    run()
    floe, other = math.inf, math.inf
    for _ in range(arguments.rounds):
        floe = min(floe, replay(arguments.floe, plan, 3, os.path.join(folder, "times.json")))
        other = min(other, *(run() for _ in range(3)))
    return {"model": name(model), "floe_ms": round(floe * 1e3, 3), "onnxruntime_ms": round(other * 1e3, 3), "ratio": round(floe / other, 3)}


def name(model):
    """The file's name, or its folder's where every folder has a file of that name."""
    return model.parent.name if model.stem in ("model", "light_model") else model.stem


def processor():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--floec", default="target/release/floec")
    parser.add_argument("--floe", default="target/release/floe")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path, help="also write a record of machine, commit and times")
    arguments = parser.parse_args()
    rows = []
    print(f"{'model':<28} {'Floe ms':>10} {'ORT ms':>10} {'ratio':>7}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for model in arguments.models:
            try:
                row = compare(arguments, model, folder)
            except subprocess.CalledProcessError as error:
                sys.exit(f"{model}: {(error.stderr or b'').decode().strip() or error}")
            if row:
                rows.append(row)
                print(f"{row['model']:<28} {row['floe_ms']:>10.2f} {row['onnxruntime_ms']:>10.2f} {row['ratio']:>7.2f}", flush=True)
    if not rows:
        sys.exit("no model could be timed")
    mean = math.exp(sum(math.log(row["ratio"]) for row in rows) / len(rows))
    print(f"{'geometric mean':<28} {'':>10} {'':>10} {mean:>7.2f}")
    if arguments.json:
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
        record = {"processor": processor(), "onnxruntime": onnxruntime.__version__, "commit": commit, "date": time.strftime("%Y-%m-%d"),
                  "geometric_mean": round(mean, 3), "models": rows}
        arguments.json.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
