"""What runs a model on tests: ONNX Runtime, or Floe."""

import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime


def session(model, optimised=False):
    """One thread. Without optimisations a quantised model computes what its file says: 8-bit values, products in f32. With them,
    ONNX Runtime's kernels for x86 without VNNI saturate sums of pairs."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimised else levels.ORT_DISABLE_ALL
    source = model.SerializeToString() if isinstance(model, onnx.ModelProto) else str(model)
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


class OnnxRuntime:
    def __init__(self, model, optimised=False):
        self.session = session(model, optimised)
        self.input = self.session.get_inputs()[0].name

    def run(self, x):
        return self.session.run(None, {self.input: x})


def call(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, words))}: {(done.stderr or done.stdout).strip()[-600:]}")
    return done.stdout


class Floe:
    """A plan, replayed on the host or on the GPU in software."""

    def __init__(self, binaries, model, folder, target="host", words=(), device="host"):
        loaded = onnx.load(model, load_external_data=False)
        self.input, self.outputs = loaded.graph.input[0].name, [value.name for value in loaded.graph.output]
        self.floe, self.device = binaries / "floe", device
        self.plan = Path(folder) / f"{Path(model).stem}-{target}.floe"
        call(binaries / "floec", "compile", model, "--target", target, *words, "-o", self.plan)

    def run(self, x):
        with tempfile.TemporaryDirectory() as folder:
            np.save(f"{folder}/x.npy", x)
            call(self.floe, "run", self.plan, "--device", self.device, "--input", f"{self.input}={folder}/x.npy", "--output-dir", folder)
            files = {path.stem: path for path in Path(folder).glob("*.npy")}
            return [np.load(found(files, name)) for name in self.outputs]


def found(files, name):
    """The file of an output: its name with what a file's name may not hold replaced."""
    plain = "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in name)
    return files.get(name) or files[plain]

