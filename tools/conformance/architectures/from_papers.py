"""Networks that no package of PyPI has, or only with much else: small, written here as their authors export them."""

import math

import torch
from torch import nn
from torch.nn import functional as F

NETWORKS = {}


def network(*shapes, low=None):
    """Registers a network that takes inputs of such shapes: normal ones, or between 0 and 1."""

    def register(kind):
        draw = torch.rand if low == 0 else torch.randn
        NETWORKS[kind.__name__] = lambda: (kind(), tuple(draw(shape) for shape in shapes))
        return kind

    return register


def conv(cin, cout, kernel=3, stride=1, act=nn.ReLU, groups=1):
    layers = [nn.Conv2d(cin, cout, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(cout)]
    return nn.Sequential(*layers, *([act()] if act else []))


# Segmentation


@network((1, 3, 72, 88))
class UNet(nn.Module):
    """Skips are padded to the size of what they join, as in the widespread implementation for PyTorch."""

    def __init__(self, bilinear=False):
        super().__init__()
        double = lambda a, b: nn.Sequential(conv(a, b), conv(b, b))
        self.first, self.last = double(3, 8), nn.Conv2d(8, 2, 1)
        self.down = nn.ModuleList(nn.Sequential(nn.MaxPool2d(2), double(8 << i, 16 << i)) for i in range(4))
        widths = [128, 64, 32, 16]
        up = lambda w: nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True) if bilinear else nn.ConvTranspose2d(w, w // 2, 2, 2)
        self.up = nn.ModuleList(up(w) for w in widths)
        self.join = nn.ModuleList(double((w if bilinear else w // 2) + w // 2, w // 2) for w in widths)

    def forward(self, x):
        kept = [self.first(x)]
        for down in self.down:
            kept.append(down(kept[-1]))
        x = kept.pop()
        for up, join in zip(self.up, self.join):
            x, skip = up(x), kept.pop()
            dy, dx = skip.size(2) - x.size(2), skip.size(3) - x.size(3)
            x = F.pad(x, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
            x = join(torch.cat([skip, x], 1))
        return self.last(x)


@network((1, 3, 72, 88))
class UNetBilinear(UNet):
    def __init__(self):
        super().__init__(bilinear=True)


@network((1, 3, 96, 128))
class BiSeNetV2(nn.Module):
    """Detail and semantic branches, gather-and-expansion, bilateral guided aggregation, class of each pixel."""

    def __init__(self):
        super().__init__()
        self.detail = nn.Sequential(conv(3, 16, stride=2), conv(16, 16), conv(16, 16, stride=2), conv(16, 16), conv(16, 32, stride=2), conv(32, 32))
        self.stem = conv(3, 16, stride=4)
        self.left = nn.Sequential(conv(16, 8, 1), conv(8, 16, stride=2))
        self.right = nn.MaxPool2d(3, 2, 1)
        self.fuse = conv(32, 16)
        self.expand = nn.Sequential(conv(16, 96), conv(96, 96, stride=2, groups=96, act=None), conv(96, 96, groups=96, act=None), conv(96, 32, 1, act=None))
        self.skip = nn.Sequential(conv(16, 16, stride=2, groups=16, act=None), conv(16, 32, 1, act=None))
        self.deeper = nn.Sequential(conv(32, 32, stride=2), conv(32, 32))
        self.context, self.mix = nn.Sequential(nn.BatchNorm2d(32), conv(32, 32, 1)), nn.Conv2d(32, 32, 3, padding=1)
        self.keep, self.shrink = conv(32, 32, groups=32, act=None), nn.Sequential(conv(32, 32, stride=2, act=None), nn.AvgPool2d(3, 2, 1))
        self.gate, self.small = conv(32, 32, act=None), conv(32, 32, groups=32, act=None)
        self.out = nn.Sequential(conv(32, 32), nn.Conv2d(32, 8 * 4, 1), nn.PixelShuffle(2))

    def forward(self, x):
        size = x.shape[2:]
        detail = self.detail(x)
        low = self.stem(x)
        low = self.fuse(torch.cat([self.left(low), self.right(low)], 1))
        low = self.deeper(F.relu(self.expand(low) + self.skip(low)))
        low = self.mix(low + self.context(low.mean((2, 3), keepdim=True)))
        fine = self.keep(detail) * torch.sigmoid(F.interpolate(self.gate(low), size=detail.shape[2:], mode="bilinear", align_corners=False))
        coarse = self.shrink(detail) * torch.sigmoid(self.small(low))
        both = fine + F.interpolate(coarse, size=fine.shape[2:], mode="bilinear", align_corners=False)
        scores = F.interpolate(self.out(both), size=size, mode="bilinear", align_corners=True)
        return scores, scores.argmax(1)


# Restoration


@network((1, 1, 24, 32))
class ESPCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 64, 5, padding=2), nn.Tanh(), nn.Conv2d(64, 32, 3, padding=1), nn.Tanh(), nn.Conv2d(32, 9, 3, padding=1), nn.PixelShuffle(3))

    def forward(self, x):
        return self.body(x).clamp(0, 1)


@network((1, 3, 24, 32), low=0)
class SRVGGNetCompact(nn.Module):
    """Real-ESRGAN's small network: PReLU by channel, pixel shuffle, the enlarged picture added."""

    def __init__(self):
        super().__init__()
        layers = [nn.Conv2d(3, 32, 3, padding=1), nn.PReLU(32)]
        for _ in range(4):
            layers += [nn.Conv2d(32, 32, 3, padding=1), nn.PReLU(32)]
        self.body, self.up = nn.Sequential(*layers, nn.Conv2d(32, 48, 3, padding=1)), nn.PixelShuffle(4)

    def forward(self, x):
        return self.up(self.body(x)) + F.interpolate(x, scale_factor=4, mode="nearest")


@network((1, 3, 24, 32), low=0)
class RRDBNet(nn.Module):
    """Real-ESRGAN of scale 2: pixels unshuffled, residual dense blocks, nearest enlargement."""

    class Dense(nn.Module):
        def __init__(self, width=16, growth=8):
            super().__init__()
            self.layers = nn.ModuleList(nn.Conv2d(width + i * growth, growth if i < 4 else width, 3, padding=1) for i in range(5))

        def forward(self, x):
            made = [x]
            for number, layer in enumerate(self.layers):
                y = layer(torch.cat(made, 1))
                made.append(F.leaky_relu(y, 0.2) if number < 4 else y)
            return made[-1] * 0.2 + x

    def __init__(self):
        super().__init__()
        self.first, self.blocks, self.body = nn.Conv2d(12, 16, 3, padding=1), nn.Sequential(self.Dense(), self.Dense()), nn.Conv2d(16, 16, 3, padding=1)
        self.up1, self.up2, self.hr, self.last = (nn.Conv2d(16, c, 3, padding=1) for c in (16, 16, 16, 3))

    def forward(self, x):
        x = self.first(F.pixel_unshuffle(x, 2))
        x = x + self.body(self.blocks(x) * 0.2)
        for layer in (self.up1, self.up2):
            x = F.leaky_relu(layer(F.interpolate(x, scale_factor=2, mode="nearest")), 0.2)
        return self.last(F.leaky_relu(self.hr(x), 0.2))


@network((1, 3, 30, 42), low=0)
class NAFNet(nn.Module):
    """Simple gates, channel attention, layer normalisation over channels of images, padding to a multiple of 4."""

    class Block(nn.Module):
        def __init__(self, c):
            super().__init__()
            self.one, self.deep, self.two = nn.Conv2d(c, 2 * c, 1), nn.Conv2d(2 * c, 2 * c, 3, padding=1, groups=2 * c), nn.Conv2d(c, c, 1)
            self.sca, self.up, self.down = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, c, 1)), nn.Conv2d(c, 2 * c, 1), nn.Conv2d(c, c, 1)
            self.weight, self.bias = nn.ParameterList(torch.ones(c) for _ in range(2)), nn.ParameterList(torch.zeros(c) for _ in range(2))
            self.beta, self.gamma = nn.Parameter(torch.zeros(1, c, 1, 1)), nn.Parameter(torch.zeros(1, c, 1, 1))

        def norm(self, x, i):
            mean = x.mean(1, keepdim=True)
            variance = (x - mean).pow(2).mean(1, keepdim=True)
            return self.weight[i].view(1, -1, 1, 1) * ((x - mean) / (variance + 1e-6).sqrt()) + self.bias[i].view(1, -1, 1, 1)

        def forward(self, x):
            a, b = self.deep(self.one(self.norm(x, 0))).chunk(2, 1)
            y = a * b
            x = x + self.two(y * self.sca(y)) * self.beta
            a, b = self.up(self.norm(x, 1)).chunk(2, 1)
            return x + self.down(a * b) * self.gamma

    def __init__(self):
        super().__init__()
        self.intro, self.ending = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 3, 3, padding=1)
        self.encode, self.middle, self.decode = self.Block(16), self.Block(32), self.Block(16)
        self.down, self.up = nn.Conv2d(16, 32, 2, 2), nn.Sequential(nn.Conv2d(32, 64, 1, bias=False), nn.PixelShuffle(2))

    def forward(self, x):
        height, width = x.shape[2:]
        x = F.pad(x, (0, (4 - width % 4) % 4, 0, (4 - height % 4) % 4))
        y = self.encode(self.intro(x))
        y = self.decode(self.up(self.middle(self.down(y))) + y)
        return (self.ending(y) + x)[:, :, :height, :width]


