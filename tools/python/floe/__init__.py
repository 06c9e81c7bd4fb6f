"""Floe compiles neural networks into plans, and replays them on Jetsons, on other GPUs and on the host.

    import floe

    plan = floe.compile("digits.onnx", "host", shapes={"image": (1, 1, 8, 8)})
    session = plan.session()
    probabilities = session(image=array)["probabilities"]

On a workstation: `compile`, `inspect`, `unsupported`, `compare`, `quantize`, `prove` and `versus`, which are methods of a `Model` too,
and `targets`. On the device: `load`, `Plan.session` and `Session`. Everything that Floe raises is an `Error`; a file that is not there is an OSError.

Compiling for a GPU needs NVRTC, and no GPU: `pip install 'floe-engine[nvrtc]'`.
"""

from importlib.metadata import version as _version

from ._arrays import Binding
from ._compared import versus
from ._compile import compile
from ._native import CompileError, DeviceArray, DeviceError, Error, NotFiniteError, PlanError, UsageError
from ._plan import Plan, load
from ._reports import Model, Quantized, compare, inspect, prove, quantize, targets, unsupported
from ._session import Session

__version__ = _version("floe-engine")
__all__ = [
    "Binding",
    "CompileError",
    "DeviceArray",
    "DeviceError",
    "Error",
    "Model",
    "NotFiniteError",
    "Plan",
    "PlanError",
    "Quantized",
    "Session",
    "UsageError",
    "compare",
    "compile",
    "inspect",
    "load",
    "prove",
    "quantize",
    "targets",
    "unsupported",
    "versus",
]
