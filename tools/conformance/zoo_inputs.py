"""Inputs for the models of the zoo, each in the domain of its model: pictures, sound, the bytes of files."""

from pathlib import Path

import numpy as np
import onnxruntime
from PIL import Image

import audio


def picture(name, height, width, channels=3):
    """A picture as [1, channels, height, width], f32 in 0..255; the fourth channel is opaque white."""
    if name in ("china.jpg", "flower.jpg"):
        from sklearn.datasets import load_sample_image

        pixels = load_sample_image(name)
    else:
        import skimage.data

        pixels = getattr(skimage.data, name)()
    image = Image.fromarray(pixels).convert("RGB").resize((width, height), Image.Resampling.BILINEAR)
    planes = np.asarray(image, np.float32).transpose(2, 0, 1)
    if channels == 4:
        planes = np.concatenate([planes, np.full((1, height, width), 255, np.float32)])
    return planes[None]


def imagenet(pixels):
    mean = np.array([0.485, 0.456, 0.406], np.float32).reshape(3, 1, 1)
    spread = np.array([0.229, 0.224, 0.225], np.float32).reshape(3, 1, 1)
    return (pixels / 255 - mean) / spread


def page_rotations(count, height, width):
    page = picture("page", height, width)[0]
    return imagenet(np.stack([np.rot90(page, k, (1, 2)) for k in range(count)]))


def text_lines(tops, height, width):
    """Lines of a printed page in -1..1, `tops` being their uppermost rows; 24 rows of the page each."""
    page = picture("page", 191, 384)[0]
    span = min(376, 24 * width // height)
    lines = [page[:, top : top + 24, 8 : 8 + span] for top in tops]
    resized = [np.stack([np.asarray(Image.fromarray(c).resize((width, height))) for c in line]) for line in lines]
    return (np.stack(resized) / 255 - 0.5) / 0.5


def session(file):
    return onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])


def file_heads_and_tails(zoo, count):
    """Features of Magika: 1024 bytes from the start and 1024 from the end of files of different kinds, 256 where none."""
    import skimage
    import sklearn.datasets

    files = [
        Path(__file__),
        Path(skimage.__file__).parent / "data/page.png",
        Path(sklearn.datasets.__file__).parent / "images/china.jpg",
        zoo / "magika-v3.3.onnx",
    ]
    rows = np.full((count, 2048), 256, np.int32)
    for row, file in zip(rows, files, strict=False):
        contents = file.read_bytes()
        head, tail = contents.lstrip()[:1024], contents.rstrip()[-1024:]
        row[: len(head)] = list(head)
        row[2048 - len(tail) :] = list(tail)
    return rows


def denoiser_block(zoo, stage):
    """Inputs of one stage of DTLN for the 101st block of noisy speech, states carried from block to block."""
    first, second = session(zoo / "dtln-stage1.onnx"), session(zoo / "dtln-stage2.onnx")
    signal = audio.noisy_speech(2 * audio.RATE)
    states = [np.zeros((1, 2, 128, 2), np.float32)] * 2
    for number in range(101):
        spectrum = np.fft.rfft(signal[128 * number : 128 * number + 512])
        magnitude = np.abs(spectrum).astype(np.float32).reshape(1, 1, 257)
        inputs = [{"input_2": magnitude, "input_3": states[0]}]
        mask, states[0] = first.run(None, inputs[0])
        estimate = np.fft.irfft(mask[0, 0] * spectrum).astype(np.float32).reshape(1, 1, 512)
        inputs.append({"input_4": estimate, "input_5": states[1]})
        _, states[1] = second.run(None, inputs[1])
    return inputs[stage]


def voice_frame(zoo, name, number=53):
    """A frame of speech for a detector of voice activity, with the state that the frames before it leave."""
    detector = session(zoo / f"{name}.onnx")
    rate = {"sr": np.array(audio.RATE, np.int64)} if name == "silero-vad-v6" else {}
    state = np.zeros((2, 1, 128), np.float32)
    for frame in audio.frames_with_context(audio.speech(2 * audio.RATE))[: number + 1]:
        inputs = {"input": frame[None], "state": state} | rate
        _, state = detector.run(None, inputs)
    return inputs


def voice_sequence(shapes):
    count = shapes["input"][0]
    zeros = {name: np.zeros(shapes[name], np.float32) for name in ("h", "c")}
    return {"input": audio.frames_with_context(audio.speech(512 * count))} | zeros


def chords(shape):
    notes = [(440.0, 659.26, 261.63), (349.23, 523.25, 220.0)]
    return np.stack([audio.chord(shape[1], 22050, *notes[k])[:, None] for k in range(shape[0])])


def log_powers(shape):
    return np.stack([audio.log_power(audio.noisy_speech(160 * (shape[1] + 1), 1 + k)) for k in range(shape[0])])


def log_mels(shape):
    return np.stack([audio.log_mel(audio.speech(160 * shape[2], 1 + k)) for k in range(shape[0])])


# How the inputs of a model are made from their shapes and the folder of the zoo.
ZOO = {
    "basic-pitch": lambda shapes, _: {name: chords(shape) for name, shape in shapes.items()},
    "blazeface-front": lambda *_: {"input:0": picture("astronaut", 128, 128).transpose(0, 2, 3, 1) / 127.5 - 1},
    "ddddocr-yolox-det": lambda *_: {"images": picture("text", 416, 416)},
    "dtln-stage1": lambda _, zoo: denoiser_block(zoo, 0),
    "dtln-stage2": lambda _, zoo: denoiser_block(zoo, 1),
    "magika-v3.3": lambda shapes, zoo: {"bytes": file_heads_and_tails(zoo, shapes["bytes"][0])},
    "mlsd-tiny-512": lambda *_: {
        "input_image_with_alpha:0": picture("china.jpg", 512, 512, 4).transpose(0, 2, 3, 1),
    },
    "nsnet2-16k": lambda shapes, _: {"input": log_powers(shapes["input"])},
    "pplcnet-orientation": lambda shapes, _: {"x": page_rotations(shapes["x"][0], *shapes["x"][2:])},
    "ppocr-cls-mobilev2": lambda shapes, _: {"x": text_lines(range(0, 120, 20), *shapes["x"][2:])},
    "ppocrv6-det-small": lambda shapes, _: {"x": imagenet(picture("page", *shapes["x"][2:]))},
    "ppocrv6-rec-small": lambda shapes, _: {"x": text_lines((6, 40)[: shapes["x"][0]], *shapes["x"][2:])},
    "silero-vad-16k-sequence": lambda shapes, _: voice_sequence(shapes),
    "silero-vad-16k-static": lambda _, zoo: voice_frame(zoo, "silero-vad-16k-static"),
    "silero-vad-v6": lambda _, zoo: voice_frame(zoo, "silero-vad-v6"),
    "smart-turn-v3.2-qdq": lambda shapes, _: {"input_features": log_mels(shapes["input_features"])},
    "swift-f0": lambda shapes, _: {
        "audio": audio.speech(shapes["audio"][1])[None],
        "fmin": np.array(46.875, np.float32),
        "fmax": np.array(2093.75, np.float32),
    },
}
