"""Voice activity, frame by frame: sentences that espeak-ng speaks, in noise, and pauses."""

import io
import subprocess
from functools import lru_cache

import numpy as np
from drawing import words
from models import fixed
from rates import accuracy as rate
from scipy.io import wavfile
from scipy.signal import lfilter, resample_poly

TITLE, METRIC, MODEL = "voice activity", "frames judged rightly", "silero-vad-16k-sequence"
TESTS, SAMPLES = 200, 60
# What else decides what a test is.
MAKERS = ("drawing.py",)
RATE, FRAME, CONTEXT, FRAMES = 16000, 512, 64, 128
VOICES = ("en-us", "en-gb", "de", "fr-fr", "es", "it", "pt", "nl")
KINDS = ("", "+m1", "+m3", "+m5", "+m7", "+f1", "+f2", "+f4", "+f5")
# Of the loudest frame: louder frames are speech, softer ones are not; what lies between counts for nothing.
LOUD, SOFT = -30, -50


def prepare(zoo, path):
    zeros = np.zeros((1, 1, 128), np.float32)
    fixed(zoo / f"{MODEL}.onnx", path, (FRAMES, CONTEXT + FRAME), {"h": zeros, "c": zeros})


@lru_cache(1)
def spoken(said, voice, speed, pitch):
    """A phrase at 16 kHz."""
    try:
        done = subprocess.run(["espeak-ng", "-v", voice, "-s", str(speed), "-p", str(pitch), "--stdout", said], capture_output=True, check=True)
    except FileNotFoundError:
        raise FileNotFoundError("no espeak-ng: run tools/quality/setup") from None
    # It writes to a pipe, and so does not know the length that the header should tell.
    rate, samples = 22050, np.frombuffer(done.stdout[44:], np.int16)
    return resample_poly(samples / 32768, 320, 441).astype(np.float32)


def noise(random, length):
    """White, towards the low as traffic, or hum and tones."""
    kind = random.integers(3)
    white = random.standard_normal(length)
    if kind == 1:
        white = lfilter([1], [1, -0.97], white)
    if kind == 2:
        time = np.arange(length) / RATE
        tones = random.uniform(50, 2000, 4)
        white = sum(np.sin(2 * np.pi * tone * time + tone) for tone in tones) + 0.3 * white
    return white / np.sqrt(np.mean(white**2))


def example(random, part):
    length = FRAMES * FRAME
    clean = np.zeros(length, np.float32)
    at = int(random.uniform(0.1, 1.2) * RATE)
    known = words(part)
    while at < length - RATE // 4:
        said = " ".join(known[random.integers(len(known))] for _ in range(random.integers(1, 5)))
        voice = VOICES[random.integers(len(VOICES))] + KINDS[random.integers(len(KINDS))]
        phrase = spoken(said, voice, int(random.integers(130, 200)), int(random.integers(20, 80)))
        phrase = phrase[: length - at] * random.uniform(0.2, 0.9)
        clean[at : at + len(phrase)] = phrase
        at += len(phrase) + int(random.uniform(0.4, 1.5) * RATE)
    power = np.sqrt((clean.reshape(FRAMES, FRAME) ** 2).mean(1))
    level = 20 * np.log10(np.maximum(power / power.max(), 1e-6))
    truth = np.where(level > LOUD, 1, np.where(level < SOFT, 0, -1))
    loud = np.sqrt((clean**2).mean())
    signal = clean + noise(random, length) * loud * 10 ** (-random.uniform(0, 30) / 20)
    signal = np.concatenate([np.zeros(CONTEXT), signal * min(1, 0.95 / np.abs(signal).max())]).astype(np.float32)
    return np.lib.stride_tricks.sliding_window_view(signal, CONTEXT + FRAME)[::FRAME].copy(), truth


def outcome(outputs, truth):
    known = truth >= 0
    return np.array([((outputs[0].ravel() > 0.5) == truth)[known].sum(), known.sum()])
