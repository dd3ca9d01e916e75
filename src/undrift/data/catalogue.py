"""The table of known data sets: what they are, where they come from, and how a copy is recognised.

Checksums are the published ones. MNIST: the sha256 of the four IDX files. Fashion-MNIST, CIFAR-10 and CIFAR-100: the md5 on
their authors' pages. QMNIST (the writers of MNIST): the md5 used by torchvision. Heart disease: the sha256 of the four
processed UCI files, whose values the embedded table has. `digest` is the sha256 of the decoded arrays (see `verify.digest`),
the same whatever the file format.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from undrift.data.errors import DataError

DIGITS = tuple("0123456789")
CLOTHES = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
THINGS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
# LEAF numbers the 62 characters of NIST: digits, capitals, small letters.
CHARACTERS = tuple("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
# Those of LEAF's Shakespeare, in its order: character c of a line is the number SHAKESPEARE_CHARACTERS.index(c).
SHAKESPEARE_CHARACTERS = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
LINE = 80  # characters of a line of Shakespeare's, after which the next one is to be said
FINE_THINGS = (
    "apple", "aquarium_fish", "baby", "bear", "beaver", "bed", "bee", "beetle", "bicycle", "bottle", "bowl", "boy",
    "bridge", "bus", "butterfly", "camel", "can", "castle", "caterpillar", "cattle", "chair", "chimpanzee", "clock",
    "cloud", "cockroach", "couch", "crab", "crocodile", "cup", "dinosaur", "dolphin", "elephant", "flatfish", "forest",
    "fox", "girl", "hamster", "house", "kangaroo", "keyboard", "lamp", "lawn_mower", "leopard", "lion", "lizard",
    "lobster", "man", "maple_tree", "motorcycle", "mountain", "mouse", "mushroom", "oak_tree", "orange", "orchid",
    "otter", "palm_tree", "pear", "pickup_truck", "pine_tree", "plain", "plate", "poppy", "porcupine", "possum",
    "rabbit", "raccoon", "ray", "road", "rocket", "rose", "sea", "seal", "shark", "shrew", "skunk", "skyscraper",
    "snail", "snake", "spider", "squirrel", "streetcar", "sunflower", "sweet_pepper", "table", "tank", "telephone",
    "television", "tiger", "tractor", "train", "trout", "tulip", "turtle", "wardrobe", "whale", "willow_tree", "wolf",
    "woman", "worm",
)  # fmt: skip
HEART = ("age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak", "slope", "ca", "thal")
DIABETES = ("age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6")
HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")


@dataclass(frozen=True)
class RemoteFile:
    """A file to download: its name, its checksum as "algorithm:hex", and the base addresses that hold it."""

    name: str
    checksum: str
    bases: tuple[str, ...]


@dataclass(frozen=True)
class Entry:
    """One data set of the catalogue. Without names of classes a number is predicted."""

    name: str
    summary: str
    licence: str
    class_names: tuple[str, ...]
    sample_shape: tuple[int, ...]
    sizes: tuple[int, int] | None
    digest: str | None
    files: tuple[RemoteFile, ...] = ()
    builds_on: str | None = None
    obtain: str = ""
    greatest: int = 255  # value of a pixel, or number of a character
    embedded: bool = False  # comes with the installation and needs neither files nor network
    form: Literal["images", "table", "text"] = "images"
    features: tuple[str, ...] = ()  # names of the columns of a table
    natural: bool = False  # its groups are its clients, unless somebody asks for another partition

    @property
    def downloadable(self) -> bool:
        """True when a download with a known checksum exists, and is needed."""
        return bool(self.files) and not self.embedded


_MNIST = ("https://ossci-datasets.s3.amazonaws.com/mnist", "https://storage.googleapis.com/cvdf-datasets/mnist")
_FASHION = (
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
)
_QMNIST = ("https://raw.githubusercontent.com/facebookresearch/qmnist/master",)
_CIFAR = ("https://www.cs.toronto.edu/~kriz",)
_HEART = ("https://archive.ics.uci.edu/ml/machine-learning-databases/heart-disease",)


_IDX = tuple(f"{split}-{what}-ubyte.gz" for split in ("train", "t10k") for what in ("images-idx3", "labels-idx1"))


def _files(bases: tuple[str, ...], names: Iterable[str], *checksums: str) -> tuple[RemoteFile, ...]:
    return tuple(RemoteFile(name, checksum, bases) for name, checksum in zip(names, checksums, strict=True))


_ENTRIES = (
    Entry(
        name="digits",
        summary="handwritten digits, 8×8 grey, 1,797 samples; comes with scikit-learn",
        licence="CC BY 4.0 (UCI)",
        class_names=DIGITS,
        sample_shape=(8, 8, 1),
        sizes=(1438, 359),
        digest="3fc6ac339abc107fb2e651b80bb27dfd0163885b4d9e818825e1632fcb84f0d9",
        greatest=16,
        embedded=True,
    ),
    Entry(
        name="mnist",
        summary="handwritten digits, 28×28 grey, 60,000 + 10,000",
        licence="CC BY-SA 3.0",
        class_names=DIGITS,
        sample_shape=(28, 28, 1),
        sizes=(60_000, 10_000),
        digest="06b0d1f124c4e5fa796686ade41a9b778edacc8622f2195a352ef479ad44fc16",
        files=_files(
            _MNIST,
            _IDX,
            "sha256:440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "sha256:3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "sha256:8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "sha256:f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
        obtain="put mnist.npz, or the four IDX files in a folder mnist/, into the data directory",
    ),
    Entry(
        name="fmnist",
        summary="Fashion-MNIST, articles of clothing, 28×28 grey, 60,000 + 10,000",
        licence="MIT (Zalando)",
        class_names=CLOTHES,
        sample_shape=(28, 28, 1),
        sizes=(60_000, 10_000),
        digest="ca3ab2a37f845e1b8ae23cab1b51749a3011ba3bf1d9016176d75cbaabac376f",
        files=_files(
            _FASHION,
            _IDX,
            "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "md5:25c81989df183df01b3e8a0aad5dffbe",
            "md5:bef4ecab320f06d8554ea6380940ec79",
            "md5:bb300cfdad3c16e7a12a480ee83cd310",
        ),
        obtain="put fmnist.npz, or the four IDX files in a folder fmnist/, into the data directory",
    ),
    Entry(
        name="cifar10",
        summary="CIFAR-10, objects in colour, 32×32×3, 50,000 + 10,000",
        licence="see https://www.cs.toronto.edu/~kriz/cifar.html",
        class_names=THINGS,
        sample_shape=(32, 32, 3),
        sizes=(50_000, 10_000),
        digest="80387ddb9a0edf3fc4a964ee3770296169bb26a651050df20035579673099660",
        files=(RemoteFile("cifar-10-python.tar.gz", "md5:c58f30108f718f92721af3b95e74349a", _CIFAR),),
        obtain="put cifar10.npz, cifar-10-python.tar.gz or its folder cifar-10-batches-py/ into the data directory",
    ),
    Entry(
        name="cifar100",
        summary="CIFAR-100, 100 kinds of objects in colour, 32×32×3, 50,000 + 10,000",
        licence="see https://www.cs.toronto.edu/~kriz/cifar.html",
        class_names=FINE_THINGS,
        sample_shape=(32, 32, 3),
        sizes=(50_000, 10_000),
        digest=None,
        files=(RemoteFile("cifar-100-python.tar.gz", "md5:eb9058c3a382ffc7106e4002c42a8d85", _CIFAR),),
        obtain="put cifar100.npz, cifar-100-python.tar.gz or its folder cifar-100-python/ into the data directory",
    ),
    Entry(
        name="femnist",
        summary="FEMNIST of LEAF, 62 characters by 3,597 writers, 28×28 grey; group = writer",
        licence="BSD-2-Clause (LEAF); NIST Special Database 19",
        class_names=CHARACTERS,
        sample_shape=(28, 28, 1),
        sizes=None,
        digest=None,
        obtain=(
            "LEAF publishes no finished file, it builds one: clone https://github.com/TalwalkarLab/leaf, run "
            "data/femnist/preprocess.sh -s niid --sf 1.0 -k 0 -t sample, and put the folders train/ and test/ that it "
            "makes into femnist/ in the data directory"
        ),
    ),
    Entry(
        name="shakespeare",
        summary="Shakespeare of LEAF, the next of 80 characters after 80, by speaker; group = speaker",
        licence="BSD-2-Clause (LEAF); the plays are in the public domain",
        class_names=tuple(SHAKESPEARE_CHARACTERS),
        sample_shape=(LINE,),
        sizes=None,
        digest=None,
        greatest=len(SHAKESPEARE_CHARACTERS) - 1,
        form="text",
        natural=True,
        obtain=(
            "LEAF publishes no finished file, it builds one: clone https://github.com/TalwalkarLab/leaf, run "
            "data/shakespeare/preprocess.sh -s niid --sf 1.0 -k 0 -t sample -tf 0.8, and put the folders train/ and test/ "
            "that it makes into shakespeare/ in the data directory"
        ),
    ),
    Entry(
        name="mnist-writers",
        summary="MNIST with the NIST writer of every image (from QMNIST); group = writer",
        licence="BSD-style (QMNIST labels)",
        class_names=DIGITS,
        sample_shape=(28, 28, 1),
        sizes=(60_000, 10_000),
        digest="d8240e94510df1aa8281d40962844f3402268185bf8214a6186ab6450c2c20ff",
        files=(
            RemoteFile("qmnist-train-labels-idx2-int.gz", "md5:0058f8dd561b90ffdd0f734c6a30e5e4", _QMNIST),
            RemoteFile("qmnist-test-labels-idx2-int.gz", "md5:5b5b05890a5e13444e108efe57b788aa", _QMNIST),
        ),
        builds_on="mnist",
        obtain="put mnist_writers.npz, or the two QMNIST label files in a folder qmnist/, into the data directory",
    ),
    Entry(
        name="heart",
        summary="UCI heart disease, 13 features, 920 patients of four hospitals; group = hospital; comes with undrift",
        licence="CC BY 4.0 (UCI)",
        class_names=("healthy", "disease"),
        sample_shape=(13,),
        sizes=(735, 185),
        digest="8f54efb300903a71e0a9c9794ab07a58de5cd2305520d7dc3d0f056a9bb523b2",
        files=_files(
            _HEART,
            (f"processed.{hospital}.data" for hospital in HOSPITALS),
            "sha256:a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8",
            "sha256:d1ad108f785768cd3d7e82dc522e6f5a61eea93cccfb3a46ee8076f73fc3d796",
            "sha256:834a405ccf5b66ab4056bb77794adc8df0b7125186454c0a1d002d33c6c3b314",
            "sha256:e7c93d8d0d2acdadfa4c5e8de768e2191e7f618b952e29623f1f0d5949ff6b8f",
        ),
        obtain="put heart_disease.npz, or the four processed.*.data files in a folder heart/, into the data directory",
        embedded=True,
        form="table",
        features=HEART,
        natural=True,
    ),
    Entry(
        name="diabetes",
        summary="progress of diabetes after a year (a number), 10 features, 442 patients; comes with scikit-learn",
        licence="none is stated; published with Efron et al., Least angle regression, Annals of Statistics 2004",
        class_names=(),
        sample_shape=(10,),
        sizes=(354, 88),
        digest="08fa08bf020c2b3624afd7bad6bad9bc139ee9b338b3cb9c0ba7af9822c2d838",
        embedded=True,
        form="table",
        features=DIABETES,
    ),
)
_BY_NAME = {entry.name: entry for entry in _ENTRIES}


def catalogue() -> tuple[Entry, ...]:
    """All data sets that `load` knows.

    >>> [entry.name for entry in catalogue()]
    ['digits', 'mnist', 'fmnist', 'cifar10', 'cifar100', 'femnist', 'shakespeare', 'mnist-writers', 'heart', 'diabetes']
    """
    return _ENTRIES


def entry(name: str) -> Entry:
    """The entry of one data set; an unknown name is answered with the nearest known one.

    >>> entry("mnist").sample_shape
    (28, 28, 1)
    """
    if name in _BY_NAME:
        return _BY_NAME[name]
    near = difflib.get_close_matches(str(name).lower().replace("_", "-"), _BY_NAME, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise DataError(f"a data set must be one of {', '.join(_BY_NAME)}; got {name!r}: {hint}choose one of them.")