@network((1, 3, 64, 64), low=0)
class ZeroDCE(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in ((3, 16), (16, 16), (32, 16), (32, 24)))

    def forward(self, x):
        a = F.relu(self.layers[0](x))
        b = F.relu(self.layers[1](a))
        c = F.relu(self.layers[2](torch.cat([a, b], 1)))
        curves = torch.tanh(self.layers[3](torch.cat([a, c], 1)))
        for curve in torch.split(curves, 3, 1):
            x = x + curve * (x**2 - x)
        return x


# Geometry, points and poses


@network((1, 1, 96, 128), low=0)
class SuperPoint(nn.Module):
    """Scores of keypoints with maxima by pooling, and descriptors sampled on a grid of the best."""

    def __init__(self, points=32):
        super().__init__()
        block = lambda a, b: nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.ReLU(), nn.Conv2d(b, b, 3, padding=1), nn.ReLU())
        self.body = nn.Sequential(block(1, 16), nn.MaxPool2d(2), block(16, 16), nn.MaxPool2d(2), block(16, 32), nn.MaxPool2d(2), block(32, 32))
        self.score, self.describe, self.points = nn.Conv2d(32, 65, 1), nn.Conv2d(32, 64, 1), points

    def forward(self, x):
        x = self.body(x)
        scores = F.softmax(self.score(x) * 4, 1)[:, :-1]
        b, _, h, w = scores.shape
        scores = scores.permute(0, 2, 3, 1).reshape(b, h, w, 8, 8).permute(0, 1, 3, 2, 4).reshape(b, h * 8, w * 8)
        highest = lambda s: F.max_pool2d(s[:, None], 9, 1, 4)[:, 0]
        most = scores == highest(scores)
        for _ in range(2):
            near = highest(most.float()) > 0
            rest = torch.where(near, torch.zeros_like(scores), scores)
            most = most | ((rest == highest(rest)) & ~near)
        scores = torch.where(most, scores, torch.zeros_like(scores))
        best, flat = scores.flatten(1).topk(self.points, dim=1)
        places = torch.stack([flat % (w * 8), torch.div(flat, w * 8, rounding_mode="floor")], -1)
        field = F.normalize(self.describe(x), p=2, dim=1)
        grid = (places.float() - 3.5) / torch.tensor([w * 8 - 4.5, h * 8 - 4.5]) * 2 - 1
        sampled = F.grid_sample(field, grid[:, None], mode="bilinear", align_corners=True)
        return places, best, F.normalize(sampled.flatten(2), p=2, dim=1).transpose(1, 2)


