"""Makes reference cases for `floec compile --preprocess`: frames of random bytes, and the tensors that Pillow and NumPy
make of them.

    pip install -r tools/conformance/requirements.txt
    python tools/conformance/frames.py OUT

A case is a folder: `option` (the text of --preprocess), `shape` of the network's input, `frame.bin` (u8), `tensor.bin`
(f32) and `tolerance`. What Pillow filters is filtered in mode F, so in floats, without its rounding between the passes;
cases that end in _bytes are what Pillow makes of bytes, within a step. Bilinear sampling (OpenCV's INTER_LINEAR, half-pixel
centres) and NV12 (ITU-R BT.601-7, BT.709-6) are written out in NumPy, in f64.
"""

import sys
from pathlib import Path

import numpy as np
from PIL import Image

RANDOM = np.random.default_rng(3)
ORDER = {"gray": "L", "rgb": "RGB", "bgr": "BGR", "rgba": "RGBA", "bgra": "BGRA"}
FILTERS = {"nearest": Image.Resampling.NEAREST, "antialias": Image.Resampling.BILINEAR}


def smooth(height, width, channels):
    """Blobs with noise, so that neither a flat image nor aliasing hides a shift."""
    coarse = RANDOM.integers(0, 256, (height // 6 + 2, width // 6 + 2, channels)).astype(np.uint8)
    planes = [np.asarray(Image.fromarray(coarse[..., c]).resize((width, height), Image.Resampling.BICUBIC)) for c in range(channels)]
    noise = RANDOM.integers(-30, 31, (height, width, channels))
    return np.clip(np.stack(planes, -1) + noise, 0, 255).astype(np.uint8)


def from_nv12(luma, chroma, bt709, full):
    """Red, green, blue in f64; chroma [h / 2, w / 2, 2] stands for its 2 × 2 pixels."""
    kr, kb = (0.2126, 0.0722) if bt709 else (0.299, 0.114)
    y = luma.astype(float)
    cb, cr = (np.repeat(np.repeat(chroma[..., i].astype(float) - 128, 2, 0), 2, 1) for i in (0, 1))
    if not full:
        y, cb, cr = (y - 16) * 255 / 219, cb * 255 / 224, cr * 255 / 224
    red, blue = y + 2 * (1 - kr) * cr, y + 2 * (1 - kb) * cb
    green = (y - kr * red - kb * blue) / (1 - kr - kb)
    return np.clip(np.stack([red, green, blue], -1), 0, 255)


def bilinear(image, height, width):
    def along(image, extent):
        source = image.shape[0]
        at = np.clip((np.arange(extent) + 0.5) * source / extent - 0.5, 0, source - 1)
        low = np.minimum(np.floor(at).astype(int), source - 1)
        part = (at - low).reshape(-1, *[1] * (image.ndim - 1))
        return image[low] * (1 - part) + image[np.minimum(low + 1, source - 1)] * part

    return along(along(image, height).swapaxes(0, 1), width).swapaxes(0, 1)


def resized(image, height, width, kind, as_bytes):
    if kind == "bilinear":
        return bilinear(image, height, width)
    if as_bytes:
        planes = [Image.fromarray(image[..., c].astype(np.uint8)) for c in range(image.shape[-1])]
    else:
        planes = [Image.fromarray(image[..., c].astype(np.float32)) for c in range(image.shape[-1])]
    return np.stack([np.asarray(plane.resize((width, height), FILTERS[kind]), float) for plane in planes], -1)


def case(out, name, source, size, target, kind="bilinear", order="rgb", fit="stretch", pad=0, crop=None, stride=0,
         bt709=False, full=False, mean=(0,), std=(1,), nhwc=False, as_bytes=False):
    """`size` and `target` are (height, width)."""
    height, width = size
    if source == "nv12":
        frame = RANDOM.integers(0, 256, (height * 3 // 2, width)).astype(np.uint8)
        frame[:height] = smooth(height, width, 1)[..., 0]
        pixels = from_nv12(frame[:height], frame[height:].reshape(height // 2, width // 2, 2), bt709, full)
        names = "RGB"
    else:
        names = ORDER[source]
        pixels = smooth(height, width, len(names))
        frame = pixels.reshape(height, -1)
        pixels = pixels.astype(float)
    options = [f"{source}:{width}x{height}", kind, order, fit]
    if stride:
        frame = np.pad(frame, [(0, 0), (0, stride - frame.shape[1])], constant_values=99)
        options.append(f"stride={stride}")
    options += ["bt709"] * bt709 + ["full"] * full + ["nhwc" if nhwc else "nchw"]
    if crop:
        h, w, top, left = crop
        pixels = pixels[top:top + h, left:left + w]
        options.append(f"crop={w}x{h}+{left}+{top}")
    wanted = ORDER[order]
    if names == "L":
        pixels = np.repeat(pixels, len(wanted), -1)
    elif wanted == "L":
        by_name = [pixels[..., names.index(c)] for c in "RGB"]
        pixels = (0.299 * by_name[0] + 0.587 * by_name[1] + 0.114 * by_name[2])[..., None]
    else:
        alpha = np.full(pixels.shape[:2], 255.0)
        pixels = np.stack([pixels[..., names.index(c)] if c in names else alpha for c in wanted], -1)
    th, tw = target
    h, w = pixels.shape[:2]
    if fit == "stretch":
        result = resized(pixels, th, tw, kind, as_bytes)
    elif fit.startswith("letterbox"):
        factor = min(th / h, tw / w)
        inner = max(1, round(h * factor)), max(1, round(w * factor))
        top, left = (0, 0) if fit.endswith("top-left") else ((th - inner[0]) // 2, (tw - inner[1]) // 2)
        result = np.full((th, tw, pixels.shape[-1]), float(pad))
        result[top:top + inner[0], left:left + inner[1]] = resized(pixels, *inner, kind, as_bytes)
        options.append(f"pad={pad}")
    else:  # torchvision's Resize and CenterCrop
        shorter = int(fit.split("=")[1])
        inner = (shorter, int(shorter * w / h)) if h <= w else (int(shorter * h / w), shorter)
        top, left = (int(round((inner[i] - target[i]) / 2)) for i in (0, 1))
        result = resized(pixels, *inner, kind, as_bytes)[top:top + th, left:left + tw]
    options += ["mean=" + "/".join(map(str, mean)), "std=" + "/".join(map(str, std))]
    result = (result - np.array(mean)) / np.array(std)
    tensor = (result if nhwc else result.transpose(2, 0, 1))[None]
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "option").write_text("image=" + ",".join(options))
    (folder / "shape").write_text("x".join(map(str, tensor.shape)))
    (folder / "frame.bin").write_bytes(np.ascontiguousarray(frame).tobytes())
    (folder / "tensor.bin").write_bytes(np.ascontiguousarray(tensor, np.float32).tobytes())
    # Pillow rounds bytes after each of its two passes; f32 sums lose a few bits of 255.
    (folder / "tolerance").write_text("1.001" if as_bytes else str(1e-5 * max(1, 25 / min(std))))


def main():
    out = Path(sys.argv[1])
    imagenet = {"mean": (123.675, 116.28, 103.53), "std": (58.395, 57.12, 57.375)}
    for source in [*ORDER, "nv12"]:
        for kind in ("bilinear", "antialias"):
            case(out, f"{source}_{kind}_down", source, (50, 74), (17, 23), kind)
            case(out, f"{source}_{kind}_up", source, (22, 18), (47, 61), kind, order="bgr")
        case(out, f"{source}_nearest", source, (46, 58), (19, 83), "nearest")
        case(out, f"{source}_gray" if source != "nv12" else "nv12_rgba", source, (30, 34), (20, 50),
             order="gray" if source != "nv12" else "rgba")
        case(out, f"{source}_letterbox", source, (90, 160), (64, 64), fit="letterbox", pad=114, **imagenet)
        case(out, f"{source}_letterbox_odd", source, (48, 32), (41, 63), "antialias", fit="letterbox", pad=7)
    for bt709 in (False, True):
        for full in (False, True):
            case(out, f"nv12_{bt709}_{full}", "nv12", (36, 52), (36, 52), bt709=bt709, full=full)
    case(out, "bytes_down", "rgb", (120, 161), (37, 50), "antialias", as_bytes=True)
    case(out, "bytes_up", "bgr", (21, 33), (64, 65), "antialias", as_bytes=True)
    case(out, "top_left", "bgr", (61, 45), (32, 32), fit="letterbox=top-left", pad=114)
    case(out, "cover", "rgb", (96, 131), (56, 56), "antialias", fit="cover=64", **imagenet)
    case(out, "cover_tall", "rgb", (131, 96), (57, 55), fit="cover=64")
    case(out, "crop", "nv12", (60, 80), (33, 29), crop=(37, 41, 9, 21))
    case(out, "stride", "rgb", (20, 30), (25, 35), stride=128, nhwc=True)
    case(out, "stride_nv12", "nv12", (20, 30), (25, 35), "antialias", stride=64)
    case(out, "nhwc", "rgba", (40, 30), (24, 25), "antialias", nhwc=True, mean=(127.5,), std=(127.5,))


if __name__ == "__main__":
    main()
