"""The programs that `versus` times beside Floe. All have one clock: from inputs in the host's memory to outputs in the host's memory.

An opponent is made from a `Case`, or raises `Absent` with how to install it. It has `name`, `device`, `precision` and `threads` (None on
a GPU), `outputs()` by name of the model, and `round(iterations)`, which gives that many times in microseconds.
"""

import importlib
import json
import os
import pathlib
import shutil
import subprocess
import time
from dataclasses import dataclass, field

WARM_UP = 3
# Those that were never run where this was written: they were not at hand.
NEVER_RUN = ("ONNX Runtime CUDA", "ONNX Runtime TensorRT", "TensorRT")


class Absent(Exception):
    """The program is not on this machine; `args`: what is missing, and how to install it."""


@dataclass
class Case:
    """What is timed: a model, its inputs by name, and the names of its outputs."""

    model: pathlib.Path
    inputs: dict
    outputs: list
    folder: pathlib.Path
    # Inputs that are constants for Floe, which others need.
    constants: dict = field(default_factory=dict)

    @property
    def feeds(self):
        return self.inputs | self.constants


def call(*words):
    """What a program prints. Its last words are the error's where it fails."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError((done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}")[-400:])
    return done.stdout


def module(name, package):
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Absent(str(error), f"pip install {package}") from error


def timed(run, iterations):
    for _ in range(WARM_UP):
        run()
    times = []
    for _ in range(iterations):
        began = time.perf_counter()
        run()
        times.append((time.perf_counter() - began) * 1e6)
    return times


class Floe:
    def __init__(self, case, floe, plan, target, precision):
        import numpy

        self.case, self.floe, self.plan, self.target = case, floe, plan, target
        self.device = "cpu" if target == "host" else "cuda"
        self.name, self.precision, self.threads = f"Floe {target}", precision, 1 if target == "host" else None
        self.words = ["--device", "host" if target == "host" else "cuda", "--variant", target]
        for number, (name, values) in enumerate(case.inputs.items()):
            path = case.folder / f"input-{number}.npy"
            numpy.save(path, values)
            self.words += ["--input", f"{name}={path}"]

    def outputs(self):
        import numpy

        folder = self.case.folder / f"outputs-{self.target}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        call(*self.floe, "run", self.plan, *self.words, "--output-dir", folder)
        # Characters of names that files cannot have are others there.
        found = {path.stem: numpy.load(path) for path in folder.glob("*.npy")}
        plain = {"".join(mark if mark.isalnum() else "_" for mark in name): values for name, values in found.items()}
        return {
            name: found.get(name, plain.get("".join(mark if mark.isalnum() else "_" for mark in name)))
            for name in self.case.outputs
        }

    def round(self, iterations):
        """Floe's own count of a round: its median stands for each of the times."""
        path = self.case.folder / "bench.json"
        call(*self.floe, "bench", self.plan, *self.words, "--iterations", iterations, "--warmup", WARM_UP, "--json", path)
        return [json.loads(path.read_text())["round_trip"]["median"]] * iterations


class OnnxRuntime:
    PROVIDERS = {
        "CPU": ("CPUExecutionProvider", "onnxruntime", {}),
        "CUDA": ("CUDAExecutionProvider", "onnxruntime-gpu", {"enable_cuda_graph": "1"}),
        "TensorRT": (
            "TensorrtExecutionProvider",
            "onnxruntime-gpu tensorrt",
            {"trt_cuda_graph_enable": "1", "trt_fp16_enable": "1"},
        ),
    }

    def __init__(self, case, provider="CPU", threads=1, is_optimised=True):
        runtime = module("onnxruntime", self.PROVIDERS[provider][1])
        wanted, package, words = self.PROVIDERS[provider]
        if wanted not in runtime.get_available_providers():
            raise Absent(f"this ONNX Runtime has no {wanted}", f"pip install {package}, with a GPU of NVIDIA")
        options = runtime.SessionOptions()
        options.log_severity_level = 3
        if provider == "CPU":
            options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        if not is_optimised:
            options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        self.session = runtime.InferenceSession(str(case.model), options, providers=[(wanted, words)])
        if wanted not in self.session.get_providers():
            raise Absent(f"{wanted} does not start", f"install what it loads: {package}, and its libraries")
        self.case, self.threads = case, threads if provider == "CPU" else None
        self.name, self.version = f"ONNX Runtime {provider}", runtime.__version__
        self.device, self.precision = ("cpu" if provider == "CPU" else "cuda"), ("f16" if provider == "TensorRT" else "f32")
        self.bound = None
        if provider != "CPU":
            # A CUDA graph needs inputs and outputs that stay where they are.
            self.bound = self.session.io_binding()
            self.values = {name: runtime.OrtValue.ortvalue_from_numpy(value, "cuda", 0) for name, value in case.feeds.items()}
            for name, value in self.values.items():
                self.bound.bind_ortvalue_input(name, value)
            for name in case.outputs:
                self.bound.bind_output(name, "cuda")

    def run(self):
        if not self.bound:
            return self.session.run(self.case.outputs, self.case.feeds)
        for name, value in self.case.feeds.items():
            self.values[name].update_inplace(value)
        self.session.run_with_iobinding(self.bound)
        return self.bound.copy_outputs_to_cpu()

    def outputs(self):
        return dict(zip(self.case.outputs, self.run()))

    def round(self, iterations):
        return timed(self.run, iterations)


