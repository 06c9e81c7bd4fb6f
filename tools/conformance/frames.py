"""Makes reference cases for `floec compile --preprocess`: frames of random bytes, and the tensors that Pillow and NumPy
make of them.

    pip install -r tools/conformance/requirements.txt
    python tools/conformance/frames.py OUT

A case is a folder: `option` (the text of --preprocess), `shape` of the network's input, `frame.bin` (u8), `tensor.bin`
(f32) and `tolerance`. What Pillow filters is filtered in mode F, so in floats, without its rounding between the passes;
cases that end in _bytes are what Pillow makes of bytes, within a step. Bilinear sampling (OpenCV's INTER_LINEAR, half-pixel
centres), video formats (ITU-R BT.601-7, BT.709-6, BT.2020-2) and the interpolation of mosaics are written out in NumPy, in f64.
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


VIDEO = ("nv12", "nv21", "i420", "yuyv", "uyvy", "p010")
MOSAICS = ("rggb", "bggr", "grbg", "gbrg")
WEIGHTS = {"bt601": (0.299, 0.114), "bt709": (0.2126, 0.0722), "bt2020": (0.2627, 0.0593)}


def video(source, height, width):
    """Bytes of a frame [rows, bytes], its luma, and its Cb and Cr repeated for every pixel, as codes."""
    bits = 10 if source == "p010" else 8
    rows = height if source in ("yuyv", "uyvy") else height // 2
    luma = smooth(height, width, 1)[..., 0].astype(np.uint16) << (bits - 8) | RANDOM.integers(0, 1 << (bits - 8), (height, width))
    cb, cr = RANDOM.integers(0, 1 << bits, (2, rows, width // 2))
    if source in ("yuyv", "uyvy"):
        pair = [luma[:, 0::2], cb, luma[:, 1::2], cr] if source == "yuyv" else [cb, luma[:, 0::2], cr, luma[:, 1::2]]
        frame = np.stack(pair, -1).reshape(height, 2 * width)
    elif source == "i420":
        frame = np.concatenate([luma.ravel(), cb.ravel(), cr.ravel()]).reshape(height * 3 // 2, width)
    else:
        pair = [cr, cb] if source == "nv21" else [cb, cr]
        frame = np.concatenate([luma, np.stack(pair, -1).reshape(rows, width)])
    if bits == 10:
        frame = (frame.astype("<u2") << 6).view(np.uint8)
    cb, cr = (np.repeat(np.repeat(plane, height // rows, 0), 2, 1) for plane in (cb, cr))
    return frame.astype(np.uint8), luma, cb, cr


def mosaic(source, height, width):
    """Bytes of a frame whose pixels have one colour each, and all colours by the mean of the nearest sites; mirrored outside."""
    names, bits = source[:4], int(source[4:] or 8)
    codes = smooth(height, width, 1)[..., 0].astype(np.uint16) << (bits - 8) | RANDOM.integers(0, 1 << (bits - 8), (height, width))
    frame = codes.astype(np.uint8) if bits == 8 else codes.astype("<u2").view(np.uint8)
    padded = np.pad(codes.astype(float), 1, mode="reflect")
    site = np.array([[names[(y - 1) % 2 * 2 + (x - 1) % 2] for x in range(width + 2)] for y in range(height + 2)])
    tent = {"g": [[0, 1, 0], [1, 4, 1], [0, 1, 0]], "r": [[1, 2, 1], [2, 4, 2], [1, 2, 1]], "b": [[1, 2, 1], [2, 4, 2], [1, 2, 1]]}
    planes = []
    for name in "rgb":
        known = np.where(site == name, padded, 0)
        weights = np.array(tent[name]) / 4
        planes.append(sum(weights[i, j] * known[i:i + height, j:j + width] for i in range(3) for j in range(3)))
    return frame, np.stack(planes, -1) * 255 / ((1 << bits) - 1)


def from_video(luma, cb, cr, matrix, full, bits):
    """Red, green, blue in f64."""
    kr, kb = WEIGHTS[matrix]
    step = 1 << (bits - 8)
    y, cb, cr = luma.astype(float), cb.astype(float) - 128 * step, cr.astype(float) - 128 * step
    if full:
        y, cb, cr = (x * 255 / ((1 << bits) - 1) for x in (y, cb, cr))
    else:
        y, cb, cr = (y - 16 * step) * 255 / (219 * step), cb * 255 / (224 * step), cr * 255 / (224 * step)
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
         matrix="bt601", full=False, mean=(0,), std=(1,), nhwc=False, as_bytes=False):
    """`size` and `target` are (height, width)."""
    height, width = size
    names = "RGB"
    if source in VIDEO:
        frame, luma, cb, cr = video(source, height, width)
        pixels = from_video(luma, cb, cr, matrix, full, 10 if source == "p010" else 8)
    elif source[:4] in MOSAICS:
        frame, pixels = mosaic(source, height, width)
    else:
        names = ORDER[source]
        pixels = smooth(height, width, len(names))
        frame = pixels.reshape(height, -1)
        pixels = pixels.astype(float)
    options = [f"{source}:{width}x{height}", kind, order, fit]
    if stride:
        if source == "i420":  # Rows of chroma have half the stride, two in one of luma.
            halves = np.pad(frame[height:].reshape(height, width // 2), [(0, 0), (0, (stride - width) // 2)], constant_values=99)
            luma = np.pad(frame[:height], [(0, 0), (0, stride - width)], constant_values=99)
            frame = np.concatenate([luma, halves.reshape(height // 2, stride)])
        else:
            frame = np.pad(frame, [(0, 0), (0, stride - frame.shape[1])], constant_values=99)
        options.append(f"stride={stride}")
    options += [matrix] * (source in VIDEO) + ["full"] * full + ["nhwc" if nhwc else "nchw"]
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
    for source in VIDEO:
        for matrix in WEIGHTS:
            for full in (False, True):
                case(out, f"{source}_{matrix}_{full}", source, (36, 52), (36, 52), matrix=matrix, full=full)
    for source in [*VIDEO[1:], *MOSAICS, "rggb10", "gbrg12"]:
        # Strides that are no multiple of anything, where the format allows it.
        row = 54 * (2 if source in ("yuyv", "uyvy", "p010") or len(source) == 6 else 1)
        odd = row + (14 if source == "i420" else 13)
        case(out, f"{source}_down", source, (38, 54), (13, 17), order="bgr", stride=odd)
        case(out, f"{source}_up", source, (22, 18), (47, 61), "antialias")
        case(out, f"{source}_crop", source, (40, 54), (31, 37), "nearest", crop=(31, 37, 5, 9))
        case(out, f"{source}_letterbox", source, (90, 160), (63, 65), "antialias", fit="letterbox", pad=114, **imagenet)
    for source in (*MOSAICS, "bggr12"):
        case(out, f"{source}_gray", source, (2, 4), (5, 7), order="gray")
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
