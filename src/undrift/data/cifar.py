"""CIFAR-10 and CIFAR-100 for Python, whose batches are pickles, read without pickle.

A pickle is a small program, and `pickle.Unpickler` runs it: it looks names up and calls what it finds with what the file
says. Restricting the names to NumPy's is not enough: `ndarray.__setstate__` with a crafted state reads memory that is not
its own. So nothing of the file is run here. `_Machine` knows the few operations that the published batches consist of, and
the only values it can make are whole numbers, True, False, None, text, lists, tuples, dictionaries with text as keys, and
the three inert records below. No name is looked up and no function is called: the four names that the published files mention
are compared as text. Any other operation or name ends the reading. Only then is the record of the array checked (one
byte per value, shape and length agree) and handed to `np.frombuffer`.

The arguments of operations are read by the standard library's `pickletools`, made to look at pickles without running them.
"""

from __future__ import annotations

import io
import math
import pickletools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from undrift.data.archives import contents, damage_named, tar_members
from undrift.data.sets import Array

BATCHES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
LARGEST_BATCH = 2**26  # bytes; the published ones have 31 million
LARGEST_ARCHIVE = 2**28  # the published one unpacks to 186 million
MOST_OPERATIONS = 200_000  # the published ones need some 30,000; every one may take memory
ROW = 3 * 32 * 32


class Form(NamedTuple):
    """Which files an archive has, and what their labels are called."""

    called: str
    train: tuple[str, ...]
    test: str
    labels: str = "labels"
    largest: int = LARGEST_BATCH
    operations: int = MOST_OPERATIONS

    @property
    def files(self) -> tuple[str, ...]:
        return (*self.train, self.test)


CIFAR10 = Form("CIFAR-10 for Python", BATCHES[:5], BATCHES[5])
# One file of 155 million bytes, with two labels and the name of a file for each of 50,000 images
CIFAR100 = Form("CIFAR-100 for Python", ("train",), "test", "fine_labels", 2**28, 2_000_000)


class Refused(ValueError):
    """An operation, a name or a value that the published files do not have."""


class _Name(NamedTuple):
    """What the file calls a class or a function; here no more than its name."""

    module: str
    name: str


class _ByteType(NamedTuple):
    """What the file describes as `dtype("u1")`."""


class _ArrayRecord:
    """What the file describes as an array: its state, once it was given."""

    state: Any = None


_RECONSTRUCT = tuple(_Name(f"numpy.{core}.multiarray", "_reconstruct") for core in ("core", "_core"))
_NDARRAY, _DTYPE, _ENCODE = _Name("numpy", "ndarray"), _Name("numpy", "dtype"), _Name("_codecs", "encode")
_NAMES = {*_RECONSTRUCT, _NDARRAY, _DTYPE, _ENCODE}
_BYTE_STATE = (3, "|", None, None, None, -1, -1, 0)


