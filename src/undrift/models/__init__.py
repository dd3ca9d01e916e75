"""Networks as values: LeNet-5, VGG-11, two FEMNIST CNNs, the multi-layer perceptron and multinomial logistic regression."""

from .adapted import Adapted, from_equinox, from_flax, from_haiku
from .conv import Route, convolve
from .convolutional import femnist_cnn, femnist_cnn_unpadded, lenet5, vgg11
from .dense import mlp, softmax_regression
from .layers import Affine, ChannelsFirst, Conv, Dense, Dropout, Flatten, Layer, MaxPool
from .model import Model, Params
from .pool import max_pool
from .predict import predict

__all__ = [
    "Adapted",
    "Affine",
    "ChannelsFirst",
    "Conv",
    "Dense",
    "Dropout",
    "Flatten",
    "Layer",
    "MaxPool",
    "Model",
    "Params",
    "Route",
    "convolve",
    "femnist_cnn",
    "femnist_cnn_unpadded",
    "from_equinox",
    "from_flax",
    "from_haiku",
    "lenet5",
    "max_pool",
    "mlp",
    "predict",
    "softmax_regression",
    "vgg11",
]
