"""Tensors in a GPU's memory, by DLPack. The driver is one of C whose device memory is the CPU's and whose kernels copy their first
argument to their second; test_gpu.py has the same on a GPU, where there is one."""

import ctypes
import gc
import os
import shutil
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import QUICKSTART, model
from onnx import TensorProto, helper

import floe

CUDA = 2
pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


class Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


class OnGpu:
    """A NumPy array that says it is in a GPU's memory."""

    def __init__(self, array, device=0):
        self.array, self.device, self.streams = array, device, []

    def __dlpack_device__(self):
        return CUDA, self.device

    def __dlpack__(self, *, stream):
        self.streams.append(stream)
        capsule = self.array.__dlpack__()
        told = Tensor.from_address(pointer(capsule, b"dltensor"))
        told.device_type, told.device_id = CUDA, self.device
        return capsule


def numbers(capsule):
    """The floats of an exported tensor, which is contiguous, in the memory that they are in."""
    told = Tensor.from_address(pointer(capsule, b"dltensor"))
    assert (told.device_type, told.device_id, told.code, told.bits, told.lanes, told.byte_offset) == (CUDA, 0, 2, 32, 1, 0)
    shape, strides = told.shape[: told.rank], told.strides[: told.rank]
    assert strides == [int(np.prod(shape[i + 1 :])) for i in range(told.rank)]
    data = (ctypes.c_float * int(np.prod(shape))).from_address(told.data)
    return np.frombuffer(data, np.float32).reshape(shape)


@pytest.fixture(scope="module")
def plan():
    nodes = [helper.make_node("Neg", ["x"], ["y"])]
    ends = [[(name, TensorProto.FLOAT, [2, 6])] for name in "xy"]
    return floe.compile(model(nodes, *ends), ["jetson-orin-nano", "host"], precision="f32")


@pytest.fixture
def session(plan, tmp_path, monkeypatch, request):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no cc to make a driver with")
    source = QUICKSTART.parents[1] / "tools/floe/tests/simulated_driver.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", tmp_path / "libcuda.so.1", source], check=True)
    monkeypatch.setenv("FLOE_LIBCUDA", str(tmp_path / "libcuda.so.1"))
    monkeypatch.setenv("SIMULATED_COPY", "48")
    return plan.session("cuda", memory=getattr(request, "param", "device"))


@pytest.fixture
def x():
    return np.arange(12, dtype=np.float32).reshape(2, 6)


@pytest.mark.parametrize("session", ["device", "mapped"], indirect=True)
def test_inputs_and_outputs_stay_on_the_gpu(session, x):
    tensor, target = OnGpu(x), OnGpu(np.zeros_like(x))
    np.testing.assert_array_equal(session(x=tensor)["y"], x)
    # The tensor's library made the session's stream wait, and so it was told which.
    [stream] = tensor.streams
    assert isinstance(stream, int) and stream > 0
    outputs = session(OnGpu(2 * x), out={"y": target})
    assert outputs["y"] is target and len(target.streams) == 1
    np.testing.assert_array_equal(target.array, 2 * x)
    array = session(3 * x, on_device=True)["y"]
    assert isinstance(array, floe.DeviceArray) and array.__dlpack_device__() == (CUDA, 0)
    assert (array.shape, array.dtype, array.nbytes) == ((2, 6), "f32", 48) and "y: f32 [2, 6]" in repr(array)
    np.testing.assert_array_equal(numbers(array.__dlpack__(stream=7, max_version=(1, 1))), 3 * x)
    # What is on the GPU goes on from there, and what is not as ever.
    np.testing.assert_array_equal(session(array)["y"], 3 * x)
    np.testing.assert_array_equal(session(x)["y"], x)


def test_an_array_outlives_its_session_and_is_freed_in_the_end(plan, session, x):
    threads = len(os.listdir("/proc/self/task"))
    array = session(x, on_device=True)["y"]
    second = session(2 * x, on_device=True)["y"]
    capsule = array.__dlpack__()
    del array
    session.close()
    gc.collect()
    np.testing.assert_array_equal(numbers(capsule), x)
    np.testing.assert_array_equal(numbers(second.__dlpack__()), 2 * x)
    with pytest.raises(floe.UsageError, match="closed"):
        session(x, on_device=True)
    del capsule, second
    gc.collect()
    deadline = time.monotonic() + 10
    # The session's thread, with the driver's context, ends with its last array.
    while len(os.listdir("/proc/self/task")) >= threads and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(os.listdir("/proc/self/task")) < threads


def test_a_capsule_that_is_taken_frees_its_memory_once(session, x):
    array = session(x, on_device=True)["y"]
    capsule = array.__dlpack__()
    address = pointer(capsule, b"dltensor")
    rename = ctypes.pythonapi.PyCapsule_SetName
    rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
    assert rename(capsule, b"used_dltensor") == 0
    del capsule, array
    # Behind the tensor and its context: the deleter, which a library without the interpreter may call.
    delete = ctypes.CFUNCTYPE(None, ctypes.c_void_p).from_address(address + ctypes.sizeof(Tensor) + 8)
    delete(address)
    np.testing.assert_array_equal(session(x)["y"], x)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda x: OnGpu(x, device=1), "first GPU"),
        (lambda x: OnGpu(x.astype(np.float64)), "element type .64 bits"),
        (lambda x: OnGpu(x.astype(np.int32)), "element type"),
        (lambda x: OnGpu(x.reshape(3, 4)), r"shape \[2, 6\], and the tensor has \[3, 4\]"),
        (lambda x: OnGpu(np.repeat(x, 2, axis=1)[:, ::2]), r"tensor.contiguous\(\)"),
        (lambda x: OnGpu(np.asfortranarray(x)), r"tensor.contiguous\(\)"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(session, x, wrong, message):
    for arguments in ({"x": wrong(x)}, {"x": x, "out": {"y": wrong(x)}}):
        with pytest.raises(floe.UsageError, match=message):
            session(**arguments)
    np.testing.assert_array_equal(session(x)["y"], x)


def test_sessions_without_a_gpu_say_what_to_do(plan, x):
    session = plan.session("host")
    with pytest.raises(floe.UsageError, match=r"tensor.cpu\(\)"):
        session(OnGpu(x))
    with pytest.raises(floe.UsageError, match="on_device"):
        session(x, on_device=True)
    with pytest.raises(floe.UsageError, match="NumPy array"):
        session(x, out={"y": OnGpu(x)})


def test_export_says_what_it_cannot_do(session, x):
    array = session(x, on_device=True)["y"]
    for arguments in ({"copy": True}, {"dl_device": (1, 0)}):
        with pytest.raises(BufferError, match="copy"):
            array.__dlpack__(**arguments)
    assert array.__dlpack__(copy=False, dl_device=(CUDA, 0))