class _Machine:
    """The stack, the marks and the memo of a pickle of the second protocol, for its inert operations."""

    def __init__(self) -> None:
        self.pile: list[Any] = []
        self.below: list[list[Any]] = []
        self.memo: dict[int, Any] = {}

    def run(self, data: bytes, most: int) -> Any:
        """What the file describes, in at most so many operations."""
        stream = io.BytesIO(data)
        for _ in range(most):
            code = stream.read(1)
            if code == b".":
                return self.pile.pop()
            if not code:
                raise Refused("the file ends before its last operation")
            if code not in _OPERATIONS:
                raise Refused(f"refused the operation {_called(code)} at byte {stream.tell() - 1}")
            reader, act = _OPERATIONS[code]
            act(self, None if reader is None else reader(stream))
        raise Refused(f"refused more than {most:,} operations")

    def mark(self, _: Any) -> None:
        self.below.append(self.pile)
        self.pile = []

    def since_mark(self) -> list[Any]:
        found = self.pile
        self.pile = self.below.pop()
        return found

    def remember(self, place: int) -> None:
        self.memo[place] = self.pile[-1]

    def recall(self, place: int) -> None:
        self.pile.append(self.memo[place])

    def last_as_tuple(self, count: int) -> None:
        items = [self.pile.pop() for _ in range(count)]
        self.pile.append(tuple(reversed(items)))

    def since_mark_as_tuple(self, _: Any) -> None:
        items = self.since_mark()
        self.pile.append(tuple(items))

    def append(self, items: Iterable[Any]) -> None:
        target = self.pile[-1]
        if type(target) is not list:
            raise Refused(f"refused to append to {_kind(target)}")
        target.extend(items)

    def set_items(self, items: list[Any]) -> None:
        target = self.pile[-1]
        if type(target) is not dict or len(items) % 2:
            raise Refused(f"refused to set {len(items)} items of {_kind(target)}")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if type(key) is not str:  # the hash of a deep tuple would exhaust the stack of the process
                raise Refused(f"refused {_kind(key)} as a key")
            target[key] = value

    def name(self, words: str) -> None:
        module, _, name = words.partition(" ")
        found = _Name(module, name)
        if found not in _NAMES:
            raise Refused(f"refused to load {f'{module}.{name}'[:80]}")
        self.pile.append(found)

    def reduce(self, _: Any) -> None:
        """A call in the file becomes a record, if it is one of the three that the published files have."""
        arguments, function = self.pile.pop(), self.pile.pop()
        if type(function) is not _Name or type(arguments) is not tuple:
            raise Refused(f"refused a call of {_kind(function)}")
        if function in _RECONSTRUCT and arguments in ((_NDARRAY, (0,), "b"),):
            self.pile.append(_ArrayRecord())
        elif function == _DTYPE and arguments in (("u1", False, True), ("|u1", False, True)):
            self.pile.append(_ByteType())
        elif function == _ENCODE and len(arguments) == 2 and type(arguments[0]) is str and arguments[1] == "latin1":
            self.pile.append(arguments[0])  # bytes, as the second protocol writes them under Python 3
        else:
            raise Refused(f"refused a call of {function.module}.{function.name} with other arguments than published")

    def build(self, _: Any) -> None:
        state, target = self.pile.pop(), self.pile[-1]
        if type(target) is _ArrayRecord and target.state is None and type(state) is tuple:
            target.state = state
        elif not (type(target) is _ByteType and type(state) is tuple and state == _BYTE_STATE):
            raise Refused(f"refused to set the state of {_kind(target)}")


def _operations() -> dict[bytes, tuple[Callable[[Any], Any] | None, Callable[[_Machine, Any], None]]]:
    def push(m: _Machine, value: Any) -> None:
        m.pile.append(value)

    acts: dict[str, Callable[[_Machine, Any], None]] = {
        **dict.fromkeys(("BININT", "BININT1", "BININT2", "LONG1", "SHORT_BINSTRING", "BINSTRING", "BINUNICODE"), push),
        "PROTO": lambda m, version: _check_protocol(version),
        "NONE": lambda m, _: m.pile.append(None),
        "NEWTRUE": lambda m, _: m.pile.append(True),
        "NEWFALSE": lambda m, _: m.pile.append(False),
        "EMPTY_LIST": lambda m, _: m.pile.append([]),
        "EMPTY_DICT": lambda m, _: m.pile.append({}),
        "EMPTY_TUPLE": lambda m, _: m.pile.append(()),
        "TUPLE1": lambda m, _: m.last_as_tuple(1),
        "TUPLE2": lambda m, _: m.last_as_tuple(2),
        "TUPLE3": lambda m, _: m.last_as_tuple(3),
        "TUPLE": _Machine.since_mark_as_tuple,
        "APPEND": lambda m, _: m.append([m.pile.pop()]),
        "APPENDS": lambda m, _: m.append(m.since_mark()),
        "SETITEM": lambda m, _: m.set_items([m.pile.pop() for _ in range(2)][::-1]),
        "SETITEMS": lambda m, _: m.set_items(m.since_mark()),
        "MARK": _Machine.mark,
        "BINPUT": _Machine.remember,
        "LONG_BINPUT": _Machine.remember,
        "BINGET": _Machine.recall,
        "LONG_BINGET": _Machine.recall,
        "GLOBAL": _Machine.name,
        "REDUCE": _Machine.reduce,
        "BUILD": _Machine.build,
    }
    known = {op.name: op for op in pickletools.opcodes}
    arguments: dict[str, Any] = {name: known[name].arg for name in acts}
    return {
        known[name].code.encode("latin-1"): (arguments[name] and arguments[name].reader, act)
        for name, act in acts.items()
    }