@network((1, 24, 2), (1, 20, 2), (1, 24, 64), (1, 20, 64))
class LightGlue(nn.Module):
    """Self and cross attention with rotary positions, and the assignment of points to each other."""

    def __init__(self, width=64, heads=4, layers=2):
        super().__init__()
        self.heads, self.rotary = heads, nn.Linear(2, width // heads // 2, bias=False)
        linears = lambda out: nn.ModuleList(nn.Linear(width, out) for _ in range(layers))
        self.qkv, self.self_out, self.qk, self.v, self.cross_out = linears(3 * width), linears(width), linears(width), linears(width), linears(width)
        feed = lambda: nn.Sequential(nn.Linear(2 * width, 2 * width), nn.LayerNorm(2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.self_feed, self.cross_feed = nn.ModuleList(feed() for _ in range(layers)), nn.ModuleList(feed() for _ in range(layers))
        self.match, self.project = nn.Linear(width, 1), nn.Linear(width, width)

    def rotations(self, points):
        turned = self.rotary(points)
        return torch.stack([turned.cos(), turned.sin()], 0).unsqueeze(-3).repeat_interleave(2, dim=-1)

    def self_block(self, i, x, turn):
        pairs = lambda t: t.reshape(*t.shape[:-1], -1, 2)
        half = lambda t: torch.stack((-pairs(t)[..., 1], pairs(t)[..., 0]), -1).flatten(-2)
        q, k, v = self.qkv[i](x).reshape(*x.shape[:2], self.heads, -1, 3).transpose(1, 2).unbind(-1)
        q, k = q * turn[0] + half(q) * turn[1], k * turn[0] + half(k) * turn[1]
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2)
        return x + self.self_feed[i](torch.cat([x, self.self_out[i](y)], -1))

    def cross_block(self, i, a, b):
        heads = lambda t: t.reshape(*t.shape[:2], self.heads, -1).transpose(1, 2)
        qa, qb, va, vb = heads(self.qk[i](a)), heads(self.qk[i](b)), heads(self.v[i](a)), heads(self.v[i](b))
        similar = torch.einsum("bhid,bhjd->bhij", qa, qb) * qa.shape[-1] ** -0.5
        ya = torch.einsum("bhij,bhjd->bhid", F.softmax(similar, -1), vb)
        yb = torch.einsum("bhji,bhjd->bhid", F.softmax(similar.transpose(-2, -1), -1).transpose(-2, -1), va)
        join = lambda t: self.cross_out[i](t.transpose(1, 2).flatten(-2))
        return a + self.cross_feed[i](torch.cat([a, join(ya)], -1)), b + self.cross_feed[i](torch.cat([b, join(yb)], -1))

    def forward(self, points_a, points_b, a, b):
        turns = self.rotations(points_a), self.rotations(points_b)
        for i in range(len(self.qkv)):
            a, b = self.cross_block(i, self.self_block(i, a, turns[0]), self.self_block(i, b, turns[1]))
        ma, mb = self.project(a) / 64**0.25, self.project(b) / 64**0.25
        similar = torch.einsum("bmd,bnd->bmn", ma, mb)
        za, zb = self.match(a), self.match(b)
        certain = F.logsigmoid(za) + F.logsigmoid(zb).transpose(1, 2)
        scores = F.log_softmax(similar, 2) + F.log_softmax(similar.transpose(-1, -2), 2).transpose(-1, -2) + certain
        best_a, best_b = scores.max(2), scores.max(1)
        places = torch.arange(best_a.indices.shape[1])[None]
        mutual = places == best_b.indices.gather(1, best_a.indices)
        score = torch.where(mutual, best_a.values.exp(), torch.zeros_like(best_a.values))
        return scores, torch.where(mutual & (score > 0.0), best_a.indices, -1), score


@network((1, 3, 64, 48))
class SimCC(nn.Module):
    """RTMPose's head: a gated attention unit with scaled normalisation, positions as classes of coordinates."""

    def __init__(self, joints=17, width=32, wide=64, s=16):
        super().__init__()
        self.body = nn.Sequential(conv(3, 16, stride=2), conv(16, 32, stride=2), nn.Conv2d(32, joints, 7, padding=3))
        self.scale, self.mlp = nn.Parameter(torch.ones(1)), nn.Linear(192, width, bias=False)
        self.uv, self.out, self.s, self.wide = nn.Linear(width, 2 * wide + s, bias=False), nn.Linear(wide, width, bias=False), s, wide
        self.gamma, self.beta = nn.Parameter(torch.rand(2, s)), nn.Parameter(torch.rand(2, s))
        self.x, self.y = nn.Linear(width, 96, bias=False), nn.Linear(width, 128, bias=False)

    def forward(self, image):
        x = torch.flatten(self.body(image), 2)
        norm = torch.linalg.norm(x, dim=-1, keepdim=True) * x.shape[-1] ** -0.5
        x = self.mlp(x / norm.clamp(min=1e-5) * self.scale)
        u, v, base = torch.split(F.silu(self.uv(x)), [self.wide, self.wide, self.s], 2)
        q, k = torch.unbind(base.unsqueeze(2) * self.gamma[None, None] + self.beta, 2)
        kernel = torch.square(F.relu(torch.bmm(q, k.permute(0, 2, 1)) / self.s**0.5))
        x = x + self.out(u * torch.bmm(kernel, v))
        x, y = self.x(x), self.y(x)
        return x, y, torch.stack([x.argmax(2), y.argmax(2)], 2)


@network((1, 3, 64, 64))
class HourglassHeatmap(nn.Module):
    """Heat maps, their soft argmax and the hard one as coordinates."""

    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([conv(3, 16, stride=2), conv(16, 32, stride=2), conv(32, 32, stride=2)])
        self.up, self.out = nn.ModuleList([conv(32, 32), conv(32, 16)]), nn.Conv2d(16, 5, 1)

    def forward(self, x):
        kept = []
        for down in self.down:
            x = down(x)
            kept.append(x)
        for up, skip in zip(self.up, kept[-2::-1]):
            x = up(F.interpolate(x, scale_factor=2) + skip)  if x.shape[1] == skip.shape[1] else up(F.interpolate(x, scale_factor=2))
        heat = self.out(x)
        b, k, h, w = heat.shape
        p = F.softmax(heat.view(b, k, -1), -1).view(b, k, h, w)
        xs, ys = torch.linspace(-1, 1, w), torch.linspace(-1, 1, h)
        soft = torch.stack([(p.sum(2) * xs).sum(-1), (p.sum(3) * ys).sum(-1)], -1)
        best, at = heat.view(b, k, -1).max(-1)
        return soft, torch.stack([at % w, at // w], -1), best


@network((1, 32, 16, 20), (1, 32, 16, 20))
class RAFTUpdate(nn.Module):
    """All-pairs correlation in a pyramid, looked up around the flow twice; convex upsampling by unfolding."""

    def __init__(self, radius=2):
        super().__init__()
        self.radius = radius
        self.encode, self.update, self.mask = nn.Conv2d(2 * (2 * radius + 1) ** 2 + 2, 32, 3, padding=1), nn.Conv2d(32, 2, 3, padding=1), nn.Conv2d(32, 9 * 16, 1)

    def forward(self, a, b):
        n, c, h, w = a.shape
        volume = torch.matmul(a.flatten(2).transpose(1, 2), b.flatten(2)).view(n * h * w, 1, h, w) / math.sqrt(c)
        pyramid = [volume, F.avg_pool2d(volume, 2, 2)]
        ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        start = torch.stack([xs, ys], 0).float()[None].repeat(n, 1, 1, 1)
        at = start
        d = torch.linspace(-self.radius, self.radius, 2 * self.radius + 1)
        around = torch.stack(torch.meshgrid(d, d, indexing="ij"), -1).view(1, 2 * self.radius + 1, 2 * self.radius + 1, 2)
        for _ in range(2):
            seen = []
            for level, part in enumerate(pyramid):
                centre = at.permute(0, 2, 3, 1).reshape(n * h * w, 1, 1, 2) / 2**level
                x, y = (centre + around).split([1, 1], -1)
                height, width = part.shape[-2:]
                grid = torch.cat([2 * x / (width - 1) - 1, 2 * y / (height - 1) - 1], -1)
                seen.append(F.grid_sample(part, grid, align_corners=True).view(n, h, w, -1))
            hidden = F.relu(self.encode(torch.cat([torch.cat(seen, -1).permute(0, 3, 1, 2), at - start], 1)))
            at = at + self.update(hidden)
        mask = torch.softmax(self.mask(hidden).view(n, 1, 9, 4, 4, h, w), 2)
        up = F.unfold(4 * (at - start), [3, 3], padding=1).view(n, 2, 9, 1, 1, h, w)
        return torch.sum(mask * up, 2).permute(0, 1, 4, 2, 5, 3).reshape(n, 2, 4 * h, 4 * w)


@network((1, 16, 12, 20), (1, 16, 12, 20))
class StereoVolume(nn.Module):
    """PSMNet's cost volume: slices assigned for each disparity, convolutions in three dimensions, soft argmin."""

    def __init__(self, most=8):
        super().__init__()
        self.most = most
        self.body = nn.Sequential(nn.Conv3d(32, 16, 3, padding=1), nn.ReLU(), nn.ConvTranspose3d(16, 8, 3, 2, 1, 1), nn.ReLU(), nn.Conv3d(8, 1, 3, padding=1))

    def forward(self, left, right):
        n, c, h, w = left.shape
        cost = left.new_zeros(n, 2 * c, self.most, h, w)
        for d in range(self.most):
            if d > 0:
                cost[:, :c, d, :, d:] = left[:, :, :, d:]
                cost[:, c:, d, :, d:] = right[:, :, :, :-d]
            else:
                cost[:, :c, d], cost[:, c:, d] = left, right
        cost = F.interpolate(self.body(cost), [2 * self.most, 2 * h, 2 * w], mode="trilinear", align_corners=False).squeeze(1)
        return (F.softmax(cost, 1) * torch.arange(2 * self.most).view(1, -1, 1, 1)).sum(1)


@network((1, 3, 64, 96))
class MiDaS(nn.Module):
    """Fusion blocks of a refinement network, enlarged with aligned corners."""

    class Fusion(nn.Module):
        def __init__(self, c):
            super().__init__()
            unit = lambda: nn.Sequential(nn.ReLU(), nn.Conv2d(c, c, 3, padding=1), nn.ReLU(), nn.Conv2d(c, c, 3, padding=1))
            self.one, self.two = unit(), unit()

        def forward(self, x, skip=None):
            if skip is not None:
                x = x + skip + self.one(skip)
            return F.interpolate(x + self.two(x), scale_factor=2, mode="bilinear", align_corners=True)

    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([conv(3, 16, stride=2, act=nn.ReLU6), conv(16, 16, stride=2, act=nn.ReLU6), conv(16, 16, stride=2, act=nn.ReLU6)])
        self.fuse, self.out = nn.ModuleList([self.Fusion(16) for _ in range(3)]), nn.Sequential(nn.Conv2d(16, 8, 3, padding=1), nn.Conv2d(8, 1, 1), nn.ReLU())

    def forward(self, x):
        kept = []
        for down in self.down:
            x = down(x)
            kept.append(x)
        x = self.fuse[0](kept[2])
        for fuse, skip in zip(self.fuse[1:], kept[1::-1]):
            x = fuse(x, skip)
        return torch.squeeze(self.out(x), dim=1)


@network((1, 3, 256))
class PointNet(nn.Module):
    """A transform of the input and one of features, each a matrix that a network computes."""

    class Transform(nn.Module):
        def __init__(self, k):
            super().__init__()
            self.k = k
            self.points = nn.Sequential(nn.Conv1d(k, 32, 1), nn.BatchNorm1d(32), nn.ReLU(), nn.Conv1d(32, 64, 1), nn.BatchNorm1d(64), nn.ReLU())
            self.whole = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, k * k))

        def forward(self, x):
            y = torch.max(self.points(x), 2, keepdim=True)[0].view(-1, 64)
            return (self.whole(y) + torch.eye(self.k).flatten()[None].repeat(x.size(0), 1)).view(-1, self.k, self.k)

    def __init__(self):
        super().__init__()
        self.first, self.second = self.Transform(3), self.Transform(16)
        self.one, self.two = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU()), nn.Sequential(nn.Conv1d(16, 64, 1), nn.BatchNorm1d(64))
        self.part = nn.Conv1d(80, 6, 1)

    def forward(self, x):
        x = self.one(torch.bmm(x.transpose(2, 1), self.first(x)).transpose(2, 1))
        x = torch.bmm(x.transpose(2, 1), self.second(x)).transpose(2, 1)
        whole = torch.max(self.two(x), 2, keepdim=True)[0].view(-1, 64, 1).repeat(1, 1, x.size(2))
        return F.log_softmax(self.part(torch.cat([whole, x], 1)).transpose(2, 1), -1)


@network((1, 3, 128))
class DGCNN(nn.Module):
    """Edges to the nearest neighbours in the space of features."""

    def __init__(self, k=8):
        super().__init__()
        self.k = k
        self.layers = nn.ModuleList(nn.Sequential(nn.Conv2d(a, b, 1, bias=False), nn.BatchNorm2d(b), nn.LeakyReLU(0.2)) for a, b in ((6, 16), (32, 32)))
        self.out = nn.Linear(96, 10)

    def edges(self, x):
        n, c, points = x.shape
        inner, square = -2 * torch.matmul(x.transpose(2, 1), x), torch.sum(x**2, 1, keepdim=True)
        index = (-square - inner - square.transpose(2, 1)).topk(self.k, dim=-1)[1]
        flat = (index + torch.arange(n).view(-1, 1, 1) * points).view(-1)
        rows = x.transpose(2, 1).contiguous()
        near = rows.view(n * points, -1)[flat, :].view(n, points, self.k, c)
        rows = rows.view(n, points, 1, c).repeat(1, 1, self.k, 1)
        return torch.cat((near - rows, rows), 3).permute(0, 3, 1, 2)

    def forward(self, x):
        made = []
        for layer in self.layers:
            x = layer(self.edges(x)).max(-1)[0]
            made.append(x)
        x = torch.cat(made, 1)
        return self.out(torch.cat([F.adaptive_max_pool1d(x, 1), F.adaptive_avg_pool1d(x, 1)], 1).squeeze(-1))


@network((40, 16, 10), (40, 3))
class PointPillars(nn.Module):
    """Pillars reduced by their points and written into a picture of the plane."""

    def __init__(self):
        super().__init__()
        self.linear, self.norm, self.head = nn.Linear(10, 16, bias=False), nn.BatchNorm1d(16), conv(16, 8)

    def forward(self, points, places):
        x = self.norm(self.linear(points).permute(0, 2, 1)).permute(0, 2, 1)
        x = torch.max(F.relu(x), 1)[0]
        at = (places.abs() * 4).long().clamp(0, 15)
        canvas = torch.zeros(16, 16 * 16)
        canvas[:, at[:, 1] * 16 + at[:, 2]] = x.t()
        flat = torch.arange(40) * 6 + 3
        canvas[:, flat] = x.t()
        return self.head(canvas.view(1, 16, 16, 16))


# Faces


@network((1, 3, 112, 112))
class ArcFace(nn.Module):
    """A residual network of faces: normalisation first, PReLU, a batch normalisation of the embedding; unit length."""

    class Block(nn.Module):
        def __init__(self, a, b, stride):
            super().__init__()
            self.body = nn.Sequential(nn.BatchNorm2d(a), nn.Conv2d(a, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b), nn.PReLU(b), nn.Conv2d(b, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b))
            self.skip = nn.Sequential(nn.Conv2d(a, b, 1, stride, bias=False), nn.BatchNorm2d(b))

        def forward(self, x):
            return self.body(x) + self.skip(x)

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.PReLU(16))
        self.blocks = nn.Sequential(self.Block(16, 16, 2), self.Block(16, 32, 2), self.Block(32, 32, 2), self.Block(32, 32, 2))
        self.last, self.linear, self.features = nn.BatchNorm2d(32), nn.Linear(32 * 49, 64), nn.BatchNorm1d(64)

    def forward(self, x):
        x = torch.flatten(self.last(self.blocks(self.stem(x))), 1)
        return F.normalize(self.features(self.linear(x)))


