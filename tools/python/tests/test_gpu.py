"""GPU targets, on a GPU in software; at the end on a GPU, where there is one with PyTorch. NVRTC must be the one of this environment."""

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
    # A faint digit: a clear one's probabilities are 0 and 1 in f16, too.
    arguments = {"shapes": {"image": (1, 1, 8, 8)}, "precision": "auto", "samples": {"image": image / 4}}
    plan = floe.compile(digits, TARGET, budget="relative 0.00001", **arguments)
    assert plan.budget["keep_f32"] and plan.budget["after"] <= 1e-5 and plan.variants == [TARGET]
    with pytest.raises(floe.UsageError, match="needs a budget"):
        floe.compile(digits, TARGET, **arguments)
    with pytest.raises(floe.UsageError, match="precision='auto'"):
        floe.compile(digits, TARGET, shapes=arguments["shapes"], budget="cosine 0.9")


@pytest.fixture(scope="module")
def torch():
    found = pytest.importorskip("torch")
    if not found.cuda.is_available():
        pytest.skip("PyTorch finds no GPU")
    return found


@pytest.fixture(params=["device", "mapped"])
def on_gpu(weighted, request, torch):
    """A session on the GPU for x [2, 5], and what it computes. PTX of an A100 runs on that and everything later."""
    plan = floe.compile(weighted[0], "a100", precision="f32", ptx=True)
    return plan.session("cuda", memory=request.param), weighted[1]


@pytest.fixture
def x():
    return np.random.default_rng(3).standard_normal((2, 5), np.float32)


def test_tensors_of_pytorch_go_in_and_come_out(on_gpu, torch, x):
    session, expected = on_gpu
    tensor = torch.from_numpy(x).cuda()
    np.testing.assert_allclose(session(x)["y"], expected(x), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(session(x=tensor)["y"], expected(x), rtol=1e-4, atol=1e-5)
    y = torch.from_dlpack(session(x=tensor, on_device=True)["y"])
    assert y.is_cuda and y.shape == (2, 3) and y.dtype == torch.float32
    np.testing.assert_allclose(y.cpu().numpy(), expected(x), rtol=1e-4, atol=1e-5)
    into = torch.full((2, 3), torch.nan, device="cuda")
    assert session(tensor * 2, out={"y": into})["y"] is into
    np.testing.assert_allclose(into.cpu().numpy(), expected(2 * x), rtol=1e-4, atol=1e-5)
    with pytest.raises(floe.UsageError, match="contiguous"):
        session(x=tensor.t().contiguous().t())
    with pytest.raises(floe.UsageError, match="element type"):
        session(x=tensor.half())


def test_the_session_waits_for_the_tensors_stream(on_gpu, torch, x):
    session, expected = on_gpu
    large, side = torch.randn(4096, 4096, device="cuda"), torch.cuda.Stream()
    source = torch.from_numpy(x).cuda()
    torch.cuda.synchronize()
    for factor in range(1, 6):
        with torch.cuda.stream(side):
            tensor = torch.zeros_like(source)
            for _ in range(20):  # Milliseconds of work in front of what the tensor is to hold.
                large = torch.nn.functional.normalize(large @ large)
            tensor.copy_(factor * source)
            found = session(x=tensor)["y"]
        np.testing.assert_allclose(found, expected(factor * x), rtol=1e-4, atol=1e-5)


def test_results_live_as_long_as_they_are_used(on_gpu, torch, x):
    session, expected = on_gpu
    results = [torch.from_dlpack(session(x=number * x, on_device=True)["y"]) for number in range(50)]
    session.close()
    for number, result in enumerate(results):
        np.testing.assert_allclose(result.cpu().numpy(), expected(number * x), rtol=1e-4, atol=1e-4)
    del session
    doubled = [2 * result for result in results]
    del results
    np.testing.assert_allclose(doubled[-1].cpu().numpy(), 2 * expected(49 * x), rtol=1e-4, atol=1e-3)
