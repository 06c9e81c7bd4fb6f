"""`floe.versus`. tools/benchmark/test_versus.py tests what it measures."""

import numpy as np
import pytest

import floe


def test_floe_is_timed_beside_what_is_there(weighted, tmp_path):
    made, expected = weighted
    x = np.ones((2, 5), np.float32)
    report = floe.versus(made, inputs={"x": x}, rounds=2, iterations=3, svg=tmp_path / "times.svg")
    row = next(row for row in report["rows"] if row["program"] == "Floe host")
    assert 0 < row["us"]["min"] <= row["us"]["median"] <= row["us"]["max"]
    assert all(entry["install"] or entry["why"] for entry in report["absent"])
    assert "Floe host" in report["table"] and "<svg" in (tmp_path / "times.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"inputs": {"z": np.ones(3)}}, "no input 'z'"),
        ({"inputs": {"x": np.ones((5, 2), np.float32)}}, r"\[5, 2\]"),
        ({"target": "no-such-board"}, "no-such-board"),
        ({"torch": "resnet"}, "attribute"),
        ({"rounds": 0}, "count from 1"),
    ],
)
def test_wrong_arguments_are_refused(weighted, arguments, message):
    with pytest.raises(floe.UsageError, match=message):
        floe.versus(weighted[0], **arguments)