class TensorRT:
    """TensorRT by its own program, which needs no binding to Python: f16, in a CUDA graph."""

    PLACES = ("/usr/src/tensorrt/bin/trtexec", "/opt/tensorrt/bin/trtexec")

    def __init__(self, case):
        self.program = shutil.which("trtexec") or next((place for place in self.PLACES if os.path.exists(place)), None)
        if not self.program:
            raise Absent("there is no trtexec", "apt-get install libnvinfer-bin, which JetPack has")
        self.case, self.engine = case, case.folder / "engine.trt"
        self.name, self.device, self.precision, self.threads = "TensorRT", "cuda", "f16", None
        shapes = [f"{name}:{'x'.join(map(str, value.shape))}" for name, value in case.feeds.items() if value.shape]
        files = []
        for number, (name, value) in enumerate(case.feeds.items()):
            path = case.folder / f"input-{number}.bin"
            path.write_bytes(value.tobytes())
            files.append(f"{name}:{path}")
        build = [f"--onnx={case.model}", "--fp16", f"--saveEngine={self.engine}", "--skipInference"]
        try:
            call(self.program, *build)
        except RuntimeError:  # Only a model with open shapes may be given them.
            call(self.program, *build, f"--shapes={','.join(shapes)}")
        self.words = [f"--loadEngine={self.engine}", f"--loadInputs={','.join(files)}", "--useCudaGraph"]

    def outputs(self):
        import numpy

        path = self.case.folder / "trtexec-outputs.json"
        call(self.program, *self.words, "--iterations=1", "--duration=0", f"--exportOutput={path}")
        return {output["name"]: numpy.array(output["values"]) for output in json.loads(path.read_text())}

    def round(self, iterations):
        path = self.case.folder / "trtexec-times.json"
        words = [f"--iterations={iterations}", "--duration=0", "--warmUp=200", f"--exportTimes={path}"]
        call(self.program, *self.words, *words)
        return [line["latencyMs"] * 1e3 for line in json.loads(path.read_text())][-iterations:]


class PyTorch:
    """A module of PyTorch: f32 on the CPU; f16 in a CUDA graph on a GPU."""

    def __init__(self, case, source=None, device="cpu", threads=1):
        self.torch = torch = module("torch", "torch")
        if device == "cuda" and not torch.cuda.is_available():
            raise Absent("PyTorch finds no GPU", "a build of PyTorch with CUDA, and a GPU of NVIDIA")
        network = self.converted(case.model) if source is None else self.named(source) if isinstance(source, str) else source
        network = network.eval().to(device)
        torch.set_grad_enabled(False)
        self.case, self.device = case, device
        self.name, self.version = ("PyTorch by onnx2torch" if source is None else "PyTorch"), torch.__version__
        self.precision, self.threads = ("f16", None) if device == "cuda" else ("f32", threads)
        self.inputs = [torch.from_numpy(value) for value in case.feeds.values()]
        self.network = network
        if device == "cuda":
            self.capture()

    @staticmethod
    def named(source):
        """The module, or what makes it, that `package.module:attribute` names."""
        place, _, attribute = source.partition(":")
        found = getattr(importlib.import_module(place), attribute)
        return found if hasattr(found, "forward") and not isinstance(found, type) else found()

    @staticmethod
    def converted(model):
        return module("onnx2torch", "onnx2torch, or give --torch MODULE:ATTRIBUTE").convert(str(model))

    def capture(self):
        from .graphed import graphed

        torch = self.torch
        half = lambda value: value.half() if value.is_floating_point() else value
        self.network, self.inputs = self.network.half(), [half(value).pin_memory() for value in self.inputs]
        self.placed = [value.cuda() for value in self.inputs]
        result = {}
        replay = graphed(lambda: result.update(found=self.network(*self.placed)))

        def network(*inputs):
            for place, value in zip(self.placed, inputs):
                place.copy_(value, non_blocking=True)
            replay()
            return result["found"]

        self.network = network
        torch.cuda.synchronize()

    def run(self):
        found = self.network(*self.inputs)
        found = found.values() if isinstance(found, dict) else found if isinstance(found, (tuple, list)) else [found]
        return [value.cpu().numpy() for value in found]

    def outputs(self):
        return dict(zip(self.case.outputs, self.run()))

    def round(self, iterations):
        if self.threads:
            self.torch.set_num_threads(self.threads)
        return timed(self.run, iterations)
