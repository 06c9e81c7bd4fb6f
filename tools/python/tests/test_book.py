"""The blocks of Python on the book's last page, as they stand there."""

import re

import numpy as np
import pytest
from conftest import QUICKSTART

import floe

REPOSITORY = QUICKSTART.parents[1]
PAGE = REPOSITORY / "tools/book/10-loop.md"
MODEL = REPOSITORY / ".cache/zoo/blazeface-front.onnx"
BLOCKS = re.findall(r"^```python elsewhere\n(.*?)^```$", PAGE.read_text(), re.M | re.S)


@pytest.fixture
def scope(tmp_path, monkeypatch):
    """Runs a block in a folder with what pages 6 and 10 have made; gives its names."""
    if not MODEL.is_file():
        pytest.skip("tools/test fetches the model")
    monkeypatch.chdir(tmp_path)
    plan = floe.compile(
        MODEL,
        "host",
        preprocess="input:0=rgb:640x480,letterbox,range=-1..1",
        postprocess="Identity_2:0+Identity_3:0=blazeface,scores=Identity:0+Identity_1:0,most=16",
    )
    plan.save("faces.floe")
    np.save("frame.npy", np.full((480, 640, 3), 90, np.uint8))
    return {}


def test_a_session_takes_a_frame(scope):
    assert len(BLOCKS) == 2
    exec(BLOCKS[0], scope)
    assert scope["detections"].shape == (16, 18)