@network((1, 3, 96, 128))
class SCRFD(nn.Module):
    """A face detector of three strides with decoded boxes and landmarks."""

    def __init__(self):
        super().__init__()
        self.body = nn.ModuleList([nn.Sequential(conv(3, 16, stride=2), conv(16, 16, stride=2), conv(16, 32, stride=2)), conv(32, 32, stride=2), conv(32, 32, stride=2)])
        self.lateral = nn.ModuleList(nn.Conv2d(32, 16, 1) for _ in range(3))
        self.heads = nn.ModuleList(nn.Conv2d(16, 2 * c, 3, padding=1) for c in (1, 4, 10))
        self.scales = nn.Parameter(torch.ones(3))

    def forward(self, x):
        features = []
        for layer in self.body:
            x = layer(x)
            features.append(x)
        features = [lateral(f) for lateral, f in zip(self.lateral, features)]
        for i in (2, 1):
            features[i - 1] = features[i - 1] + F.interpolate(features[i], size=features[i - 1].shape[2:], mode="nearest")
        outputs = []
        for i, f in enumerate(features):
            score, box, points = (head(f) for head in self.heads)
            score = torch.sigmoid(score).permute(0, 2, 3, 1).reshape(-1, 1)
            box = (box * self.scales[i]).permute(0, 2, 3, 1).reshape(-1, 4)
            points = points.permute(0, 2, 3, 1).reshape(-1, 10)
            outputs += [score, box, points]
        return tuple(outputs)


