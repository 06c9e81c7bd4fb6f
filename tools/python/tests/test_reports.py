"""Whole commands as functions."""

import inspect

import numpy as np
import pytest
from conftest import QUICKSTART

import floe


def test_targets():
    names = [target["name"] for target in floe.targets()]
    assert "host" in names and "jetson-orin-nano" in names


def test_inspecting_models_and_plans(digits, weighted, tmp_path):
    report = floe.inspect(digits, shapes={"image": (1, 1, 8, 8)})
    assert report["inputs"][0]["name"] == "image" and report["support"]["targets"][0]["target"] == "host"
    assert floe.inspect(weighted[0])["operators"] == {"Add": 1, "MatMul": 1}
    plan = floe.compile(weighted[0], output=tmp_path / "a.floe")
    assert floe.inspect(plan) == floe.inspect(tmp_path / "a.floe") == plan.inspect()


def test_quantising_on_arrays(digits, image):
    levels = np.fromfile(QUICKSTART / "held_back.bin", np.uint8).reshape(-1, 65)[:, :64]
    images = levels.astype(np.float32).reshape(-1, 1, 1, 8, 8) / 16
    for samples in ({"image": images[:32, 0]}, [{"image": image} for image in images[:32]]):
        made = floe.quantize(digits, samples, shapes={"image": (1, 1, 8, 8)})
        assert made.report and made.failure is None
    session = floe.compile(made, shapes={"image": (1, 1, 8, 8)}).session("host")
    exact = floe.compile(digits, shapes={"image": (1, 1, 8, 8)}).session("host")
    same = sum(
        session(image)["probabilities"].argmax() == exact(image)["probabilities"].argmax() for image in images[:100]
    )
    assert same >= 97


def test_quantising_with_ranges_of_other_programs(digits, tmp_path):
    shapes = {"image": (1, 1, 8, 8)}
    made = floe.quantize(digits, calibration={"image": (0, 1)}, shapes=shapes)
    assert b"QuantizeLinear" in made.model
    table = tmp_path / "calibration.json"
    table.write_text('{"image": [0, 1]}')
    assert floe.quantize(digits, calibration=table, shapes=shapes).model == made.model
    assert floe.quantize(digits, calibration={"image": (0, 2)}, shapes=shapes).model != made.model
    with pytest.raises(floe.UsageError, match="names nothing"):
        floe.quantize(digits, calibration={"nothing": (0, 1)}, shapes=shapes)
    with pytest.raises(floe.UsageError, match="samples"):
        floe.quantize(digits, shapes=shapes)


def test_nothing_is_printed(digits, capfd):
    floe.targets()
    floe.inspect(digits)
    floe.compile(digits, shapes={"image": (1, 1, 8, 8)})
    assert capfd.readouterr() == ("", "")


def test_wrong_arguments(digits):
    with pytest.raises(floe.UsageError, match="no-such-board"):
        floe.compare(digits, "no-such-board", shapes={"image": (1, 1, 8, 8)})
    with pytest.raises(floe.UsageError, match="samples"):
        floe.quantize(digits, [])
    with pytest.raises(floe.UsageError, match="samples"):
        floe.quantize(digits, [3])


def test_a_model_has_the_functions_as_methods(digits, image):
    shapes = {"image": (1, 1, 8, 8)}
    model = floe.Model(digits, shapes=shapes)
    assert model.inspect(target="host") == floe.inspect(digits, target="host", shapes=shapes)
    assert model.unsupported() == [] and len(floe.Model(digits).unsupported("host", shapes=shapes)) == 0
    samples = [{"image": image}]
    compared = model.compare("jetson-orin-nano", samples=samples, device="simulated")
    assert compared["failure"] is None and compared["outputs"]
    assert compared == floe.compare(digits, "jetson-orin-nano", samples=samples, device="simulated", shapes=shapes)
    # What it is read with is the model's own, unless it is given.
    assert bytes(model.compile()) == bytes(floe.compile(digits, shapes=shapes))
    pair = model.compile("host", shapes={"image": (2, 1, 8, 8)})
    assert pair.inputs[0].shape == (2, 1, 8, 8)
    with pytest.raises(floe.CompileError, match="image"):
        floe.Model(digits).compile()


def test_a_quantised_model_is_read_as_the_one_that_it_was_made_of(digits, image):
    shapes = {"image": (1, 1, 8, 8)}
    small = floe.Model(digits, shapes=shapes).quantize([{"image": image}])
    assert small.model == floe.quantize(digits, [{"image": image}], shapes=shapes).model
    assert small.shapes == shapes and isinstance(small, floe.Model)
    plan = small.compile("host")
    assert bytes(plan) == bytes(floe.compile(small, "host", shapes=shapes))


def test_methods_tell_their_arguments():
    model = floe.Model("never read.onnx")
    for name in ("compare", "compile", "inspect", "prove", "quantize", "unsupported", "versus"):
        function, method = getattr(floe, name), getattr(model, name)
        described = list(inspect.signature(function).parameters)
        assert list(inspect.signature(method).parameters) == described[1:], name
        assert method.__doc__ == function.__doc__
