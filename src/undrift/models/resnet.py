"""Residual networks with group normalisation, for small images."""

import numpy as np
from jax.typing import DTypeLike

from ..errors import InputError
from .convolutional import checked, image_shape, positive
from .layers import ChannelsFirst, Conv, Dense, Layer, Shape
from .model import Model
from .residual import GroupNorm, MeanPool, Residual, Subsample

WIDE = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3)}  # blocks of each stage, by depth


def resnet(
    classes: int = 10,
    input: Shape = (32, 32, 3),
    dtype: DTypeLike = "float32",
    *,
    depth: int = 20,
    width: int | None = None,
    groups: int = 2,
) -> Model:
    """A residual network of 3 × 3 convolutions, with GroupNorm wherever the original has BatchNorm.

    depth 6n + 2 (8, 14, 20, 32, 44, 56, 110): He et al.'s networks for CIFAR-10, three stages of n blocks with 16, 32 and 64
    channels and shortcuts without parameters; the depth 20 has 269,722 parameters, their 0.27M. depth 18 or 34: four stages
    with 64 … 512 channels and projections as shortcuts, a 3 × 3 stem and no pool before them, as is usual for small images; the
    depth 18 has 11,173,962. width: channels of the first stage in place of 16 or 64. groups: of every GroupNorm; two, as in
    Reddi et al., Adaptive federated optimization, arXiv:2003.00295. GroupNorm has as many parameters as BatchNorm.

    Reference: He, Zhang, Ren, Sun, Deep residual learning for image recognition, arXiv:1512.03385.

    >>> resnet().parameter_count, resnet(depth=18).parameter_count, resnet(depth=8, width=4).parameter_count
    (269722, 11173962, 5006)
    """
    image_shape(input)
    blocks = _blocks(depth)
    first = positive("width", (64 if depth in WIDE else 16) if width is None else width)
    layers: list[Layer] = [ChannelsFirst(), _conv("conv1", first), GroupNorm("norm1", groups, relu=True)]
    before = first
    for stage, count in enumerate(blocks, start=1):
        for number in range(1, count + 1):
            stride = 2 if stage > 1 and number == 1 else 1
            channels = first * 2 ** (stage - 1)
            layers.append(_block(f"block{stage}_{number}", before, channels, stride, groups, depth in WIDE))
            before = channels
    layers += [MeanPool(), Dense("dense", positive("classes", classes))]
    return checked(Model(f"resnet{depth}", tuple(layers), input, dtype=np.dtype(dtype).name))


def _blocks(depth: int) -> tuple[int, ...]:
    if depth in WIDE:
        return WIDE[depth]
    if isinstance(depth, bool) or depth < 8 or depth % 6 != 2:
        raise InputError(
            f"the depth of a residual network is 18, 34 or 6n + 2 (8, 14, 20, 32, …); got {depth!r}. Use 20."
        )
    return (depth // 6,) * 3


def _conv(name: str, channels: int, kernel: int = 3, stride: int = 1) -> Conv:
    return Conv(name, channels, kernel, kernel // 2, bias=False, relu=False, initial="he", stride=stride)


def _block(name: str, before: int, channels: int, stride: int, groups: int, projects: bool) -> Residual:
    layers = (
        _conv(f"{name}.conv1", channels, stride=stride),
        GroupNorm(f"{name}.norm1", groups, relu=True),
        _conv(f"{name}.conv2", channels),
        GroupNorm(f"{name}.norm2", groups),
    )
    shortcut: tuple[Layer, ...] = ()
    if projects and (before != channels or stride > 1):
        shortcut = (_conv(f"{name}.conv3", channels, 1, stride), GroupNorm(f"{name}.norm3", groups))
    elif before != channels:
        shortcut = (Subsample(f"{name}.subsample", channels, stride),)
    return Residual(name, layers, shortcut)