# Detectors


@network((1, 3, 96, 128))
class YOLOX(nn.Module):
    """Focus by strided slices, decoupled heads, decoding with a grid."""

    def __init__(self, nc=4):
        super().__init__()
        c = lambda *a, **k: conv(*a, act=nn.SiLU, **k)
        self.stem, self.body = c(12, 16), nn.ModuleList([nn.Sequential(c(16, 32, stride=2), c(32, 32, stride=2)), c(32, 32, stride=2), c(32, 32, stride=2)])
        self.cls, self.reg = c(32, 32), c(32, 32)
        self.out = nn.ModuleList(nn.Conv2d(32, k, 1) for k in (4, 1, nc))
        self.nc = nc

    def forward(self, x):
        x = self.stem(torch.cat((x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]), 1))
        made, grids, strides = [], [], []
        for layer, stride in zip(self.body, (8, 16, 32)):
            x = layer(x)
            a, b = self.cls(x), self.reg(x)
            y = torch.cat([self.out[0](b), self.out[1](b).sigmoid(), self.out[2](a).sigmoid()], 1)
            h, w = y.shape[-2:]
            ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
            grids.append(torch.stack((xs, ys), 2).view(1, -1, 2))
            strides.append(torch.full((1, h * w, 1), stride))
            made.append(y.flatten(2))
        y = torch.cat(made, 2).permute(0, 2, 1)
        grid, stride = torch.cat(grids, 1).float(), torch.cat(strides, 1).float()
        return torch.cat([(y[..., 0:2] + grid) * stride, torch.exp(y[..., 2:4]) * stride, y[..., 4:]], -1)


@network((1, 3, 96, 128))
class NanoDet(nn.Module):
    """Shuffled channels, ghost blocks and the general distribution of distances."""

    def __init__(self, nc=4, bins=8):
        super().__init__()
        self.stem = nn.Sequential(conv(3, 24, stride=2), nn.MaxPool2d(3, 2, 1))
        half = lambda: nn.Sequential(conv(12, 12, 1, act=nn.LeakyReLU), conv(12, 12, groups=12, act=None), conv(12, 12, 1, act=nn.LeakyReLU))
        self.branches, self.down = nn.ModuleList(half() for _ in range(3)), nn.ModuleList([conv(24, 24, 5, 2, groups=24), conv(24, 24, 5, 2, groups=24)])
        self.out, self.bins, self.nc = nn.Conv2d(24, nc + 4 * bins, 1), bins, nc

    def forward(self, x):
        x, made = self.stem(x), []
        for i, branch in enumerate(self.branches):
            a, b = x.chunk(2, 1)
            x = torch.cat([a, branch(b)], 1)
            n, c, h, w = x.shape
            x = x.view(n, 2, c // 2, h, w).transpose(1, 2).contiguous().view(n, c, h, w)
            made.append(self.out(x).flatten(2))
            if i < 2:
                x = self.down[i](x)
        y = torch.cat(made, 2).permute(0, 2, 1)
        score, box = y.split([self.nc, 4 * self.bins], -1)
        box = F.linear(F.softmax(box.reshape(*box.shape[:2], 4, self.bins), -1), torch.linspace(0, self.bins - 1, self.bins)[None]).squeeze(-1)
        return torch.sigmoid(score), box


@network((1, 3, 64, 96), low=0)
class YOLOv5Anchors(nn.Module):
    """The head of YOLOv5 as its own repository exports it, with anchors; and the Focus of early versions."""

    def __init__(self, nc=3):
        super().__init__()
        self.no = nc + 5
        c = lambda *a, **k: conv(*a, act=nn.SiLU, **k)
        self.body = nn.Sequential(c(12, 16), c(16, 32, stride=2), c(32, 32, stride=2))
        self.m = nn.ModuleList(nn.Conv2d(32, 3 * self.no, 1) for _ in range(2))
        self.down = c(32, 32, stride=2)
        self.register_buffer("anchors", torch.tensor([[10, 13, 16, 30, 33, 23], [30, 61, 62, 45, 59, 119]]).float().view(2, 1, 3, 1, 1, 2))

    def forward(self, x):
        x = self.body(torch.cat([x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]], 1))
        z = []
        for i, stride in enumerate((8, 16)):
            y = self.m[i](x)
            bs, _, ny, nx = y.shape
            y = y.view(bs, 3, self.no, ny, nx).permute(0, 1, 3, 4, 2).contiguous()
            yv, xv = torch.meshgrid(torch.arange(ny), torch.arange(nx), indexing="ij")
            grid = torch.stack((xv, yv), 2).expand(1, 3, ny, nx, 2).float() - 0.5
            xy, wh, conf = y.sigmoid().split((2, 2, self.no - 4), 4)
            z.append(torch.cat(((xy * 2 + grid) * stride, (wh * 2) ** 2 * self.anchors[i], conf), 4).view(bs, 3 * nx * ny, self.no))
            x = self.down(x)
        return torch.cat(z, 1)


