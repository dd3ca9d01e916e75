"""Files made to do harm: pickles that call, archives that swell, headers that lie. Each is refused in words."""

from __future__ import annotations

import gzip
import importlib
import io
import json
import os
import pickle
import subprocess
import sys
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_helpers import idx_bytes
from pickle_parts import BYTES, DEADLY, RECONSTRUCT, array, batch, dtype, name, number, text

from undrift import data
from undrift.data import archives, cifar, formats, sources


def cifar_folder(folder: Path, content: bytes) -> Path:
    folder = folder / "cifar-10-batches-py"
    folder.mkdir(exist_ok=True)
    for batch_name in cifar.BATCHES:
        (folder / batch_name).write_bytes(content)
    return folder


def test_a_batch_as_python_2_wrote_it(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (2, 3072), dtype=np.uint8)
    content = batch(array(content=pixels.tobytes()))
    assert np.array_equal(pickle.loads(content, encoding="bytes")[b"data"], pixels)  # pickle agrees on what it says
    cifar_folder(tmp_path, content)
    d = data.load("cifar10", data_dir=tmp_path, raw=True)
    assert np.array_equal(d.test.x, pixels.reshape(2, 3, 32, 32).transpose(0, 2, 3, 1))
    assert d.test.y.tolist() == [3, 7]


def nested(depth: int) -> bytes:
    return b")" + b"\x85" * depth


