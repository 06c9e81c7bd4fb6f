"""Text and pictures for the tests: fonts of Debian's packages, words, and what cameras do to both."""

import subprocess
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from scipy.ndimage import gaussian_filter

# Debian's packages; `setup` installs them.
LATIN = ("fonts-dejavu-core", "fonts-dejavu-extra", "fonts-liberation2", "fonts-freefont-ttf", "fonts-noto-mono")
CHINESE = ("fonts-wqy-microhei", "fonts-wqy-zenhei")
# Fonts of symbols, and of letters that stand for others.
UNSUITABLE = ("MathTeXGyre",)


@cache
def fonts(packages):
    """Files of fonts, in an order that does not depend on the machine."""
    listed = subprocess.run(["dpkg", "-L", *packages], capture_output=True, text=True).stdout.splitlines()
    files = [path for path in listed if path.endswith((".ttf", ".ttc", ".otf")) and not any(name in path for name in UNSUITABLE)]
    if not files:
        raise FileNotFoundError(f"no fonts of {', '.join(packages)}: run tools/quality/setup")
    return sorted((path for path in files if not Path(path).is_symlink()), key=lambda path: Path(path).name)


@cache
def font(path, size):
    return ImageFont.truetype(path, size)


@cache
def words(part):
    """English words of scikit-learn's descriptions of data sets; those of the samples are not those of the tests."""
    import sklearn.datasets

    text = "".join(path.read_text() for path in sorted((Path(sklearn.datasets.__file__).parent / "descr").glob("*.rst")))
    found = sorted({word for word in text.split() if word.isascii() and word.isalpha() and 3 <= len(word) <= 12})
    order = np.random.default_rng(5).permutation(len(found))
    return [found[at] for at in order[part == "tests" :: 2]]


@cache
def common_characters(part):
    """Chinese characters of the first level of GB 2312."""
    found = [bytes([0xA0 + row, 0xA0 + column]).decode("gb2312") for row in range(16, 55) for column in range(1, 95)]
    order = np.random.default_rng(6).permutation(len(found))
    return [found[at] for at in order[part == "tests" :: 2]]


def line_of_text(text, path, size, margin=(2, 2)):
    """A line as a mask in 0..1, cut to its ink and a margin."""
    chosen = font(path, size)
    left, top, right, bottom = chosen.getbbox(text)
    mask = Image.new("L", (right - left + 2 * margin[0], bottom - top + 2 * margin[1]))
    ImageDraw.Draw(mask).text((margin[0] - left, margin[1] - top), text, 255, chosen)
    return np.asarray(mask, np.float32) / 255


def colours(random, contrast=0.35):
    """Those of ground and ink in 0..1."""
    while True:
        ground, ink = random.uniform(0, 1, (2, 3))
        if abs(np.dot(ground - ink, (0.3, 0.59, 0.11))) > contrast:
            return ground.astype(np.float32), ink.astype(np.float32)


def painted(mask, ground, ink):
    return ground * (1 - mask[..., None]) + ink * mask[..., None]


def spoilt(pixels, random, blur, noise):
    """Blurred, with noise; in steps of 1/255 as cameras give it."""
    if blur:
        pixels = gaussian_filter(pixels, (blur, blur, 0))
    if noise:
        pixels = pixels + noise * random.standard_normal(pixels.shape)
    return (np.round(np.clip(pixels, 0, 1) * 255) / 255).astype(np.float32)


def resized(pixels, width, height):
    """Bilinear."""
    image = Image.fromarray(np.round(pixels * 255).astype(np.uint8))
    return np.asarray(image.resize((width, height), Image.Resampling.BILINEAR), np.float32) / 255


@cache
def photograph(name):
    if name in ("china", "flower"):
        from sklearn.datasets import load_sample_image

        return load_sample_image(f"{name}.jpg")
    import skimage.data

    pixels = getattr(skimage.data, name)()
    return np.stack([pixels] * 3, -1) if pixels.ndim == 2 else pixels[..., :3]


def background(random, width, height, names):
    """A piece of a photograph in 0..1."""
    picture = photograph(names[random.integers(len(names))])
    scale = random.uniform(0.4, 1)
    extent = min(int(scale * picture.shape[0]), int(scale * picture.shape[1] * height / width))
    across = extent * width // height
    top, left = random.integers(picture.shape[0] - extent + 1), random.integers(picture.shape[1] - across + 1)
    piece = picture[top : top + extent, left : left + across].astype(np.float32) / 255
    return resized(piece[:, ::-1] if random.random() < 0.5 else piece, width, height)


def planes(pixels, mean, spread, swap=False):
    """Channels first, normalised, with the batch."""
    pixels = pixels[..., ::-1] if swap else pixels
    return np.ascontiguousarray(((pixels - np.float32(mean)) / np.float32(spread)).transpose(2, 0, 1)[None], np.float32)
