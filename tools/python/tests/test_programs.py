"""The console programs that the wheel brings."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import floe

BIN = Path(sys.executable).parent


def run(*words, code=0):
    done = subprocess.run([BIN / words[0], *map(str, words[1:])], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done
    return done


def test_compile_and_run(digits, image, tmp_path):
    run("floec", "compile", digits, "--target", "host", "--shape", "image=1x1x8x8", "-o", tmp_path / "digits.floe")
    np.save(tmp_path / "image.npy", image)
    image_option = f"image={tmp_path}/image.npy"
    run("floe", "run", tmp_path / "digits.floe", "--device", "host", "--input", image_option, "--output-dir", tmp_path)
    expected = floe.load(tmp_path / "digits.floe").session("host")(image)["probabilities"]
    np.testing.assert_array_equal(np.load(tmp_path / "probabilities.npy"), expected)
    assert json.loads(run("floec", "inspect", tmp_path / "digits.floe", "--json").stdout)["model"] == "digits"


@pytest.mark.parametrize("program", ["floec", "floe"])
def test_help_names_the_program_and_usage_exits_with_2(program):
    assert f"Usage: {program}" in run(program, "--help").stdout
    assert "--no-such-option" in run(program, "--no-such-option", code=2).stderr


def test_exit_codes(tmp_path):
    assert "error: " in run("floec", "check", tmp_path / "missing", code=2).stderr
    assert "no-such-board" in run("floec", "compile", "x", "--target", "no-such-board", "-o", "y", code=2).stderr


def test_ctrl_c_ends_a_program(digits, tmp_path):
    run("floec", "compile", digits, "--target", "host", "--shape", "image=1x1x8x8", "-o", tmp_path / "digits.floe")
    words = ["floe", "bench", tmp_path / "digits.floe", "--device", "host", "--iterations", "1000000000"]
    bench = subprocess.Popen([BIN / words[0], *words[1:]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(2)
    assert bench.poll() is None
    bench.send_signal(signal.SIGINT)
    assert bench.wait(timeout=10) == -signal.SIGINT
