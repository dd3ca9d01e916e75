"""The convolutional networks of the papers: LeNet-5, VGG-9, VGG-11 and two networks of two convolutions for FEMNIST."""

import numpy as np
from jax.typing import DTypeLike

from ..errors import InputError
from .initial import Scheme
from .layers import ChannelsFirst, Conv, Dense, Dropout, Flatten, Layer, MaxPool, Shape
from .model import Model

_NARROWER = (1, 2, 4, 8, 16, 32, 64)  # divide all channels of a VGG
# Output channels of VGG's configuration A, one group per max-pool.
_VGG11 = ((64,), (128,), (256, 256), (512, 512), (512, 512))
_VGG9 = ((32, 64), (128, 128), (256, 256))
_VGG_DENSE = 512


def lenet5(classes: int = 10, input: Shape = (28, 28, 1), dtype: DTypeLike = "float32") -> Model:
    """LeNet-5 with ReLU and max-pools: two 5 × 5 convolutions (6, 16), then dense layers 120, 84 and `classes`.

    No padding, so 28 × 28 images leave 16 × 4 × 4 features and the model has 44,426 parameters (61,706 on 32 × 32). This is
    the variant of the split-learning papers: 2,572 parameters, 6 %, are at the client when it is cut after the second pool.

    Reference: LeCun, Bottou, Bengio, Haffner, Gradient-based learning applied to document recognition, Proc. IEEE 86, 1998.

    >>> model = lenet5()
    >>> model.parameter_count, model.layer_names[model.paper_cut - 1]
    (44426, 'pool2')
    """
    height, width, _ = image_shape(input)
    layers = (
        ChannelsFirst(),
        *_conv_and_pool(1, input, 6, kernel=5, padding=0),
        *_conv_and_pool(2, ((height - 4) // 2, (width - 4) // 2, 6), 16, kernel=5, padding=0),
        Flatten(),
        Dense("dense1", 120, relu=True),
        Dense("dense2", 84, relu=True),
        Dense("dense3", positive("classes", classes)),
    )
    return checked(Model("lenet5", layers, input, paper_cut=5, dtype=np.dtype(dtype).name))


def femnist_cnn(classes: int = 62, input: Shape = (28, 28, 1), dtype: DTypeLike = "float32") -> Model:
    """Two padded 5 × 5 convolutions (32, 64), each with a max-pool, and two dense layers, 2048 and `classes`.

    6,603,710 parameters for 62 classes. Reference: Caldas et al., LEAF: a benchmark for federated settings, arXiv:1812.01097.
    The FedAvg paper's code trains another network, ten times smaller: `femnist_cnn_unpadded`.

    >>> femnist_cnn().parameter_count
    6603710
    """
    height, width, _ = image_shape(input)
    layers = (
        ChannelsFirst(),
        *_conv_and_pool(1, input, 32, kernel=5, padding=2),
        *_conv_and_pool(2, (height // 2, width // 2, 32), 64, kernel=5, padding=2),
        Flatten(),
        Dense("dense1", 2048, relu=True),
        Dense("dense2", positive("classes", classes)),
    )
    return checked(Model("femnist_cnn", layers, input, dtype=np.dtype(dtype).name))


def femnist_cnn_unpadded(classes: int = 62, input: Shape = (28, 28, 1), dtype: DTypeLike = "float32") -> Model:
    """The network of the FedAvg paper's code: 5 × 5 convolutions (32, 64) without padding, each with a max-pool, dense 512.

    608,702 parameters for 62 classes, a tenth of `femnist_cnn`. As in that code there is no activation after the convolutions,
    one ReLU after the first dense layer, and the start is that of Keras (Glorot, biases zero). The paper says no more than that
    there are two convolutional layers, each followed by max pooling, and two fully connected ones (section 3.2).

    >>> femnist_cnn_unpadded().parameter_count
    608702
    """
    height, width, _ = image_shape(input)
    inner = ((height - 4) // 2, (width - 4) // 2, 32)
    layers = (
        ChannelsFirst(),
        *_conv_and_pool(1, input, 32, kernel=5, padding=0, relu=False, initial="glorot"),
        *_conv_and_pool(2, inner, 64, kernel=5, padding=0, relu=False, initial="glorot"),
        Flatten(),
        Dense("dense1", 512, relu=True, initial="glorot"),
        Dense("dense2", positive("classes", classes), initial="glorot"),
    )
    return checked(Model("femnist_cnn_unpadded", layers, input, dtype=np.dtype(dtype).name))


def vgg11(
    classes: int = 10,
    input: Shape = (32, 32, 3),
    dtype: DTypeLike = "float32",
    *,
    narrower: int = 1,
    dropout: float = 0.0,
    dense: Scheme = "uniform",
) -> Model:
    """VGG-11 for small images, without normalisation: eight 3 × 3 convolutions, five pools, three dense layers.

    9,750,922 parameters for 10 classes, 960,896 of them (10 %) at the client when it is cut after the third pool. The
    convolutions start as torchvision's do (He): with PyTorch's plain default the signal fades on its way through eight layers.

    narrower: channels and dense units are divided by it; with 8, 153,530 parameters. dropout: rate after
    each of the two hidden dense layers. dense: how the dense layers start, PyTorch's default or "normal". The code of the
    split-learning paper's authors has dropout=0.5, dense="normal"; the paper mentions neither.

    Reference: Simonyan, Zisserman, Very deep convolutional networks for large-scale image recognition, arXiv:1409.1556.

    >>> model = vgg11()
    >>> model.parameter_count, model.layer_names[model.paper_cut - 1]
    (9750922, 'pool3')
    >>> vgg11(narrower=8).parameter_count, vgg11(dropout=0.5, dense="normal").layer_names[-5:]
    (153530, ('dense1', 'dropout1', 'dense2', 'dropout2', 'dense3'))
    """
    layers = _vgg(_VGG11, "VGG-11's 64", classes, input, narrower, dropout, dense)
    third_pool = [layer.name for layer in layers].index("pool3") + 1
    return checked(Model("vgg11", layers, input, paper_cut=third_pool, dtype=np.dtype(dtype).name))


def vgg9(
    classes: int = 10,
    input: Shape = (32, 32, 3),
    dtype: DTypeLike = "float32",
    *,
    narrower: int = 1,
    dropout: float = 0.0,
    dense: Scheme = "uniform",
) -> Model:
    """VGG-9: six 3 × 3 convolutions (32, 64; 128, 128; 256, 256), a pool after each two, three dense layers (512, 512).

    3,491,530 parameters for 10 classes, as in the paper that uses it for CIFAR-10: Wang et al., Federated learning with matched
    averaging, arXiv:2002.06440. The options are those of `vgg11`; `narrower` divides 32 channels.

    >>> vgg9().parameter_count, vgg9(narrower=8).layer_names[:4]
    (3491530, ('channels_first', 'conv1', 'conv2', 'pool1'))
    """
    layers = _vgg(_VGG9, "VGG-9's 32", classes, input, narrower, dropout, dense)
    return checked(Model("vgg9", layers, input, dtype=np.dtype(dtype).name))


def _vgg(
    groups: tuple[tuple[int, ...], ...],
    whose: str,
    classes: int,
    input: Shape,
    narrower: int,
    dropout: float,
    dense: Scheme,
) -> tuple[Layer, ...]:
    """Groups of convolutions with so many channels, each followed by a max-pool, and three dense layers."""
    image_shape(input)
    divisors = [number for number in _NARROWER if number <= groups[0][0]]
    if isinstance(narrower, bool) or narrower not in divisors:
        raise InputError(
            f"narrower divides {whose} channels, so it is one of {', '.join(map(str, divisors))}; got {narrower!r}."
        )
    layers: list[Layer] = [ChannelsFirst()]
    count = 0
    for group, channels in enumerate(groups, start=1):
        for width in channels:
            count += 1
            layers.append(Conv(f"conv{count}", width // narrower, kernel=3, padding=1, relu=True, initial="he"))
        layers.append(MaxPool(f"pool{group}"))
    layers.append(Flatten())
    for number in (1, 2):
        layers.append(Dense(f"dense{number}", _VGG_DENSE // narrower, relu=True, initial=dense))
        if dropout:
            layers.append(Dropout(f"dropout{number}", dropout))
    layers.append(Dense("dense3", positive("classes", classes), initial=dense))
    return tuple(layers)


def image_shape(input: Shape) -> Shape:
    """`input`, if it is the shape of an image.

    >>> image_shape((28, 28, 1))
    (28, 28, 1)
    """
    if len(input) != 3 or min(input) < 1:
        raise InputError(f"an image has the shape (height, width, channels), all positive; got input={input}.")
    return input


def positive(name: str, value: int) -> int:
    """`value`, if it is at least 1.

    >>> positive("classes", 10)
    10
    """
    if value < 1:
        raise InputError(f"{name} must be at least 1; got {value}. Give the number of {name}.")
    return value


def _conv_and_pool(
    number: int,
    inputs: Shape,
    channels: int,
    *,
    kernel: int,
    padding: int,
    relu: bool = True,
    initial: Scheme = "uniform",
) -> tuple[Layer, Layer]:
    """Convolution, max-pool, bias, ReLU (or none); in tiles (see `conv`) where the outputs divide into them."""
    height, width, before = inputs
    odd = (height + 2 * padding - kernel + 1) % 2 or (width + 2 * padding - kernel + 1) % 2
    tile = 1 if odd else 2
    conv = Conv(f"conv{number}", channels, kernel, padding, bias=False, relu=False, tile=tile, initial=initial)
    return conv, MaxPool(f"pool{number}", before * kernel**2, relu, initial)


def checked(model: Model) -> Model:
    """The model, once its layers have been found to fit its input: errors belong where the model is made."""
    _ = model.parameter_count
    return model
