"""A one-stage detector of boxes with the layers and widths of YOLOv8's smallest model, anchors and decoding included
(architecture: https://github.com/ultralytics/ultralytics, cfg/models/v8/yolov8.yaml; this code is its own)."""

import torch
from torch import nn

WIDTHS = (16, 32, 64, 128, 256)
CLASSES, BINS = 80, 16


def conv(inputs, outputs, size=1, stride=1):
    layer = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs, eps=1e-3), nn.SiLU())


class Bottleneck(nn.Module):
    def __init__(self, width, shortcut):
        super().__init__()
        self.layers = nn.Sequential(conv(width, width, 3), conv(width, width, 3))
        self.shortcut = shortcut

    def forward(self, x):
        return x + self.layers(x) if self.shortcut else self.layers(x)


class Stage(nn.Module):
    """A cross-stage block: half of the channels go through bottlenecks, all that was made is concatenated."""

    def __init__(self, inputs, outputs, depth, shortcut):
        super().__init__()
        half = outputs // 2
        self.first, self.last = conv(inputs, outputs), conv((2 + depth) * half, outputs)
        self.blocks = nn.ModuleList(Bottleneck(half, shortcut) for _ in range(depth))

    def forward(self, x):
        parts = list(self.first(x).chunk(2, 1))
        for block in self.blocks:
            parts.append(block(parts[-1]))
        return self.last(torch.cat(parts, 1))


class Pyramid(nn.Module):
    """Pools of growing reach, concatenated."""

    def __init__(self, width):
        super().__init__()
        self.first, self.last = conv(width, width // 2), conv(2 * width, width)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x):
        parts = [self.first(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.last(torch.cat(parts, 1))


class Detector(nn.Module):
    """Images (batch, 3, size, size) to (batch, 4 + CLASSES, places): centre, width and height in pixels, probabilities."""

    def __init__(self, size):
        super().__init__()
        a, b, c, d, e = WIDTHS
        self.backbone = nn.ModuleList(
            [
                nn.Sequential(conv(3, a, 3, 2), conv(a, b, 3, 2), Stage(b, b, 1, True), conv(b, c, 3, 2), Stage(c, c, 2, True)),
                nn.Sequential(conv(c, d, 3, 2), Stage(d, d, 2, True)),
                nn.Sequential(conv(d, e, 3, 2), Stage(e, e, 1, True), Pyramid(e)),
            ]
        )
        self.up = nn.Upsample(scale_factor=2)
        self.down = nn.ModuleList([Stage(d + e, d, 1, False), Stage(c + d, c, 1, False)])
        self.shrink = nn.ModuleList([conv(c, c, 3, 2), conv(d, d, 3, 2)])
        self.rise = nn.ModuleList([Stage(c + d, d, 1, False), Stage(d + e, e, 1, False)])
        head = lambda width, inner, outputs: nn.Sequential(
            conv(width, inner, 3), conv(inner, inner, 3), nn.Conv2d(inner, outputs, 1)
        )
        self.boxes = nn.ModuleList(head(width, 4 * BINS, 4 * BINS) for width in (c, d, e))
        self.classes = nn.ModuleList(head(width, CLASSES, CLASSES) for width in (c, d, e))
        places, strides = [], []
        for stride in (8, 16, 32):
            line = torch.arange(size // stride) + 0.5
            y, x = torch.meshgrid(line, line, indexing="ij")
            places.append(torch.stack([x.flatten(), y.flatten()]))
            strides.append(torch.full((x.numel(),), float(stride)))
        self.register_buffer("places", torch.cat(places, 1)[None])
        self.register_buffer("strides", torch.cat(strides))
        self.register_buffer("bins", torch.arange(BINS, dtype=torch.float32).view(1, BINS, 1, 1))

    def forward(self, x):
        features = []
        for part in self.backbone:
            x = part(x)
            features.append(x)
        low, middle, high = features
        middle = self.down[0](torch.cat([self.up(high), middle], 1))
        low = self.down[1](torch.cat([self.up(middle), low], 1))
        middle = self.rise[0](torch.cat([self.shrink[0](low), middle], 1))
        high = self.rise[1](torch.cat([self.shrink[1](middle), high], 1))
        levels = list(zip(self.boxes, self.classes, (low, middle, high)))
        boxes = torch.cat([boxes(level).flatten(2) for boxes, _, level in levels], 2)
        classes = torch.cat([classes(level).flatten(2) for _, classes, level in levels], 2)
        # The distance to each side is the mean of a distribution over bins.
        distances = boxes.unflatten(1, (4, BINS)).transpose(1, 2).softmax(1).mul(self.bins).sum(1)
        near, far = self.places - distances[:, :2], self.places + distances[:, 2:]
        return torch.cat([torch.cat([(near + far) / 2, far - near], 1) * self.strides, classes.sigmoid()], 1)