CRAFTED = {
    **{words: (batch(crafted), "refused a call of numpy.dtype") for words, crafted in DEADLY.items()},
    "other dtype": (batch(array(kind=dtype("f8"))), "refused a call of numpy.dtype"),
    "dtype made into another": (batch(array(kind=dtype("u1", elsize=8))), "refused to set the state of a ByteType"),
    "shape larger than the bytes": (batch(array((9, 3072))), "needs 27648 bytes, found 6144"),
    "shape smaller than the bytes": (batch(array((1, 3072))), "needs 3072 bytes, found 6144"),
    "negative shape": (batch(array((-2, -3072))), "must have 3072 values per image"),
    "huge shape": (batch(array((2**31 - 1, 3072))), "bytes, found 6144"),
    "one axis": (batch(array((6144,))), "3072 values per image"),
    "other rows": (batch(array((3072, 2))), "3072 values per image"),
    "column after column": (batch(array(fortran=b"\x88")), "row after row"),
    "state of another version": (batch(array(version=7)), "row after row"),
    "no dtype in the state": (batch(array(kind=text("u1"))), "row after row"),
    "state set twice": (batch(array() + b"(tb"), "refused to set the state of a ArrayRecord"),
    "state never set": (batch(RECONSTRUCT), "data must be an array"),
    "state too short": (batch(RECONSTRUCT + b"(tb"), "data must be an array"),
    "state of a list": (batch(b"](tb"), "refused to set the state of a list"),
    "state of a dictionary": (batch(b"}}b"), "refused to set the state of a dict"),
    "state of a name": (batch(name("numpy", "ndarray") + b"}b"), "refused to set the state of numpy.ndarray"),
    "data are text": (batch(text("x" * 6144)), "data must be an array"),
    "os.system": (batch(name("os", "system") + text("true") + b"\x85R"), "refused to load os.system"),
    "posix.system": (batch(name("posix", "system") + text("true") + b"\x85R"), "refused to load posix.system"),
    "builtins.eval": (batch(name("__builtin__", "eval") + text("1") + b"\x85R"), "refused to load __builtin__.eval"),
    "a call of ndarray": (
        batch(name("numpy", "ndarray") + number(9) + b"\x85\x85R"),
        "refused a call of numpy.ndarray",
    ),
    "a call of a list": (batch(b"])R"), "refused a call of a list"),
    "reconstruct of a dtype": (
        batch(name("numpy.core.multiarray", "_reconstruct") + name("numpy", "dtype") + b"K\0\x85U\x01b\x87R"),
        "refused a call of numpy.core.multiarray._reconstruct",
    ),
    "reconstruct with a shape": (
        batch(name("numpy.core.multiarray", "_reconstruct") + name("numpy", "ndarray") + b"K\x09\x85U\x01b\x87R"),
        "refused a call of numpy.core.multiarray._reconstruct",
    ),
    "encode by another codec": (
        batch(name("_codecs", "encode") + text("a") + text("zip") + b"\x86R"),
        "refused a call",
    ),
    "extension 1": (batch(b"\x82\x01"), "refused the operation EXT1"),
    "extension 4": (batch(b"\x84\x01\0\0\0"), "refused the operation EXT4"),
    "persistent id": (batch(b"Pevil\n"), "refused the operation PERSID"),
    "binary persistent id": (batch(text("evil") + b"Q"), "refused the operation BINPERSID"),
    "instance": (batch(b"(ios\nsystem\n"), "refused the operation INST"),
    "object": (batch(b"(" + name("numpy", "ndarray") + b"o"), "refused the operation OBJ"),
    "new object": (batch(name("numpy", "ndarray") + b")\x81"), "refused the operation NEWOBJ"),
    "a name from the stack": (batch(text("os") + text("system") + b"\x93"), "refused the operation STACK_GLOBAL"),
    "a frame that lies": (batch(b"\x95\xff\xff\xff\xff\xff\xff\xff\x7f"), "refused the operation FRAME"),
    "later protocol": (batch(first=b"\x80\x05"), "protocol 2, this one has 5"),
    "text that declares 2 GB": (batch(b"T\xff\xff\xff\x7fabc"), "expected 2147483647 bytes"),
    "text of negative length": (batch(b"T\xff\xff\xff\xffabc"), "byte count < 0"),
    "8-byte length": (batch(b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7f"), "refused the operation BINBYTES8"),
    "number of 10,000 digits": (batch(b"L" + b"9" * 10_000 + b"L\n"), "refused the operation LONG"),
    "list that holds itself": (batch(labels=b"]q\x09h\x09a"), "flat list of whole numbers"),
    "labels in lists in lists": (batch(labels=b"](" + nested(150_000) + b"e"), "flat list of whole numbers"),
    "data in tuples in tuples": (batch(nested(150_000)), "data must be an array"),
    "a deep tuple as a key": (b"\x80\x02}" + nested(150_000) + b"Ns.", "refused a tuple as a key"),
    "a deep tuple as arguments": (batch(name("_codecs", "encode") + nested(150_000) + b"R"), "refused a call"),
    "a deep tuple as a state": (batch(BYTES + nested(150_000) + b"b"), "refused to set the state"),
    "doubling by the memo": (batch(b"(]q\x09" + b"](h\x09h\x09eq\x09" * 50 + b"t"), "data must be an array"),
    "endless operations": (b"\x80\x02" + b"]" * (cifar.MOST_OPERATIONS + 1), "refused more than 200,000 operations"),
    "endless marks": (b"\x80\x02" + b"(" * (cifar.MOST_OPERATIONS + 1), "refused more than 200,000 operations"),
    "nothing on the stack": (b"\x80\x02.", "IndexError"),
    "no mark": (b"\x80\x02t.", "IndexError"),
    "nothing in the memo": (b"\x80\x02h\x05.", "KeyError"),
    "no end": (batch()[:-1], "ends before its last operation"),
    "cut in the middle": (batch()[:3000], "expected 6144 bytes"),
    "empty": (b"", "ends before its last operation"),
    "a list instead": (b"\x80\x02].", "dictionary with data and labels"),
    "no labels": (b"\x80\x02}" + text("data") + array() + b"s.", "dictionary with data and labels"),
    "labels true and false": (batch(labels=b"](\x88\x89e"), "flat list of whole numbers"),
    "labels as text": (batch(labels=text("37")), "flat list of whole numbers"),
    "a label too few": (batch(labels=b"]K\x03a"), "2 images and 1 labels"),
    "an odd number of items": (b"\x80\x02}(" + text("data") + b"u.", "refused to set 1 items"),
    "items of a list": (b"\x80\x02](NNu.", "refused to set 2 items of a list"),
    "appended to a dictionary": (b"\x80\x02}(NNe.", "refused to append to a dict"),
    "appended to a name": (batch(name("numpy", "ndarray") + b"(NNe"), "refused to append to numpy.ndarray"),
    "characters that are no bytes": (
        batch(array(content=b"").replace(text(b"") + b"tb", b"X" + b"\0\x24\0\0" + "\u20ac".encode() * 3072 + b"tb")),
        "found 3072",
    ),
}


@pytest.mark.parametrize("crafted", CRAFTED)
def test_crafted_pickles_are_refused(crafted: str, tmp_path: Path) -> None:
    content, reason = CRAFTED[crafted]
    folder = cifar_folder(tmp_path, content)
    with pytest.raises(data.DataError) as caught:
        data.load("cifar10", data_dir=tmp_path)
    said = str(caught.value)
    assert reason in said
    assert said.startswith(f"{folder} must be CIFAR-10 for Python")
    assert "remove it and fetch it again" in said


READS = """
import sys
from pathlib import Path
from undrift.data import cifar
from undrift.data.errors import DataError
for folder in sys.argv[1:]:
    try:
        cifar.read_cifar(Path(folder))
    except DataError:
        print("refused")
"""


def test_deadly_pickles_do_not_end_the_process(tmp_path: Path) -> None:
    """In a process of their own: with pickle, each of them ended it by SIGSEGV."""
    folders = []
    for place, crafted in enumerate(DEADLY.values()):
        (tmp_path / str(place)).mkdir()
        folders.append(str(cifar_folder(tmp_path / str(place), batch(crafted))))
    done = subprocess.run([sys.executable, "-c", READS, *folders], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.split()) == (0, ["refused"] * len(DEADLY)), done.stderr


def test_nothing_of_pickle_or_numpy_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("a pickle was run")

    for attribute in ("Unpickler", "load", "loads"):
        monkeypatch.setattr(pickle, attribute, never)
    for module, attribute in (("_codecs", "encode"), ("numpy", "ndarray"), ("numpy", "dtype")):
        monkeypatch.setattr(importlib.import_module(module), attribute, never)
    assert cifar.decode(batch())[0].shape == (2, 32, 32, 3)


def test_a_batch_is_limited_before_it_is_read(tmp_path: Path) -> None:
    folder = cifar_folder(tmp_path, b"")
    with (folder / "data_batch_1").open("wb") as file:
        file.truncate(cifar.LARGEST_BATCH + 1)  # a sparse file: takes no room on the disk
    with pytest.raises(data.DataError, match=r"the file must be at most 67.1 MB, it has 67.1 MB"):
        data.load("cifar10", data_dir=tmp_path)


# ----- archives
def member(name: str, content: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in fields.items():
        setattr(info, key, value)
    return info, content


def tar_bytes(members: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


GOOD = [member(f"cifar-10-batches-py/{name}", batch()) for name in cifar.BATCHES]
LINK = {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}
TARS = {
    "a symbolic link": ([member("data_batch_1", **LINK), *GOOD[1:]], "one ordinary file, it is a link"),
    "a hard link": ([member("data_batch_1", type=tarfile.LNKTYPE, linkname="x"), *GOOD[1:]], "one ordinary file"),
    "a device": ([member("data_batch_1", type=tarfile.CHRTYPE), *GOOD[1:]], "one ordinary file"),
    "a pipe": ([member("data_batch_1", type=tarfile.FIFOTYPE), *GOOD[1:]], "one ordinary file"),
    "a directory": ([member("data_batch_1", type=tarfile.DIRTYPE), *GOOD[1:]], "one ordinary file"),
    "the same twice": ([*GOOD, GOOD[0]], "or there twice"),
    "one missing": (GOOD[:-1], "it lacks test_batch"),
    "too many members": ([member(f"x{i}") for i in range(archives.MOST_MEMBERS + 1)], "at most 1000 members"),
    "nothing in it": ([], "it lacks data_batch_1"),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("case", TARS)
def test_tar_archives(case: str, packed: bool, tmp_path: Path) -> None:
    members, reason = TARS[case]
    content = tar_bytes(members)
    path = tmp_path / "cifar-10-python.tar.gz"
    path.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(data.DataError, match=reason):
        data.load("cifar10", data_dir=tmp_path)


def test_names_in_an_archive_lead_nowhere(tmp_path: Path) -> None:
    path = tmp_path / "in" / "cifar-10-python.tar.gz"
    path.parent.mkdir()
    away = [member(f"../../{info.name}", content) for info, content in GOOD]
    path.write_bytes(gzip.compress(tar_bytes([member("/tmp/x"), *away])))
    assert data.load("cifar10", data_dir=path.parent).train.x.shape == (10, 32, 32, 3)
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == [path.name]  # nothing was unpacked


def test_a_tar_bomb_is_refused_by_its_declared_and_by_its_actual_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cifar-10-python.tar.gz"
    monkeypatch.setitem(sources._CIFAR, "cifar10", cifar.CIFAR10._replace(largest=10**6))
    path.write_bytes(gzip.compress(tar_bytes([member("data_batch_1", bytes(10**6 + 1))])))
    with pytest.raises(data.DataError, match="data_batch_1 must be at most 1 MB, it has 1 MB"):
        data.load("cifar10", data_dir=tmp_path)
    monkeypatch.setattr(cifar, "LARGEST_ARCHIVE", 3 * 10**6)
    path.write_bytes(gzip.compress(tar_bytes([member("filler", bytes(10**7)), *GOOD])))
    with pytest.raises(data.DataError, match="what is packed must be at most 3 MB"):
        data.load("cifar10", data_dir=tmp_path)
    header = member("data_batch_1")[0]
    header.size = 8 * 2**30
    path.write_bytes(gzip.compress(header.tobuf()))
    with pytest.raises(data.DataError, match=r"data_batch_1 must be at most 1 MB, it has 8\.59 GB"):
        data.load("cifar10", data_dir=tmp_path)


# ----- IDX
def read_idx(folder: Path, content: bytes) -> None:
    (folder / "file").write_bytes(content)
    formats.read_idx(folder / "file")


def test_idx_files_that_lie(tmp_path: Path) -> None:
    pixels = idx_bytes(np.zeros((2, 3), np.uint8))
    header = bytes([0, 0, 8, 3]) + np.array([2**31, 2**31, 2**31], ">u4").tobytes()
    cases = {
        "needs 9903520314283042199192993792 bytes, at most 1073741824 are read": header,
        "what is packed must be at most 6 bytes, it is more": gzip.compress(pixels + bytes(10**7)),
        "shape (2, 3) needs 6 bytes, found 5": gzip.compress(pixels[:-1]),
        "unknown first bytes 000008": pixels[:3],
        "unknown first bytes ": b"",
    }
    for reason, content in cases.items():
        with pytest.raises(data.DataError) as caught:
            read_idx(tmp_path, content)
        assert reason in str(caught.value)


# ----- npz
def npy(shape: str = "(2,)", descr: str = "<f8", body: bytes = bytes(16), version: int = 1) -> bytes:
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + len(header).to_bytes(2, "little") + header + body


def npz(path: Path, method: int = zipfile.ZIP_DEFLATED, **arrays: bytes) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for key, content in arrays.items():
            archive.writestr(f"{key}.npy", content)
    return path


def pickled_npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


NPZ = {
    "shape larger than the member": (
        npy("(10**12,)".replace("10**12", str(10**12))),
        "8000000000000 bytes, but has 16",
    ),
    "shape smaller than the member": (npy("(1,)"), "declares shape (1,) of float64, 8 bytes, but has 16"),
    "negative shape": (npy("(-1, -2)"), "declares shape (-1, -2)"),
    "an axis without end": (npy("(0, 2**80)".replace("2**80", str(2**80)), body=b""), "an npz file"),
    "shape of text": (npy("('a',)"), "an npz file"),
    "Python objects": (
        pickled_npy(np.array([{}, print], object)),
        "holds Python objects, which would run code when read",
    ),
    "objects in fields": (
        pickled_npy(np.zeros(2, [("a", "O"), ("b", "f8")])),
        "holds Python objects, which would run code when read",
    ),
    "a header of 60,000 characters": (npy("(" + "1, " * 20_000 + ")"), "an npz file"),
    "a header that nests": (npy("(" * 5000 + ")" * 5000), "an npz file"),
    "a header that calls": (npy("(__import__('os').getpid(),)"), "an npz file"),
    "another version": (npy(version=3), "version (3, 0) of the npy format"),
    "no npy at all": (b"hello", "an npz file"),
    "nothing": (b"", "an npz file"),
}


@pytest.mark.parametrize("case", NPZ)
def test_npz_members_that_lie(case: str, tmp_path: Path) -> None:
    content, reason = NPZ[case]
    with pytest.raises(data.DataError) as caught:
        formats.read_npz(npz(tmp_path / "a.npz", x=content), ["x"])
    assert reason in str(caught.value)


def test_npz_files_are_read_as_numpy_reads_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {
        "matrix": rng.standard_normal((3, 4)),
        "columns": np.asfortranarray(rng.standard_normal((3, 4))),
        "number": np.array(3.5),
        "empty": np.zeros((0, 4), np.int16),
        "words": np.array(["a", "bcd"]),
        "big_endian": np.arange(5, dtype=">i4"),
        "flags": np.array([True, False]),
        "large": rng.integers(0, 9, 3_000_000, dtype=np.uint8),
    }
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "a.npz", **arrays)
        found = archives.npz_arrays(tmp_path / "a.npz")
        assert list(found) == list(arrays)
        for key, saved in arrays.items():
            assert np.array_equal(found[key], saved)
            assert (found[key].dtype, found[key].flags.writeable) == (saved.dtype, True)


def test_a_zip_bomb_is_refused_by_its_declared_size(tmp_path: Path) -> None:
    path = npz(tmp_path / "bomb.npz", x=npy("(2000000,)", "|u1", bytes(2 * 10**6)))
    assert path.stat().st_size < 10_000
    with pytest.raises(archives.TooLarge, match="the arrays together must be at most 1 MB, it has 2 MB"):
        archives.npz_arrays(path, most=10**6)


def with_a_lie(path: Path, member: bytes, declared: int) -> Path:
    """The same file, but it declares fewer bytes than are packed, and the checksum of those."""
    content = path.read_bytes()
    for whole, lie in ((len(member), declared), (zlib.crc32(member), zlib.crc32(member[:declared]))):
        true = whole.to_bytes(4, "little")
        assert content.count(true) == 2  # before the member, and in the directory at the end
        content = content.replace(true, lie.to_bytes(4, "little"))
    path.write_bytes(content)
    return path


def test_no_more_of_a_zip_is_unpacked_than_it_declares(tmp_path: Path) -> None:
    swollen = npy("(2000000,)", "|u1", bytes(2 * 10**6))
    path = with_a_lie(npz(tmp_path / "a.npz", x=swollen), swollen, 1000)
    with pytest.raises(data.DataError, match=r"declares shape \(2000000,\) of uint8, 2000000 bytes, but has 872"):
        formats.read_npz(path, ["x"])
    modest = npy("(872,)", "|u1", bytes(2 * 10**6))
    path = with_a_lie(npz(tmp_path / "b.npz", x=modest), modest, 1000)
    assert formats.read_npz(path, ["x"])[0].shape == (872,)
    path = npz(tmp_path / "c.npz", x=modest)
    path.write_bytes(path.read_bytes().replace(len(modest).to_bytes(4, "little"), (1000).to_bytes(4, "little")))
    with pytest.raises(data.DataError, match=r"Bad CRC-32"):
        formats.read_npz(path, ["x"])


def test_zip_files_of_other_kinds(tmp_path: Path) -> None:
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):  # unpacked in one piece, whatever its size
        with pytest.raises(data.DataError, match="only stored and deflated arrays are read"):
            formats.read_npz(npz(tmp_path / "a.npz", method, x=npy()), ["x"])
    with zipfile.ZipFile(tmp_path / "many.npz", "w") as archive:
        for i in range(archives.MOST_MEMBERS + 1):
            archive.writestr(f"{i}.npy", b"")
    with pytest.raises(data.DataError, match="at most 1000 arrays, this one has 1001"):
        formats.read_npz(tmp_path / "many.npz", ["x"])
    with zipfile.ZipFile(tmp_path / "twice.npz", "w") as archive:
        archive.writestr("x.npy", npy())
        archive.writestr("x", npy())
    with pytest.raises(data.DataError, match="every array must be there once"):
        formats.read_npz(tmp_path / "twice.npz", ["x"])
    damaged = bytearray(npz(tmp_path / "damaged.npz", zipfile.ZIP_STORED, x=npy()).read_bytes())
    damaged[damaged.index(b"\x93NUMPY") + 130] ^= 1
    (tmp_path / "damaged.npz").write_bytes(damaged)
    with pytest.raises(data.DataError, match="Bad CRC-32"):
        formats.read_npz(tmp_path / "damaged.npz", ["x"])


# ----- what is no file
def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place, reason in ((tmp_path, "it is a directory"), (tmp_path / "pipe", "it is a pipe")):
        with pytest.raises(data.DataError, match=reason):
            formats.read_npz(place, ["x"])
    with pytest.raises(data.DataError, match=r"cannot be a path .*embedded null"):
        formats.read_npz(tmp_path / "a\0b", ["x"])
    for place in (tmp_path / "none.npz", tmp_path / "pipe" / "none.npz"):
        with pytest.raises(data.MissingDataError, match="does not exist"):
            formats.read_npz(place, ["x"])


# ----- LEAF
def leaf(**changes: Any) -> str:
    user = {"x": [[0.5] * 784], "y": [3]} | changes.pop("user", {})
    return json.dumps({"users": ["a"], "num_samples": [1], "user_data": {"a": user}} | changes)


LEAF = {
    "fractional labels": (leaf(user={"y": [0.5]}), "whole numbers y, found float64 and float64"),
    "labels as text": (leaf(user={"y": ["3"]}), "whole numbers y"),
    "images as text": (leaf(user={"x": [["0.5"] * 784]}), "numbers x"),
    "ragged images": (leaf(user={"x": [[0.5], [0.5, 1.0]], "y": [1, 2]}), "ValueError"),
    "more labels": (leaf(user={"y": [1, 2]}), "user a has 1 images and labels of shape (2,)"),
    "labels in lists": (leaf(user={"y": [[3]]}), "labels of shape (1, 1)"),
    "one label alone": (leaf(user={"y": 3}), "TypeError"),
    "a user twice": (leaf(users=["a", "a"]), "users must be a list of names, each once"),
    "users as text": (leaf(users="a"), "users must be a list of names, each once"),
    "users as numbers": (leaf(users=[1]), "users must be a list of names, each once"),
    "a user without data": (leaf(users=["b"]), "KeyError: 'b'"),
    "data as a list": (leaf(user_data=[]), "TypeError"),
    "deep nesting": ("[" * 100_000, "RecursionError"),
    "a number of 10,000 digits": (leaf().replace("[3]", "[" + "9" * 10_000 + "]"), "ValueError"),
    "a number beyond 64 bits": (leaf(user={"y": [2**70]}), "whole numbers y, found float64 and object"),
    "bytes": (b"\xff\xfe\x00\x01", "must be a LEAF file"),
    "empty": ("", "must be a LEAF file"),
    "no object": ("[1, 2]", "must be a LEAF file"),
}


@pytest.mark.parametrize("case", LEAF)
def test_leaf_files(case: str, tmp_path: Path) -> None:
    content, reason = LEAF[case]
    for part in ("train", "test"):
        (tmp_path / "femnist" / part).mkdir(parents=True)
        path = tmp_path / "femnist" / part / "a.json"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(data.DataError) as caught:
        data.load("femnist", data_dir=tmp_path)
    assert reason in str(caught.value)
