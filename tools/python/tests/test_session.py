"""Sessions: arrays in and out, states, guards, threads."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import model
from onnx import TensorProto, helper

import floe


@pytest.fixture
def session(weighted):
    return floe.compile(weighted[0]).session("host")


@pytest.fixture
def x():
    return np.random.default_rng(2).standard_normal((2, 5), np.float32)


def test_inputs_by_name_by_place_and_in_a_dict(session, weighted, x):
    expected = weighted[1](x)
    for outputs in (session(x=x), session(x), session({"x": x})):
        assert list(outputs) == ["y"]
        np.testing.assert_allclose(outputs["y"], expected, rtol=1e-5, atol=1e-6)


def test_results_are_the_callers_own(session, x):
    first = session(x)["y"]
    kept = first.copy()
    second = session(2 * x)["y"]
    np.testing.assert_array_equal(first, kept)
    assert not np.shares_memory(first, second) and first.flags.owndata and first.flags.writeable


def test_results_go_into_arrays_that_are_there(session, x):
    out = np.full((2, 3), np.nan, np.float32)
    outputs = session(x, out={"y": out})
    assert outputs["y"] is out
    np.testing.assert_array_equal(out, session(x)["y"])


@pytest.mark.parametrize(
    "out",
    [
        np.empty((2, 3), np.float64),
        np.empty((3, 2), np.float32),
        np.empty((3, 2), np.float32).T,
        np.empty((2, 6), np.float32)[:, ::2],
        [[0.0] * 3] * 2,
    ],
)
def test_arrays_that_results_do_not_fit_into_are_refused(session, x, out):
    with pytest.raises(floe.UsageError, match="out"):
        session(x, out={"y": out})


def test_a_read_only_array_is_not_written(session, x):
    out = np.zeros((2, 3), np.float32)
    out.flags.writeable = False
    with pytest.raises(floe.UsageError, match="writable"):
        session(x, out={"y": out})
    assert not out.any()


def test_any_layout_and_read_only_inputs_are_read(session, weighted, x):
    expected = weighted[1](x)
    wide = np.repeat(x, 2, axis=1)[:, ::2]
    frozen = x.copy()
    frozen.flags.writeable = False
    for layout in (np.asfortranarray(x), wide, x[::-1][::-1], frozen, x.tolist()):
        np.testing.assert_allclose(session(layout)["y"], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": np.zeros((2, 5))}, r"float64: convert it with array.astype\('float32'\)"),
        ({"x": np.zeros((2, 5), np.float16)}, "float16"),
        ({"x": np.zeros((2, 5), ">f4")}, "convert"),
        ({"x": np.zeros((5, 2), np.float32)}, r"shape \(2, 5\), and the array has \(5, 2\)"),
        ({}, "missing"),
        ({"z": 1}, "no input 'z', only x: float32"),
    ],
)
def test_other_arrays_are_refused_with_what_to_do(session, arguments, message):
    with pytest.raises(floe.UsageError, match=message):
        session(**arguments)


def test_too_many_arrays_and_one_twice(session, x):
    with pytest.raises(floe.UsageError, match="2 arrays for 1 inputs"):
        session(x, x)
    with pytest.raises(floe.UsageError, match="twice"):
        session(x, x=x)
    with pytest.raises(floe.UsageError, match="no output 'z'"):
        session(x, out={"z": x})


class Tensor:
    """A tensor of another library, on a device of DLPack."""

    def __init__(self, array, device):
        self.array, self.device = array, device

    def __dlpack_device__(self):
        return self.device, 0

    def __dlpack__(self, **arguments):
        return self.array.__dlpack__(**arguments)


def test_dlpack_of_the_cpu_is_taken_and_of_a_gpu_refused(session, x):
    np.testing.assert_array_equal(session(Tensor(x, 1))["y"], session(x)["y"])
    with pytest.raises(floe.UsageError, match=r"tensor.cpu\(\)"):
        session(Tensor(x, 2))  # test_device_memory.py has sessions on a GPU


def test_integers_scalars_and_f16_keep_their_types(logarithm):
    session = floe.compile(logarithm).session("host")
    outputs = session(x=np.ones(3, np.float32), i=np.array([1 << 60, -5]))
    assert outputs["z"].dtype == np.int64 and outputs["z"].tolist() == [(1 << 60) + 1, -4]
    halves = model(
        [helper.make_node("Neg", ["h"], ["n"]), helper.make_node("Not", ["b"], ["c"])],
        [("h", TensorProto.FLOAT16, [3]), ("b", TensorProto.BOOL, [])],
        [("n", TensorProto.FLOAT16, [3]), ("c", TensorProto.BOOL, [])],
    )
    outputs = floe.compile(halves).session("host")(h=np.array([1, -2, 0.5], np.float16), b=np.array(True))
    assert outputs["n"].dtype == np.float16 and outputs["n"].tolist() == [-1, 2, -0.5]
    assert outputs["c"].shape == () and outputs["c"].dtype == np.bool_ and not outputs["c"]


def test_states_stay_are_set_and_reset(counter):
    session = floe.compile(counter, states={"next": "now"}).session("host")
    step = np.array([1, 2, 3, 4], np.float32)
    for times in (1, 2, 3):
        np.testing.assert_array_equal(session(step)["y"], 2 * times * step)
    np.testing.assert_array_equal(session.states["now"], 3 * step)
    session.states = {"now": np.full(4, 10, np.float32)}
    np.testing.assert_array_equal(session(step)["y"], 2 * (10 + step))
    session.reset()
    np.testing.assert_array_equal(session(step)["y"], 2 * step)
    with pytest.raises(floe.UsageError, match="no state 'step'"):
        session.states = {"step": step}


def test_a_guard_tells_nan_and_what_came_all_the_same(logarithm):
    plan = floe.compile(logarithm)
    arrays = {"x": np.array([1, -1, 2], np.float32), "i": np.zeros(2, np.int64)}
    session = plan.session("host", guard=True)
    with pytest.raises(floe.NotFiniteError, match="in y") as caught:
        session(**arrays)
    assert caught.value.names == ["y"] and np.isnan(caught.value.outputs["y"]).tolist() == [False, True, False]
    session(**{**arrays, "x": np.ones(3, np.float32)})
    unguarded = plan.session("host")
    unguarded(**arrays)
    assert unguarded.not_finite() == ["y"]


def large():
    """Milliseconds of work."""
    w = np.random.default_rng(0).standard_normal((512, 512), np.float32) / 32
    nodes = [helper.make_node("MatMul", [f"v{i}", "w"], [f"v{i + 1}"]) for i in range(12)]
    return model(nodes, [("v0", TensorProto.FLOAT, [512, 512])], [("v12", TensorProto.FLOAT, [512, 512])], w=w)


def test_one_thread_at_a_time_and_any_thread():
    session = floe.compile(large()).session("host")
    v = np.ones((512, 512), np.float32)
    expected = session(v)["v12"]
    refused, results, started = [], [], threading.Barrier(4)

    def work():
        started.wait()
        for _ in range(3):
            try:
                results.append(session(v)["v12"])
            except floe.UsageError as error:
                refused.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert refused and all("another thread" in message for message in refused)
    assert results and all(np.array_equal(result, expected) for result in results)


def test_replays_release_the_interpreter():
    session = floe.compile(large()).session("host")
    v, ticks, done = np.ones((512, 512), np.float32), 0, threading.Event()

    def replay():
        for _ in range(3):
            session(v)
        done.set()

    thread = threading.Thread(target=replay)
    start = time.perf_counter()
    thread.start()
    while not done.is_set():
        time.sleep(0.001)
        ticks += 1
    took = time.perf_counter() - start
    thread.join()
    # A replay that kept the interpreter would let one or two of them through.
    assert took < 0.01 or ticks > 5, (took, ticks)


def test_times_and_a_profile(session):
    times = session.bench(iterations=20)
    assert times["iterations"] == 20 and times["device_time"] is None
    assert 0 < times["round_trip"]["min"] <= times["round_trip"]["median"] <= times["round_trip"]["max"]
    assert session.profile()["replay_us"] > 0
    with pytest.raises(floe.UsageError):
        session.bench(iterations=0)


def test_devices_that_are_not_there_say_so(weighted):
    plan = floe.compile(weighted[0])
    with pytest.raises(floe.DeviceError, match="no GPU variant"):
        plan.session("cuda")
    with pytest.raises(floe.UsageError, match="'auto', 'host', 'cuda' or 'emulated'"):
        plan.session("tpu")
    with pytest.raises(floe.DeviceError, match="no variant 'h200'"):
        plan.session("host", variant="h200")
    assert plan.session().variant == "host"


def test_many_sessions_of_one_plan(weighted, x):
    plan = floe.compile(weighted[0])
    sessions = [plan.session("host") for _ in range(8)]
    del plan
    results = [session(x)["y"] for session in sessions]
    assert all(np.array_equal(result, results[0]) for result in results)


def test_a_closed_session_says_so(weighted, x):
    with floe.compile(weighted[0]).session("host") as session:
        session(x)
    with pytest.raises(floe.UsageError, match="closed"):
        session(x)
    session.close()


SHAPES = {"image": [(1, 1, 8, 8), (4, 1, 8, 8)]}


@pytest.mark.parametrize("form", [str, Path.read_bytes])
def test_a_session_chooses_among_shapes(digits, image, form):
    plan = floe.compile(form(digits), shapes=SHAPES)
    assert plan.shapes == [{"image": (1, 1, 8, 8)}, {"image": (4, 1, 8, 8)}] and plan.variants == ["host", "host"]
    session = plan.session("host")
    one = session(image)["probabilities"]
    assert session.choose(image=(4, 1, 8, 8)) == {"image": (4, 1, 8, 8)}
    assert session.inputs[0].shape == (4, 1, 8, 8) and session.outputs[0].shape == (4, 10)
    four = session(np.repeat(image, 4, axis=0))["probabilities"]
    np.testing.assert_allclose(four, np.repeat(one, 4, axis=0), rtol=1e-6)
    with pytest.raises(floe.UsageError, match="session.choose"):
        session(image)
    # The smallest that has room; names that are no words of Python go into a dict.
    assert session.choose({"image": (1, 1, 8, 8)}, holding=True) == {"image": (1, 1, 8, 8)}
    np.testing.assert_array_equal(session(image)["probabilities"], one)
    assert session.choose(image=(3, 1, 2, 8), holding=True) == {"image": (4, 1, 8, 8)}
    assert session.choose(holding=True) == {"image": (1, 1, 8, 8)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"image": (3, 1, 8, 8)}, r"no such shape.*It has {'image': \(1, 1, 8, 8\)}; {'image': \(4, 1, 8, 8\)}"),
        ({"image": (5, 1, 8, 8), "holding": True}, "no such shape"),
        ({"picture": (1, 1, 8, 8)}, "no input 'picture'"),
        ({"image": (8, 8)}, "4 dimensions"),
        ({"image": (1, 1, 8, -8)}, "no shape"),
        ({"image": 4}, "choose"),
    ],
)
def test_shapes_that_a_plan_does_not_have_are_refused(digits, image, arguments, message):
    session = floe.compile(digits, shapes=SHAPES).session("host")
    with pytest.raises(floe.UsageError, match=message):
        session.choose(**arguments)
    assert session(image)["probabilities"].shape == (1, 10)