def _check_protocol(version: int) -> None:
    if version > 2:
        raise Refused(f"the published batches have protocol 2, this one has {version}")


def _called(code: bytes) -> str:
    names = {op.code.encode("latin-1"): op.name for op in pickletools.opcodes}
    return names.get(code, code.hex())


def _kind(value: Any) -> str:
    """What a value is, never its content: that may be deep, or large."""
    return f"{value.module}.{value.name}" if type(value) is _Name else f"a {type(value).__name__.strip('_')}"


_OPERATIONS = _operations()


def decode(data: bytes, form: Form = CIFAR10) -> tuple[Array, Array]:
    """Images (N, 32, 32, 3) and labels (N,) of one batch.

    >>> import pickle
    >>> batch = pickle.dumps({b"data": np.ones((2, 3072), np.uint8), b"labels": [3, 7]}, protocol=2)
    >>> images, labels = decode(batch)
    >>> images.shape, labels.tolist()
    ((2, 32, 32, 3), [3, 7])
    """
    batch = _Machine().run(data, form.operations)
    if type(batch) is not dict or not {"data", form.labels} <= batch.keys():
        raise Refused(f"a batch must be a dictionary with data and {form.labels}")
    images = _bytes_of(batch["data"])
    labels = batch[form.labels]
    if type(labels) is not list or any(type(label) is not int for label in labels):
        raise Refused("labels must be a flat list of whole numbers")
    if len(labels) != len(images):
        raise Refused(f"there must be one label per image, found {len(images)} images and {len(labels)} labels")
    return images.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), np.array(labels, np.int64)


def _bytes_of(record: Any) -> Array:
    """The array that a record describes, made from its bytes alone."""
    state = record.state if type(record) is _ArrayRecord else None
    if state is None or len(state) != 5:
        raise Refused("data must be an array")
    version, shape, dtype, fortran, text = state
    if version != 1 or type(dtype) is not _ByteType or fortran not in (False, 0) or type(text) is not str:
        raise Refused("data must be an array of one byte per value, row after row")
    if (
        type(shape) is not tuple
        or len(shape) != 2
        or any(type(n) is not int or n < 0 for n in shape)
        or shape[1] != ROW
    ):
        raise Refused(f"data must have {ROW} values per image")
    if math.prod(shape) != len(text):
        raise Refused(f"shape {shape} needs {math.prod(shape)} bytes, found {len(text)}")
    return np.frombuffer(text.encode("latin-1"), np.uint8).reshape(shape)


def read_cifar(path: Path, form: Form = CIFAR10) -> list[Array]:
    """Read the published archive or its folder: x_train, y_train, x_test, y_test (NHWC)."""
    with damage_named(path, form.called):
        if path.is_dir():
            found = {name: contents(path / name, form.largest) for name in form.files}
        else:
            found = tar_members(path, form.files, form.largest, LARGEST_ARCHIVE)
        images, labels = zip(*(decode(found.pop(name), form) for name in form.files), strict=True)
        return [np.concatenate(images[:-1]), np.concatenate(labels[:-1]), images[-1], labels[-1]]
