"""Makes a network with fresh weights behave like a trained one: nothing vanishes, saturates or cancels."""

import math

import torch
from torch import nn
from torch.nn.functional import interpolate

LAYERS = (nn.Linear, nn.modules.conv._ConvNd, nn.MultiheadAttention)
NORMS = (nn.modules.batchnorm._BatchNorm,)


def settle(model, inputs, unit=False):
    """Gives every parameter of a fresh network a value that matters, and batch normalisation the statistics of its input.

    Weights that are zero or much smaller than 1 / √fan_in (as ViTs start) get that deviation. Vectors that are constant
    (scales, biases, layer scales) get a spread. Statistics of batch normalisation are those of one pass over eight
    random inputs where the network takes so many.

    With `unit` every layer matters as much as f16 needs to show a change of its weights: outputs of layers have deviation
    1, layer scales are about 1. Otherwise the first additions to a residual stream outweigh the last.
    """
    spread = lambda tensor, low, high: tensor.mul_(torch.empty_like(tensor).uniform_(low, high))
    for name, parameter in model.named_parameters():
        if not parameter.dtype.is_floating_point or parameter.numel() == 0:
            continue
        value = parameter.data
        constant = value.numel() == 1 or value.std() <= 1e-3 * value.abs().mean()
        fan_in = value[0].numel() if value.dim() > 1 else 1
        if value.dim() > 1 and not constant and name.endswith("weight") and value.std() < 0.5 / math.sqrt(fan_in):
            value.mul_(1 / (math.sqrt(fan_in) * value.std().clamp(min=1e-8)))
        elif constant and value.abs().max() == 0:
            value.normal_(0, 1 / math.sqrt(fan_in) if value.dim() > 1 else 0.1)
        elif constant and value.abs().max() < 0.1:
            value.uniform_(*((0.5, 1.5) if unit else (0.1, 0.5)))
        elif constant:
            spread(value, 0.7, 1.3)
    if unit:
        unit_outputs(model, inputs)
    norms = [module for module in model.modules() if isinstance(module, NORMS) and module.running_mean is not None]
    if not norms:
        return
    for norm in norms:
        norm.train()
        norm.momentum = 1.0
    # Of one picture a channel of the last layers has too few values for a variance; not every network takes more.
    several = lambda value: noise((8, *value.shape[1:])) * value.std() + value.mean()
    floats = all(isinstance(value, torch.Tensor) and value.dtype == torch.float32 for value in inputs)
    batch = [[several(value) for value in inputs], inputs] if floats else [inputs]
    for given in batch:
        try:
            model(*given)
            break
        except (RuntimeError, ValueError, AssertionError, IndexError):
            continue
    for norm in norms:
        norm.eval()
        norm.momentum = 0.1
        # A variance far below the mean would make later layers see rounding errors.
        variance = norm.running_var.add_(0.1 * norm.running_mean.square())
        variance.clamp_(min=0.1 * variance.mean().item() + 1e-6)


def unit_outputs(model, inputs):
    """Scales weights so that the output of each layer has deviation 1 (layer-sequential unit variance; Mishkin, Matas 2015)."""

    def scale(module, _, output):
        first = output[0] if isinstance(output, tuple) else output
        factor = 1 / first.std().clamp(min=1e-6)
        layer = module.out_proj if isinstance(module, nn.MultiheadAttention) else module
        for parameter in layer.parameters():
            parameter.data.mul_(factor)
        return (first * factor, *output[1:]) if isinstance(output, tuple) else first * factor

    # PyTorch's fused attention is not taken where there are hooks.
    hooks = [module.register_forward_hook(scale) for module in model.modules() if isinstance(module, LAYERS)]
    model(*inputs)
    for hook in hooks:
        hook.remove()


def noise(shape, generator=None):
    """Random numbers of mean 0 and deviation 1; images and videos have structure of every size, as pictures have."""
    made = torch.randn(shape, generator=generator)
    if len(shape) < 4 or min(shape[-2:]) < 8:
        return made
    mode = "bilinear" if len(shape) == 4 else "trilinear"
    for part in (4, 16, 64):
        coarse = torch.randn((*shape[:2], *(max(1, extent // part) for extent in shape[2:])), generator=generator)
        made += 2 * interpolate(coarse, shape[2:], mode=mode)
    return (made - made.mean()) / made.std()


def other_inputs(inputs):
    """Tensors in order, floats with new values of the same mean and deviation, integers as they are."""
    generator = torch.Generator().manual_seed(2)
    made = []
    for value in inputs.values() if isinstance(inputs, dict) else inputs:
        if isinstance(value, (list, tuple, dict)):
            made += other_inputs(value)
        elif isinstance(value, torch.Tensor) and value.dtype.is_floating_point:
            new = noise(value.shape, generator) * value.std() + value.mean() if value.numel() > 1 else value
            # What is a picture stays between black and white.
            made.append(new.clamp(value.min(), value.max()).to(value.dtype))
        elif isinstance(value, torch.Tensor):
            made.append(value)
    return made
