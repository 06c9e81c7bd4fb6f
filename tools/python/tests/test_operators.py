"""Operators that Floe does not have: descriptions for the compiler, and a library of C for the host."""

import shutil
import subprocess

import numpy as np
import pytest
from conftest import QUICKSTART

import floe

REPOSITORY = QUICKSTART.parents[1]
EXAMPLE = REPOSITORY / "examples/custom_operator"
MODEL, OPERATORS = EXAMPLE / "model.onnx", EXAMPLE / "operators"


@pytest.fixture
def library(tmp_path):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no cc to make a library with")
    words = ["-O2", "-shared", "-fPIC", "-I", REPOSITORY / "engine/include", EXAMPLE / "host.c", "-o", tmp_path / "host.so"]
    subprocess.run([compiler, *words], check=True)
    return tmp_path / "host.so"


@pytest.fixture
def reference():
    with np.load(EXAMPLE / "reference.npz") as arrays:
        return dict(arrays)


def test_a_session_calls_the_hosts_function(library, reference):
    plan = floe.compile(MODEL, operators=OPERATORS)
    pictures = {name: reference[name] for name in ("left", "right")}
    cost = plan.session("host", host_library=library)(pictures)["cost"]
    np.testing.assert_allclose(cost, reference["cost"], rtol=1e-4, atol=1e-5)
    with pytest.raises(floe.DeviceError, match="example.vision.Correlation"):
        plan.session("host")
    with pytest.raises(floe.UsageError, match="host_library.*is no library"):
        plan.session("host", host_library=MODEL)
    with pytest.raises(floe.CompileError, match="Correlation"):
        floe.compile(MODEL)
    with pytest.raises(floe.UsageError, match="operators"):
        floe.compile(MODEL, operators="nowhere")


def test_whole_commands_take_operators(library, reference):
    given = {"operators": OPERATORS, "host_library": library}
    samples = {name: reference[name] for name in ("left", "right")}
    report = floe.compare(MODEL, "jetson-orin-nano", samples=samples, device="simulated", **given)
    assert report["failure"] is None and any(layer["value"] == "cost" for layer in report["layers"])
    made = floe.quantize(MODEL, samples, **given)
    assert floe.inspect(made, operators=OPERATORS)["operators"]["example.vision::Correlation"] == 1
    proof = floe.prove(MODEL, "jetson-orin-nano", inputs=samples, **given)
    assert proof["findings"] == [] and proof["errors"][0]["relative_l2"] < 5e-3