@network((1, 3, 64, 96))
class CenterNet(nn.Module):
    """Peaks of heat maps by pooling, the best of them gathered with their sizes."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(conv(3, 16, stride=2), conv(16, 32, stride=2))
        self.heat, self.size, self.offset = nn.Conv2d(32, 3, 1), nn.Conv2d(32, 2, 1), nn.Conv2d(32, 2, 1)

    def forward(self, x):
        x = self.body(x)
        heat = self.heat(x).sigmoid()
        heat = heat * (F.max_pool2d(heat, 3, 1, 1) == heat).float()
        n, c, h, w = heat.shape
        scores, index = torch.topk(heat.view(n, c, -1), 10)
        score, at = torch.topk(scores.view(n, -1), 10)
        kind = torch.div(at, 10, rounding_mode="trunc").int()
        flat = (index % (h * w)).view(n, -1, 1).gather(1, at.unsqueeze(2))
        pick = lambda f: f.permute(0, 2, 3, 1).contiguous().view(n, -1, f.size(1)).gather(1, flat.expand(n, 10, f.size(1)))
        ys, xs = (flat.squeeze(-1) // w).float(), (flat.squeeze(-1) % w).float()
        offset, size = pick(self.offset(x)), pick(self.size(x))
        centre = torch.stack([xs, ys], -1) + offset
        return torch.cat([centre - size / 2, centre + size / 2], -1), score, kind


# Generation


class Residual(nn.Module):
    def __init__(self, a, b, time=None):
        super().__init__()
        self.norm1, self.conv1, self.norm2, self.conv2 = nn.GroupNorm(8, a, 1e-6), nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(8, b, 1e-6), nn.Conv2d(b, b, 3, padding=1)
        self.skip, self.time = nn.Conv2d(a, b, 1) if a != b else nn.Identity(), nn.Linear(time, b) if time else None

    def forward(self, x, time=None):
        y = self.conv1(F.silu(self.norm1(x)))
        if self.time is not None:
            y = y + self.time(F.silu(time))[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(y)))


class Attend(nn.Module):
    """Attention of pixels to each other, or to a context."""

    def __init__(self, c, context=None, heads=2):
        super().__init__()
        self.norm, self.heads = nn.GroupNorm(8, c), heads
        self.q, self.k, self.v, self.out = nn.Linear(c, c), nn.Linear(context or c, c), nn.Linear(context or c, c), nn.Linear(c, c)

    def forward(self, x, context=None):
        n, c, h, w = x.shape
        rows = self.norm(x).view(n, c, h * w).transpose(1, 2)
        context = rows if context is None else context
        heads = lambda t: t.view(n, -1, self.heads, c // self.heads).transpose(1, 2)
        y = F.scaled_dot_product_attention(heads(self.q(rows)), heads(self.k(context)), heads(self.v(context)))
        return x + self.out(y.transpose(1, 2).reshape(n, h * w, c)).transpose(1, 2).view(n, c, h, w)


@network((1, 4, 8, 12))
class VAEDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter, self.middle = nn.Conv2d(4, 32, 3, padding=1), nn.ModuleList([Residual(32, 32), Attend(32, heads=1), Residual(32, 32)])
        self.up = nn.ModuleList(nn.ModuleList([Residual(a, b), nn.Conv2d(b, b, 3, padding=1)]) for a, b in ((32, 32), (32, 16), (16, 16)))
        self.norm, self.out = nn.GroupNorm(8, 16), nn.Conv2d(16, 3, 3, padding=1)

    def forward(self, x):
        x = self.enter(x / 0.18215)
        for layer in self.middle:
            x = layer(x)
        for block, layer in self.up:
            x = layer(F.interpolate(block(x), scale_factor=2.0, mode="nearest"))
        return (self.out(F.silu(self.norm(x))) / 2 + 0.5).clamp(0, 1)


@network((2, 4, 16, 16), (2,), (2, 7, 24))
class DiffusionUNet(nn.Module):
    """Time as sines, residual blocks that it shifts, cross attention to a text."""

    def __init__(self):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 64))
        self.enter, self.shrink = nn.Conv2d(4, 32, 3, padding=1), nn.Conv2d(32, 32, 3, 2, 1)
        self.down, self.middle, self.up = nn.ModuleList([Residual(32, 32, 64), Residual(32, 64, 64)]), nn.ModuleList([Attend(64), Attend(64, 24), Residual(64, 64, 64)]), nn.ModuleList([Residual(128, 32, 64), Residual(64, 32, 64)])
        self.grow, self.norm, self.out = nn.Conv2d(32, 32, 3, padding=1), nn.GroupNorm(8, 32), nn.Conv2d(32, 4, 3, padding=1)

    def forward(self, x, time, text):
        turns = (time.abs() * 100)[:, None].float() * torch.exp(-math.log(10000) * torch.arange(16) / 16)[None]
        time = self.time(torch.cat([turns.cos(), turns.sin()], -1))
        first = self.down[0](self.enter(x), time)
        second = self.down[1](self.shrink(first), time)
        y = self.middle[2](self.middle[1](self.middle[0](second), text), time)
        y = self.up[0](torch.cat([y, second], 1), time)
        y = self.up[1](torch.cat([self.grow(F.interpolate(y, scale_factor=2.0, mode="nearest")), first], 1), time)
        return self.out(F.silu(self.norm(y)))


@network((2, 32))
class StyleGAN2(nn.Module):
    """Weights modulated by a style and demodulated, each picture of the batch with its own; blurred enlargement."""

    class Styled(nn.Module):
        def __init__(self, a, b, style, up=False, demodulate=True, kernel=3):
            super().__init__()
            self.weight, self.style, self.up, self.demodulate = nn.Parameter(torch.randn(1, b, a, kernel, kernel)), nn.Linear(style, a), up, demodulate
            self.bias, self.pictures = nn.Parameter(torch.zeros(b)), 2
            k = torch.tensor([1.0, 3.0, 3.0, 1.0])
            self.register_buffer("blur", (k[:, None] * k[None] / 16)[None, None])

        def forward(self, x, w):
            n, (c, h, width) = self.pictures, x.shape[1:]
            weight = self.weight * (self.style(w).view(n, 1, c, 1, 1) + 1)
            if self.demodulate:
                weight = weight * torch.rsqrt(weight.pow(2).sum([2, 3, 4]) + 1e-8).view(n, -1, 1, 1, 1)
            b, k = self.weight.shape[1], self.weight.shape[-1]
            x = x.reshape(1, n * c, h, width)
            if self.up:
                weight = weight.transpose(1, 2).reshape(n * c, b, k, k)
                x = F.conv_transpose2d(x, weight, stride=2, padding=0, groups=n)
                x = x.view(n * b, 1, x.shape[2], x.shape[3])
                x = F.conv2d(F.pad(x, [1, 1, 1, 1]), self.blur)
            else:
                x = F.conv2d(x, weight.view(n * b, c, k, k), padding=k // 2, groups=n)
            x = x.view(n, b, x.shape[-2], x.shape[-1]) + self.bias.view(1, -1, 1, 1)
            return F.leaky_relu(x, 0.2) * 2**0.5 if self.demodulate else x

    def __init__(self):
        super().__init__()
        self.mapping, self.start = nn.Sequential(nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2)), nn.Parameter(torch.randn(1, 16, 4, 4))
        self.layers = nn.ModuleList([self.Styled(16, 16, 32), self.Styled(16, 16, 32, up=True), self.Styled(16, 16, 32)])
        self.rgb = self.Styled(16, 3, 32, demodulate=False, kernel=1)
        self.noise = nn.Parameter(torch.randn(1, 1, 8, 8))

    def forward(self, z):
        w = self.mapping(z * torch.rsqrt(torch.mean(z**2, 1, keepdim=True) + 1e-8))
        x = self.start.repeat(z.shape[0], 1, 1, 1)
        for layer in self.layers:
            x = layer(x, w)
        return self.rgb(x + 0.1 * self.noise, w)


# Volumes and videos


@network((1, 1, 16, 24, 24))
class UNet3D(nn.Module):
    def __init__(self):
        super().__init__()
        double = lambda a, b: nn.Sequential(nn.Conv3d(a, b, 3, padding=1), nn.InstanceNorm3d(b, affine=True), nn.LeakyReLU(0.01), nn.Conv3d(b, b, 3, padding=1), nn.GroupNorm(4, b), nn.ReLU())
        self.first, self.second, self.third = double(1, 8), double(8, 16), double(16, 32)
        self.up2, self.up1 = nn.ConvTranspose3d(32, 16, 2, 2), nn.ConvTranspose3d(16, 8, 3, 2, 1, 1)
        self.join2, self.join1, self.out = double(32, 16), double(16, 8), nn.Conv3d(8, 2, 1)

    def forward(self, x):
        a = self.first(x)
        b = self.second(F.max_pool3d(a, 2))
        x = self.up2(self.third(F.avg_pool3d(b, 2)))
        x = self.up1(self.join2(torch.cat([x, b], 1)))
        return F.softmax(self.out(self.join1(torch.cat([x, a], 1))), 1)


@network((1, 3, 16, 56, 56))
class C3D(nn.Module):
    def __init__(self):
        super().__init__()
        layer = lambda a, b, pool: nn.Sequential(nn.Conv3d(a, b, 3, padding=1), nn.ReLU(), nn.MaxPool3d(*pool))
        self.body = nn.Sequential(layer(3, 8, ((1, 2, 2), (1, 2, 2))), layer(8, 16, (2, 2)), layer(16, 16, (2, 2)), layer(16, 16, ((2, 2, 2), (2, 2, 2), (0, 1, 1))))
        self.out = nn.Sequential(nn.Linear(16 * 2 * 4 * 4, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, x):
        return F.softmax(self.out(self.body(x).view(x.shape[0], -1)), 1)


@network((1, 3, 8, 32, 32))
class X3D(nn.Module):
    """Convolutions in time and space apart, of each channel alone; squeeze and excitation; swish."""

    def __init__(self):
        super().__init__()
        self.xy, self.t = nn.Conv3d(3, 16, (1, 3, 3), (1, 2, 2), (0, 1, 1), bias=False), nn.Conv3d(16, 16, (5, 1, 1), padding=(2, 0, 0), groups=16, bias=False)
        self.norm, self.enter, self.deep = nn.BatchNorm3d(16), nn.Sequential(nn.Conv3d(16, 36, 1, bias=False), nn.BatchNorm3d(36), nn.ReLU()), nn.Sequential(nn.Conv3d(36, 36, 3, (1, 2, 2), 1, groups=36, bias=False), nn.BatchNorm3d(36))
        self.squeeze, self.leave = nn.Sequential(nn.AdaptiveAvgPool3d(1), nn.Conv3d(36, 8, 1), nn.ReLU(), nn.Conv3d(8, 36, 1), nn.Sigmoid()), nn.Sequential(nn.Conv3d(36, 16, 1, bias=False), nn.BatchNorm3d(16))
        self.skip, self.out = nn.Sequential(nn.Conv3d(16, 16, 1, (1, 2, 2), bias=False), nn.BatchNorm3d(16)), nn.Linear(16, 10)

    def forward(self, x):
        x = F.relu(self.norm(self.t(self.xy(x))))
        y = self.deep(self.enter(x))
        y = self.leave(F.silu(y * self.squeeze(y)))
        x = F.avg_pool3d(F.relu(y + self.skip(x)), (8, 8, 8))
        return self.out(x.permute(0, 2, 3, 4, 1)).softmax(4).mean([1, 2, 3])


@network((1, 8, 3, 48, 48))
class TSM(nn.Module):
    """Frames whose channels shift along time, by slices that are assigned."""

    def __init__(self):
        super().__init__()
        self.stem, self.layers, self.out = conv(3, 16, stride=2), nn.ModuleList(conv(16, 16) for _ in range(2)), nn.Linear(16, 10)

    def forward(self, x):
        n, t = x.shape[:2]
        x = self.stem(x.flatten(0, 1))
        for layer in self.layers:
            frames = x.view(n, t, *x.shape[1:])
            moved = torch.zeros_like(frames)
            moved[:, :-1, :2] = frames[:, 1:, :2]
            moved[:, 1:, 2:4] = frames[:, :-1, 2:4]
            moved[:, :, 4:] = frames[:, :, 4:]
            x = x + layer(moved.view(n * t, *x.shape[1:]))
        return self.out(x.mean((2, 3))).view(n, t, -1).mean(1)


# Sound


@network((1, 2, 2048))
class Demucs(nn.Module):
    """Gated convolutions of a waveform, a bidirectional LSTM, transposed convolutions; the input's mean and deviation."""

    def __init__(self):
        super().__init__()
        self.encode = nn.ModuleList(nn.Sequential(nn.Conv1d(a, b, 8, 4), nn.ReLU(), nn.Conv1d(b, 2 * b, 1), nn.GLU(1)) for a, b in ((2, 16), (16, 32)))
        self.lstm, self.linear = nn.LSTM(32, 32, 2, bidirectional=True), nn.Linear(64, 32)
        self.decode = nn.ModuleList(nn.Sequential(nn.Conv1d(a, 2 * a, 3, padding=1), nn.GLU(1), nn.ConvTranspose1d(a, b, 8, 4)) for a, b in ((32, 16), (16, 4)))

    def forward(self, mix):
        mono = mix.mean(1, keepdim=True)
        mean, deviation = mono.mean(-1, keepdim=True), mono.std(-1, keepdim=True)
        x = F.pad((mix - mean) / (1e-5 + deviation), (10, 10))
        kept = []
        for layer in self.encode:
            x = layer(x)
            kept.append(x)
        y, _ = self.lstm(x.permute(2, 0, 1))
        x = self.linear(y).permute(1, 2, 0)
        for number, layer in enumerate(self.decode):
            skip = kept.pop()
            delta = skip.shape[-1] - x.shape[-1] if skip.shape[-1] > x.shape[-1] else 0
            extra = x.shape[-1] - skip.shape[-1] + delta
            x = layer(x[..., : x.shape[-1] - extra] + skip[..., : x.shape[-1] - extra])
            x = F.relu(x) if number == 0 else x
        return x.view(x.size(0), 2, 2, x.size(-1)) * deviation[:, None] + mean[:, None]


