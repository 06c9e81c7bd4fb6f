"""Sound for the audio networks, made up from a seed, and the features that such networks take."""

import numpy as np
from scipy.signal import lfilter

RATE = 16000

# Formants of American English vowels in Hz: Peterson and Barney, "Control methods used in a study of the vowels", 1952.
VOWELS = np.array(
    [
        (270, 2290, 3010),
        (390, 1990, 2550),
        (530, 1840, 2480),
        (660, 1720, 2410),
        (730, 1090, 2440),
        (570, 840, 2410),
        (440, 1020, 2240),
        (300, 870, 2240),
    ]
)


def resonator(signal, frequency, width):
    """A two-pole resonator with gain 1 at 0 Hz: Klatt, "Software for a cascade/parallel formant synthesizer", 1980."""
    radius = np.exp(-np.pi * width / RATE)
    first, second = 2 * radius * np.cos(2 * np.pi * frequency / RATE), -(radius**2)
    return lfilter([1 - first - second], [1, -first, -second], signal)


def syllable(random):
    """A fricative that runs into a vowel of falling pitch: 0.15 to 0.3 s."""
    hiss, tone = (int(RATE * random.uniform(*span)) for span in ((0.03, 0.09), (0.12, 0.25)))
    pitch = random.uniform(95, 140) * np.linspace(1.08, 0.88, tone)
    phase = np.cumsum(pitch / RATE) % 1
    # Glottal pulses: the flow is half a sine squared in the open 40 % of a period; the lips radiate its difference.
    flow = np.where(phase < 0.4, np.sin(np.pi * phase / 0.4) ** 2, 0)
    vowel = np.diff(flow, prepend=0) + 0.003 * random.standard_normal(tone)
    for frequency, width in zip(VOWELS[random.integers(len(VOWELS))], (60, 90, 150)):
        vowel = resonator(vowel, frequency, width)
    edge = np.minimum(np.arange(tone), np.arange(tone)[::-1]) / (0.03 * RATE)
    vowel *= np.minimum(1, edge) * random.uniform(0.2, 0.35) / np.abs(vowel).max()
    fricative = resonator(random.standard_normal(hiss) * np.hanning(hiss), random.uniform(2500, 5500), 800)
    start = hiss // 2
    joined = np.zeros(start + tone)
    joined[:hiss] += 0.06 * fricative / np.abs(fricative).max()
    joined[start:] += vowel
    return joined


def speech(samples, seed=1):
    """Speech-like sound at 16 kHz in -1..1, f32: phrases of syllables, and pauses, over faint noise."""
    random = np.random.default_rng(seed)
    parts = [np.zeros(int(0.35 * RATE))]
    while sum(map(len, parts)) < samples:
        parts += [syllable(random) for _ in range(random.integers(2, 6))]
        parts.append(np.zeros(int(random.uniform(0.4, 1.2) * RATE)))
    return (np.concatenate(parts)[:samples] + 1e-3 * random.standard_normal(samples)).astype(np.float32)


def noisy_speech(samples, seed=1):
    """The same in white noise, 11 dB or so below it."""
    return speech(samples, seed) + 0.02 * np.random.default_rng(seed + 1000).standard_normal(samples).astype(np.float32)


def chord(samples, rate, *frequencies):
    """Tones with three harmonics each, f32."""
    time = np.arange(samples) / rate
    tones = [np.sin(2 * np.pi * f * k * time) / k for f in frequencies for k in (1, 2, 3)]
    return (np.sum(tones, 0) / (2 * len(frequencies))).astype(np.float32)


def frames(signal, length, hop):
    """Overlapping frames as rows; a view."""
    return np.lib.stride_tricks.sliding_window_view(signal, length)[::hop]


def frames_with_context(signal, length=512, context=64):
    """Frames of a voice-activity detector: each with the last samples of the one before, zeros at first."""
    return frames(np.concatenate([np.zeros(context, np.float32), signal]), context + length, length)


def log_power(signal, length=320, hop=160):
    """Log power spectra, one a row, as Microsoft's NSNet2 takes them."""
    window = np.sqrt(np.hanning(length + 1)[:-1])
    spectra = np.fft.rfft(frames(signal, length, hop) * window)
    return np.log10(np.maximum(np.abs(spectra) ** 2, 1e-12)).astype(np.float32)


def slaney_mel(frequency):
    """Mel number of a frequency: linear to 1 kHz, logarithmic above (Slaney's Auditory Toolbox)."""
    above = 15 + 27 * np.log(np.maximum(frequency, 1e-9) / 1000) / np.log(6.4)
    return np.where(frequency < 1000, 3 * frequency / 200, above)


def log_mel(signal, bands=80, length=400, hop=160):
    """Log-mel features [bands, frames] of Whisper: https://github.com/openai/whisper/blob/main/whisper/audio.py."""
    signal = (signal - signal.mean()) / np.sqrt(signal.var() + 1e-7)
    padded = np.pad(signal, length // 2, mode="reflect")
    power = np.abs(np.fft.rfft(frames(padded, length, hop)[:-1] * np.hanning(length + 1)[:-1])) ** 2
    bins = np.fft.rfftfreq(length, 1 / RATE)
    # Band edges, evenly spaced in mel from 0 to 8 kHz, by inverting the scale on a fine grid.
    grid = np.linspace(0, RATE / 2, 80001)
    edges = np.interp(np.linspace(0, slaney_mel(RATE / 2), bands + 2), slaney_mel(grid), grid)
    low, centre, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    filters = np.maximum(0, np.minimum((bins - low) / (centre - low), (high - bins) / (high - centre)))
    mel = (filters * 2 / (high - low)) @ power.T
    logarithm = np.log10(np.maximum(mel, 1e-10))
    return ((np.maximum(logarithm, logarithm.max() - 8) + 4) / 4).astype(np.float32)
