"""GPU targets, on a GPU in software. NVRTC must be the one of this environment."""

import sys
from pathlib import Path

import numpy as np
import pytest

import floe

TARGET = "jetson-orin-nano"


@pytest.fixture
def plan(digits):
    return floe.compile(digits, [TARGET, "host"], shapes={"image": (1, 1, 8, 8)}, ptx=True)


def test_nvrtc_of_this_environment_is_found_without_variables(plan, monkeypatch):
    assert plan.variants == [TARGET, "host"]
    assert plan.report[0]["images"] > 0
    packages = Path(sys.prefix, "lib")
    assert list(packages.glob("python3*/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12"))


def test_a_gpu_in_software_agrees_with_the_host(plan, image):
    host = plan.session("host")(image)["probabilities"]
    session = plan.session("emulated", guard=True)
    assert session.variant == TARGET
    np.testing.assert_allclose(session(image)["probabilities"], host, atol=5e-3)
    # The session lives on a thread of its own: a second call works as the first.
    np.testing.assert_array_equal(session(image)["probabilities"], session(image)["probabilities"])
    counts = session.profile()
    assert counts["total"]["instructions"] > 0 and counts["steps"]


def test_states_live_on_the_device(counter):
    plan = floe.compile(counter, TARGET, states={"next": "now"}, ptx=True)
    session = plan.session("emulated")
    step = np.array([1, 2, 3, 4], np.float32)
    session(step)
    np.testing.assert_allclose(session(step)["y"], 4 * step)
    session.reset()
    np.testing.assert_allclose(session(step)["y"], 2 * step)
    assert session.not_finite() is None


def test_machine_code_is_not_emulated(digits):
    plan = floe.compile(digits, TARGET, shapes={"image": (1, 1, 8, 8)})
    with pytest.raises(floe.DeviceError, match="machine code"):
        plan.session("emulated")


def test_prove_and_compare(digits, image, plan, tmp_path):
    shapes = {"image": (1, 1, 8, 8)}
    for model, more in ((digits, {"shapes": shapes}), (plan, {})):
        report = floe.prove(model, TARGET, inputs={"image": image}, **more)
        assert report["findings"] == [] and report["counts"]["launches"] > 0
    report = floe.compare(digits, TARGET, samples={"image": image}, shapes=shapes, html=tmp_path / "error.html")
    assert report["samples"] == 1 and report["failure"] is None and (tmp_path / "error.html").is_file()
    strict = floe.compare(digits, TARGET, samples=[{"image": image}], shapes=shapes, device="simulated", budget="relative 1e-9")
    assert "budget" in strict["failure"]


def test_a_budget_keeps_layers_in_f32(digits, image):
    arguments = {"shapes": {"image": (1, 1, 8, 8)}, "precision": "auto", "samples": {"image": image}}
    plan = floe.compile(digits, TARGET, budget="relative 0.00001", **arguments)
    assert plan.budget["keep_f32"] and plan.budget["after"] <= 1e-5 and plan.variants == [TARGET]
    with pytest.raises(floe.UsageError, match="needs a budget"):
        floe.compile(digits, TARGET, **arguments)
    with pytest.raises(floe.UsageError, match="precision='auto'"):
        floe.compile(digits, TARGET, shapes=arguments["shapes"], budget="cosine 0.9")
