"""The convolutional networks of the papers: LeNet-5, VGG-11 and the two-convolution network of FEMNIST."""

import numpy as np
from jax.typing import DTypeLike

from ..errors import InputError
from .layers import ChannelsFirst, Conv, Dense, Flatten, Layer, MaxPool, Shape
from .model import Model

# Output channels of VGG's configuration A, one group per max-pool.
_VGG11 = ((64,), (128,), (256, 256), (512, 512), (512, 512))


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
    return _checked(Model("lenet5", layers, input, paper_cut=5, dtype=np.dtype(dtype).name))


def femnist_cnn(classes: int = 62, input: Shape = (28, 28, 1), dtype: DTypeLike = "float32") -> Model:
    """Two padded 5 × 5 convolutions (32, 64), each with a max-pool, and two dense layers, 2048 and `classes`.

    6,603,710 parameters for 62 classes. Reference: Caldas et al., LEAF: a benchmark for federated settings, arXiv:1812.01097.

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
    return _checked(Model("femnist_cnn", layers, input, dtype=np.dtype(dtype).name))


def vgg11(classes: int = 10, input: Shape = (32, 32, 3), dtype: DTypeLike = "float32") -> Model:
    """VGG-11 for small images, without normalisation or dropout: eight 3 × 3 convolutions, five pools, three dense layers.

    9,750,922 parameters for 10 classes, 960,896 of them (10 %) at the client when it is cut after the third pool. The
    convolutions start as torchvision's do (He): with PyTorch's plain default the signal fades on its way through eight layers.

    Reference: Simonyan, Zisserman, Very deep convolutional networks for large-scale image recognition, arXiv:1409.1556.

    >>> model = vgg11()
    >>> model.parameter_count, model.layer_names[model.paper_cut - 1]
    (9750922, 'pool3')
    """
    image_shape(input)
    layers: list[Layer] = [ChannelsFirst()]
    count = 0
    for group, channels in enumerate(_VGG11, start=1):
        for width in channels:
            count += 1
            layers.append(Conv(f"conv{count}", width, kernel=3, padding=1, relu=True, initial="he"))
        layers.append(MaxPool(f"pool{group}"))
    layers += [
        Flatten(),
        Dense("dense1", 512, relu=True),
        Dense("dense2", 512, relu=True),
        Dense("dense3", positive("classes", classes)),
    ]
    third_pool = [layer.name for layer in layers].index("pool3") + 1
    return _checked(Model("vgg11", tuple(layers), input, paper_cut=third_pool, dtype=np.dtype(dtype).name))


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


def _conv_and_pool(number: int, inputs: Shape, channels: int, *, kernel: int, padding: int) -> tuple[Layer, Layer]:
    """Convolution, max-pool, bias, ReLU; in tiles (see `conv`) where the outputs divide into them."""
    height, width, before = inputs
    odd = (height + 2 * padding - kernel + 1) % 2 or (width + 2 * padding - kernel + 1) % 2
    conv = Conv(f"conv{number}", channels, kernel, padding, bias=False, relu=False, tile=1 if odd else 2)
    return conv, MaxPool(f"pool{number}", fan_in=before * kernel**2)


def _checked(model: Model) -> Model:
    """The model, once its layers have been found to fit its input: errors belong where the model is made."""
    _ = model.parameter_count
    return model
