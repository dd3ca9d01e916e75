"""Networks as values: those of the papers, layers to build others of, and modules of Flax, Equinox and Haiku."""

from .adapted import Adapted, from_equinox, from_flax, from_haiku
from .conv import Route, convolve
from .convolutional import femnist_cnn, femnist_cnn_unpadded, lenet5, vgg9, vgg11
from .dense import mlp, softmax_regression
from .layers import Affine, ChannelsFirst, Conv, Dense, Dropout, Flatten, Layer, MaxPool
from .model import Model, Params
from .pool import max_pool
from .predict import predict
from .recurrent import LSTM, Embedding
from .residual import GroupNorm, MeanPool, Residual, Subsample
from .resnet import resnet
from .text import char_lstm

__all__ = [
    "LSTM",
    "Adapted",
    "Affine",
    "ChannelsFirst",
    "Conv",
    "Dense",
    "Dropout",
    "Embedding",
    "Flatten",
    "GroupNorm",
    "Layer",
    "MaxPool",
    "MeanPool",
    "Model",
    "Params",
    "Residual",
    "Route",
    "Subsample",
    "char_lstm",
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
    "resnet",
    "softmax_regression",
    "vgg9",
    "vgg11",
]
