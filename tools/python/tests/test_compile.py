"""Compiling, plans, and errors of both."""

import pickle

import numpy as np
import onnx
import pytest
from conftest import model
from onnx import TensorProto, helper

import floe


def test_a_path_bytes_and_a_model_give_the_same_results(digits, image):
    shapes = {"image": (1, 1, 8, 8)}
    forms = [digits, str(digits), digits.read_bytes(), onnx.load(digits)]
    plans = [floe.compile(form, "host", shapes=shapes) for form in forms]
    assert bytes(plans[0]) == bytes(plans[1]) and bytes(plans[2]) == bytes(plans[3])
    first, *others = [plan.session("host")(image)["probabilities"] for plan in plans]
    for other in others:
        np.testing.assert_array_equal(first, other)


def test_a_plan_describes_itself(digits):
    plan = floe.compile(digits, ["host"], shapes={"image": [1, 1, 8, 8]}, version=3)
    assert (plan.model, plan.version, plan.variants) == ("digits", 3, ["host"])
    assert [(b.name, b.dtype, b.shape) for b in plan.inputs] == [("image", np.float32, (1, 1, 8, 8))]
    assert [(b.name, b.shape) for b in plan.outputs] == [("probabilities", (1, 10))]
    assert plan.states == []
    assert plan.inspect()["variants"][0]["steps"] and plan.report[0]["steps"] > 0
    assert "digits for host: image: float32 [1, 1, 8, 8]" in repr(plan)


def test_a_plan_is_saved_loaded_and_pickled(digits, image, tmp_path):
    path = tmp_path / "digits.floe"
    plan = floe.compile(digits, "host", shapes={"image": (1, 1, 8, 8)}, output=path)
    expected = plan.session("host")(image)["probabilities"]
    plan.save(tmp_path / "again.floe")
    for again in (floe.load(path), floe.load(str(path)), floe.load(bytes(plan)), pickle.loads(pickle.dumps(plan))):
        assert bytes(again) == path.read_bytes() == (tmp_path / "again.floe").read_bytes()
        np.testing.assert_array_equal(again.session("host")(image)["probabilities"], expected)


def test_an_open_shape_is_asked_for_in_words_of_python(digits):
    with pytest.raises(floe.CompileError) as caught:
        floe.compile(digits)
    assert caught.value.remedy == "shapes={'image': (1, 1, 8, 8)}"
    assert caught.value.node is None and caught.value.remedy in str(caught.value)
    plan = floe.compile(digits, **eval(f"dict({caught.value.remedy})"))
    assert plan.inputs[0].shape == (1, 1, 8, 8)


def unknown(*names):
    nodes = [helper.make_node("NoSuchOperator", ["x"], [f"y{i}"], name=name) for i, name in enumerate(names)]
    graph = helper.make_graph(
        nodes,
        "unknown",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, [2]) for i in range(len(names))],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.parametrize("names", [["only"], ["first", "second"]])
def test_a_refusal_names_its_nodes(names):
    with pytest.raises(floe.CompileError, match="NoSuchOperator") as caught:
        floe.compile(unknown(*names))
    assert caught.value.node == names[0] and caught.value.nodes == names
    found = floe.unsupported(unknown(*names))
    assert [(item["node"], item["operator"]) for item in found] == [(name, "NoSuchOperator") for name in names]


def test_nothing_is_unsupported_of_what_compiles(weighted):
    assert floe.unsupported(weighted[0], ["host", "jetson-orin-nano"]) == []


def test_constants_states_and_results_of_outputs(weighted, counter):
    made, expected = weighted
    plan = floe.compile(made, constants={"x": 1})
    assert plan.inputs == []
    np.testing.assert_allclose(plan.session("host")()["y"], expected(np.ones((2, 5), np.float32)), rtol=1e-5)
    plan = floe.compile(counter, states={"next": "now"})
    assert [state.name for state in plan.states] == ["now"] and [output.name for output in plan.outputs] == ["y"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target": "no-such-board"}, "no-such-board"),
        ({"target": []}, "at least one"),
        ({"target": ["host", "host"]}, "twice"),
        ({"target": 7}, "target: a string or a list of strings"),
        ({"target": ["host", 7]}, "target: a string or a list of strings"),
        ({"shapes": {"image": (1, 1, 0, 8)}}, "extent of 0"),
        ({"shapes": {"image": "ab"}}, "shapes"),
        ({"precision": "f8"}, "'f16' or 'f32'"),
        ({"keep_f32": "a"}, "keep_f32"),
        ({"limits": {"no-such-limit": 1}}, "no-such-limit"),
        ({"preprocess": "image=nonsense"}, "preprocess"),
    ],
)
def test_wrong_arguments_are_refused_by_name(digits, arguments, message):
    with pytest.raises(floe.UsageError, match=message):
        floe.compile(digits, **arguments)


def test_files_that_are_not_there_are_os_errors(tmp_path):
    missing = tmp_path / "missing"
    for call in (floe.compile, floe.load):
        with pytest.raises(FileNotFoundError, match="missing"):
            call(missing)
    negation = model([helper.make_node("Neg", ["x"], ["y"])], [("x", 1, [1])], [("y", 1, [1])])
    plan = floe.compile(negation)
    with pytest.raises(FileNotFoundError, match="folder"):
        plan.save(tmp_path / "no folder" / "x.floe")
    with pytest.raises(FileNotFoundError, match="timings"):
        floe.compile(negation, timings=missing)


def test_damaged_plans_are_refused(weighted):
    data = bytearray(bytes(floe.compile(weighted[0])))
    data[-1] ^= 1
    for bad in (bytes(data), bytes(data[:-1]), b"", b"not a plan"):
        with pytest.raises(floe.PlanError):
            floe.load(bad)


def test_something_else_than_a_model_is_refused(tmp_path):
    with pytest.raises(floe.UsageError, match="list"):
        floe.compile([1, 2])
    with pytest.raises(floe.CompileError, match="not an ONNX file"):
        floe.compile(b"hello, this is text")
    assert issubclass(floe.CompileError, floe.Error) and issubclass(floe.UsageError, floe.Error)