@network((1, 40, 90))
class ECAPA(nn.Module):
    """Res2 blocks of a waveform's features, squeeze and excitation, pooling of statistics by attention."""

    def __init__(self, width=32):
        super().__init__()
        layer = lambda a, b, k=1, d=1: nn.Sequential(nn.Conv1d(a, b, k, dilation=d, padding=d * (k // 2), padding_mode="reflect"), nn.ReLU(), nn.BatchNorm1d(b))
        self.first, self.enter, self.leave = layer(40, width, 5), layer(width, width), layer(width, width)
        self.parts = nn.ModuleList(layer(width // 4, width // 4, 3, 2) for _ in range(3))
        self.squeeze = nn.Sequential(nn.Conv1d(width, 8, 1), nn.ReLU(), nn.Conv1d(8, width, 1), nn.Sigmoid())
        self.tdnn, self.attention = layer(3 * width, 16), nn.Conv1d(16, width, 1)
        self.norm, self.out = nn.BatchNorm1d(2 * width), nn.Conv1d(2 * width, 24, 1)

    def forward(self, x):
        x = self.first(x)
        made = []
        for number, part in enumerate(torch.chunk(self.enter(x), 4, 1)):
            made.append(part if number == 0 else self.parts[number - 1](part if number == 1 else part + made[-1]))
        y = self.leave(torch.cat(made, 1))
        x = x + y * self.squeeze(y.mean(2, keepdim=True))
        mean, deviation = x.mean(2, keepdim=True), torch.sqrt(x.var(2, keepdim=True).clamp(1e-12))
        whole = torch.cat([x, mean.expand(-1, -1, x.shape[-1]), deviation.expand(-1, -1, x.shape[-1])], 1)
        weight = F.softmax(self.attention(torch.tanh(self.tdnn(whole))), 2)
        mean = (weight * x).sum(2)
        deviation = torch.sqrt(((x - mean.unsqueeze(2)).pow(2) * weight).sum(2).clamp(1e-12))
        return self.out(self.norm(torch.cat([mean, deviation], 1)).unsqueeze(2))


@network((1, 30, 42))
class RNNoise(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter, self.voice = nn.Linear(42, 24), nn.GRU(24, 24, batch_first=True)
        self.noise, self.denoise = nn.GRU(24 + 24 + 42, 48, batch_first=True), nn.GRU(24 + 48 + 42, 96, batch_first=True)
        self.vad, self.gains = nn.Linear(24, 1), nn.Linear(96, 22)

    def forward(self, x):
        y = torch.tanh(self.enter(x))
        voice, _ = self.voice(y)
        noise, _ = self.noise(torch.cat([y, voice, x], -1))
        gains, _ = self.denoise(torch.cat([voice, noise, x], -1))
        return torch.sigmoid(self.gains(gains)), torch.sigmoid(self.vad(voice))


@network((1, 1, 32, 100))
class CRNN(nn.Module):
    """Text in a picture: pools of uneven strides, bidirectional LSTMs over columns, the best class of each."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(conv(1, 16), nn.MaxPool2d(2, 2), conv(16, 32), nn.MaxPool2d(2, 2), conv(32, 32), nn.MaxPool2d((2, 2), (2, 1), (0, 1)), conv(32, 32), nn.MaxPool2d((2, 2), (2, 1), (0, 1)), nn.Conv2d(32, 32, 2), nn.ReLU())
        self.lstm, self.middle = nn.LSTM(32, 32, bidirectional=True), nn.Linear(64, 32)
        self.second, self.out = nn.LSTM(32, 32, bidirectional=True), nn.Linear(64, 37)

    def forward(self, x):
        x = self.body(x).squeeze(2).permute(2, 0, 1)
        t, n, _ = x.shape
        x, _ = self.lstm(x)
        x = self.middle(x.view(t * n, -1)).view(t, n, -1)
        x, _ = self.second(x)
        x = self.out(x.view(t * n, -1)).view(t, n, -1)
        return F.log_softmax(x, 2), x.argmax(2)


@network((1, 1, 1600))
class ConvTasNet(nn.Module):
    """A learned filter bank, global layer normalisation, dilated separable blocks, masks, overlap and add."""

    def __init__(self):
        super().__init__()
        self.encode, self.decode = nn.Conv1d(1, 32, 16, 8, bias=False), nn.ConvTranspose1d(32, 1, 16, 8, bias=False)
        self.enter, self.masks = nn.Sequential(nn.GroupNorm(1, 32, 1e-8), nn.Conv1d(32, 16, 1)), nn.Conv1d(16, 64, 1)
        block = lambda d: nn.Sequential(nn.Conv1d(16, 32, 1), nn.PReLU(), nn.GroupNorm(1, 32), nn.Conv1d(32, 32, 3, padding=d, dilation=d, groups=32), nn.PReLU(), nn.GroupNorm(1, 32), nn.Conv1d(32, 16, 1))
        self.blocks = nn.ModuleList(block(2**i) for i in range(4))

    def forward(self, x):
        y = F.relu(self.encode(x))
        z = self.enter(y)
        for block in self.blocks:
            z = z + block(z)
        masks = F.relu(self.masks(z)).view(2, 32, -1)
        return self.decode(y * masks)


@network((1, 2, 65, 20))
class DCCRN(nn.Module):
    """Complex convolutions of a spectrum as real ones, with a frame of the past as padding."""

    def __init__(self):
        super().__init__()
        layer = lambda a, b: nn.ModuleList(nn.Conv2d(a, b, (5, 2), (2, 1), (2, 0)) for _ in range(2))
        self.layers, self.norm = nn.ModuleList([layer(1, 8), layer(8, 8)]), nn.ModuleList([nn.BatchNorm2d(16), nn.BatchNorm2d(16)])
        self.lstm, self.out = nn.LSTM(16 * 17, 32, batch_first=True), nn.Linear(32, 130)

    def forward(self, x):
        spectrum = x
        for (real, imaginary), norm in zip(self.layers, self.norm):
            a, b = torch.chunk(F.pad(x, [1, 0, 0, 0]), 2, 1)
            x = F.prelu(norm(torch.cat([real(a) - imaginary(b), real(b) + imaginary(a)], 1)), torch.tensor([0.25]))
        n, c, f, t = x.shape
        y, _ = self.lstm(x.permute(0, 3, 1, 2).reshape(n, t, c * f))
        mask = self.out(y).view(n, t, 2, 65).permute(0, 2, 3, 1)
        magnitude, phase = torch.sqrt(mask[:, 0] ** 2 + mask[:, 1] ** 2 + 1e-8), torch.atan2(mask[:, 1], mask[:, 0] + 1e-8)
        a = torch.tanh(magnitude) * torch.sqrt(spectrum[:, 0] ** 2 + spectrum[:, 1] ** 2 + 1e-8)
        b = torch.atan2(spectrum[:, 1], spectrum[:, 0]) + phase
        return torch.stack([a * torch.cos(b), a * torch.sin(b)], 1)


@network((1, 16, 24), (1, 16, 24))
class MLPFlow(nn.Module):
    """A coupling layer of a flow: flipped channels, halves that scale each other, weight normalisation."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(nn.utils.parametrizations.weight_norm(nn.Conv1d(8, 16, 5, padding=2)) for _ in range(2))

    def forward(self, x, g):
        for layer in self.convs:
            a, b = torch.split(torch.flip(x, [1]), [8, 8], 1)
            m, logs = torch.split(torch.tanh(layer(a)) * torch.sigmoid(g), [8, 8], 1)
            x = torch.cat([a, m + b * torch.exp(logs)], 1)
        return x
