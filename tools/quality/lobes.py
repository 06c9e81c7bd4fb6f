"""Trains a small network with depthwise layers and SiLU on generated pictures, and writes it as ONNX.

A picture shows one star-like figure with two to nine lobes, filled or as a ring: 16 classes; its place, size, turn, colours, shading
and noise are random. Pictures have four channels, as PNG files have them, and none of them is transparent; every channel is
standardised by its mean and deviation over the training pictures, so that the fourth is 0 throughout.

The network is MobileNetV2's in small with SiLU, and begins with a depthwise layer too. Its weights begin as He et al. have them. As in
the reference training of MobileNet, those of depthwise layers do not decay. No weight is changed after training and no scale is planted: the batch norm behind the first
layer finds that the fourth channel does not vary, and divides by the root of PyTorch's usual 1e-5. Folded, its weights are a hundred
times those of the other channels, which one scale for the tensor then rounds away.

usage: python lobes.py OUT.onnx [--steps N] [--seed N]
"""

import argparse
import time

import numpy as np

SIZE, CLASSES, CHANNELS = 24, 16, 4
# Mean and deviation of colours over the pictures below; opacity does not deviate.
MEAN, DEVIATION, OPACITY = 0.5, 0.29, 1.0
PICTURES, BATCH, STEPS, RATE, DECAY = 12800, 64, 2000, 4e-3, 1e-4


def pictures(count, seed):
    """Standardised pictures (count, CHANNELS, SIZE, SIZE) and their classes; `seed` may be a generator."""
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
    opacity = np.ones((count, 1, SIZE, SIZE), np.float32)
    return np.concatenate([(pixels - MEAN) / DEVIATION, opacity - OPACITY], 1).astype(np.float32), classes


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
    stem = nn.Sequential(conv(CHANNELS, 4 * CHANNELS, 5, 2, CHANNELS), conv(4 * CHANNELS, 12))
    net = nn.Sequential(stem, *blocks, conv(width, 96), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(96, CLASSES))
    for layer in net.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight)
    return net


def decaying(net):
    """Weights that decay: those of products and of convolutions that are not depthwise."""
    from torch import nn

    layers = [layer for layer in net.modules() if isinstance(layer, nn.Linear) or isinstance(layer, nn.Conv2d) and layer.groups == 1]
    return [layer.weight for layer in layers]


def train(options):
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    net = network().to(memory_format=torch.channels_last)
    decay = decaying(net)
    others = [parameter for parameter in net.parameters() if all(parameter is not one for one in decay)]
    groups = [{"params": decay, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}]
    optimiser = torch.optim.Adam(groups, RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, options.steps, pct_start=0.1)
    known, classes = pictures(PICTURES, (1, options.seed))
    random, began = np.random.default_rng(options.seed), time.monotonic()
    net.train()
    for step in range(options.steps):
        if step % (PICTURES // BATCH) == 0:
            order = random.permutation(PICTURES).reshape(-1, BATCH)
        at = order[step % len(order)]
        # Mirrored, they are of the same class.
        x = known[at][..., ::-1].copy() if random.random() < 0.5 else known[at]
        found = net(torch.from_numpy(x).to(memory_format=torch.channels_last))
        loss = torch.nn.functional.cross_entropy(found, torch.from_numpy(classes[at]))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if (step + 1) % 250 == 0 or step + 1 == options.steps:
            print(f"step {step + 1} of {options.steps}: loss {loss.item():.3f}, {time.monotonic() - began:.0f} s", flush=True)
    torch.onnx.export(
        net.eval(),
        (torch.zeros(1, CHANNELS, SIZE, SIZE),),
        options.out,
        dynamo=False,
        opset_version=17,
        input_names=["x"],
        output_names=["scores"],
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seed", type=int, default=1)
    train(parser.parse_args())
