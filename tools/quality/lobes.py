"""Trains a small network with depthwise layers and SiLU on generated pictures, and writes it as ONNX.

A picture shows one star-like figure with two to nine lobes, filled or as a ring: 16 classes; its place, size, turn, colours, shading
and noise are random. The network is MobileNetV2's in small with SiLU; it is trained as TensorFlow's reference training of MobileNet
does it: SGD with momentum, weight decay on all but depthwise layers. No weight is changed after training and no scale is planted.

usage: python lobes.py OUT.onnx [--steps N] [--seed N]
"""

import argparse
import time

import numpy as np

SIZE, CLASSES = 24, 16
PICTURES = 12800


def pictures(count, seed):
    """Pictures (count, 3, SIZE, SIZE) in -1..1 and their classes; `seed` may be a generator."""
    random = np.random.default_rng(seed)
    classes = random.integers(CLASSES, size=count)
    uniform = lambda low, high, *shape: random.uniform(low, high, (count, *shape)).astype(np.float32)
    line = np.arange(SIZE, dtype=np.float32) - (SIZE - 1) / 2
    x = line[None, None, :] - uniform(-2.5, 2.5, 1, 1)
    y = line[None, :, None] - uniform(-2.5, 2.5, 1, 1)
    angle, radius = np.arctan2(y, x), np.hypot(x, y)
    lobes = (2 + classes % 8).astype(np.float32)[:, None, None]
    edge = uniform(6, 8.5, 1, 1) * (1 + uniform(0.2, 0.35, 1, 1) * np.cos(lobes * (angle - uniform(0, 2 * np.pi, 1, 1))))
    # A pixel's share inside of the figure.
    inside = np.clip(edge - radius + 0.5, 0, 1)
    hole = np.clip(0.55 * edge - radius + 0.5, 0, 1)
    figure = np.where((classes < 8)[:, None, None], inside, inside - hole)[:, None]
    ground, colour = uniform(0, 1, 3, 1, 1), uniform(0, 1, 3, 1, 1)
    # Colours that hardly differ hide the figure.
    near = np.abs(ground - colour).max(1, keepdims=True) < 0.3
    colour = np.where(near, (ground + 0.5) % 1, colour)
    shade = uniform(-0.01, 0.01, 1, 1, 1) * x[:, None] + uniform(-0.01, 0.01, 1, 1, 1) * y[:, None]
    noise = uniform(0, 0.1, 1, 1, 1) * random.standard_normal((count, 3, SIZE, SIZE), np.float32)
    pixels = np.clip(ground * (1 - figure) + colour * figure + shade + noise, 0, 1)
    return (2 * pixels - 1).astype(np.float32), classes


def network():
    from torch import nn

    def conv(inputs, outputs, size=1, stride=1, groups=1, act=True):
        layers = [nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False), nn.BatchNorm2d(outputs)]
        return nn.Sequential(*layers, *([nn.SiLU()] if act else []))

    class Block(nn.Module):
        def __init__(self, inputs, outputs, stride, expansion):
            super().__init__()
            inner = expansion * inputs
            first = [conv(inputs, inner)] if expansion > 1 else []
            self.layers = nn.Sequential(*first, conv(inner, inner, 3, stride, inner), conv(inner, outputs, act=False))
            self.shortcut = stride == 1 and inputs == outputs

        def forward(self, x):
            return x + self.layers(x) if self.shortcut else self.layers(x)

    # Outputs, stride, expansion.
    plan = [(12, 1, 1), (16, 2, 3), (16, 1, 4), (24, 2, 4), (24, 1, 4), (24, 1, 4), (32, 1, 4)]
    blocks, width = [], 12
    for outputs, stride, expansion in plan:
        blocks.append(Block(width, outputs, stride, expansion))
        width = outputs
    return nn.Sequential(conv(3, 12, 3, 2), *blocks, conv(width, 96), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(96, CLASSES))


def train(options):
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    net = network().to(memory_format=torch.channels_last)
    free = [p for m in net.modules() if isinstance(m, torch.nn.Conv2d) and m.groups > 1 for p in m.parameters()]
    if options.free_norm:
        mods = list(net.modules())
        for a, b in zip(mods, mods[1:]):
            if isinstance(a, torch.nn.Conv2d) and a.groups > 1:
                free += list(b.parameters())
    ids = {id(p) for p in free}
    decayed = [p for p in net.parameters() if id(p) not in ids]
    groups = [{"params": decayed, "weight_decay": options.decay}, {"params": free, "weight_decay": 0.0}]
    opt = torch.optim.Adam(groups, lr=options.rate) if options.adam else torch.optim.SGD(groups, lr=options.rate, momentum=0.9)
    schedule = torch.optim.lr_scheduler.OneCycleLR(opt, options.rate, options.steps, pct_start=0.1)
    began = time.monotonic()
    net.train()
    known, classes = pictures(PICTURES, (1, options.seed))
    known, random = known + 0, np.random.default_rng(options.seed)
    for step in range(options.steps):
        if step % (PICTURES // options.batch) == 0:
            order = random.permutation(PICTURES).reshape(-1, options.batch)
        at = order[step % len(order)]
        x, y = known[at], classes[at]
        if random.random() < 0.5:
            x = x[..., ::-1].copy()
        loss = torch.nn.functional.cross_entropy(net(torch.from_numpy(x).to(memory_format=torch.channels_last)), torch.from_numpy(y))
        opt.zero_grad()
        loss.backward()
        opt.step()
        schedule.step()
        if step % 1000 == 999 and options.keep:
            net.eval(); export(net, f"{options.out}.{step+1}.onnx"); net.train()
        if step % 200 == 199 or step + 1 == options.steps:
            print(f"step {step + 1}: loss {loss.item():.3f}, {time.monotonic() - began:.0f} s", flush=True)
    net.eval()
    x, y = pictures(2000, 7)
    with torch.no_grad():
        right = (net(torch.from_numpy(x)).argmax(1).numpy() == y).mean()
    print(f"accuracy {right:.4f}")
    export(net, options.out)


def export(net, path):
    import torch

    torch.onnx.export(net, (torch.zeros(1, 3, SIZE, SIZE),), path, dynamo=False, opset_version=17, input_names=["x"], output_names=["scores"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--decay", type=float, default=1e-3)
    parser.add_argument("--adam", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--free-norm", action="store_true")
    train(parser.parse_args())
