"""One's own data at the command line: npz files that must be refused, and problems that do not fit into memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from hostile_case import Case
from hostile_files import MISSING, OBJECTS, STORAGE, npy, saved, zipped

RUN = ("run", "--method", "fedlin:eta=0.01", "--rounds", "2", "--out", "r", "--problem")
RNG = np.random.default_rng(0)
A, B, Y = RNG.standard_normal((3, 4, 2)), RNG.standard_normal((3, 4)), np.ones((3, 4))
FLAT = {"A": A.reshape(12, 2), "b": B.ravel(), "client": np.repeat([0, 1, 2], 4)}


def with_entry(array: np.ndarray, place: tuple[int, ...], value: Any) -> np.ndarray:
    changed = np.array(array, np.result_type(array, type(value)))
    changed[place] = value
    return changed


# ----- one's own npz file, at the command line
def of_npz(name: str, content: Any, *says: str, options: str = "", code: int = 2) -> Case:
    return Case(f"npz: {name}", says, (*RUN, f"npz:own.npz{options}"), files={"own.npz": content}, code=code)


def of_arrays(name: str, changes: dict[str, Any], *says: str, base: dict[str, Any] | None = None) -> Case:
    arrays = {**(base or {"A": A, "b": B}), **changes}
    return of_npz(name, saved(**{key: value for key, value in arrays.items() if value is not None}), *says)


FORM = "own.npz must be an .npz file of numbers"
AGAIN = "save it again with np.savez"
LOGISTIC = {"A": A, "y": Y}
NPZ = [
    of_arrays(
        "no clients", {"A": A[:0], "b": B[:0]}, "at least one client", "got shape (0, 4, 2)", "one block per client"
    ),
    of_arrays("no samples", {"A": A[:, :0], "b": B[:, :0]}, "at least one sample", "client 0 has none", "leave it out"),
    of_arrays("no columns", {"A": A[:, :, :0]}, "at least one column", "got shape (3, 4, 0)", "d ≥ 1"),
    of_arrays("one number as b", {"b": np.array(3.0)}, "b must have one entry per row", "array(3.)", "give an array"),
    of_arrays("one number per client", {"b": B[:, 0]}, "b must have one entry per row", "one number per client"),
    of_arrays("b of three axes", {"b": B[:, :, None]}, "b must have one entry per row of A", "of shape (1,)"),
    of_arrays(
        "b too short", {"b": B[:, :3]}, "b must have one entry per row of A", "A has rows [4, 4, 4], b [3, 3, 3]"
    ),
    of_arrays("b of fewer clients", {"b": B[:2]}, "b must have one entry per row of A", "b [4, 4]"),
    of_arrays(
        "A of two axes", {"A": A[0]}, "has shape (4, 2)", "give (clients, samples, dim)", "add an array `client`"
    ),
    of_arrays("A of four axes", {"A": A[None]}, "has shape (1, 3, 4, 2)", "give (clients, samples, dim)"),
    of_arrays("A is one number", {"A": np.array(1.0)}, "has shape ()", "give (clients, samples, dim)"),
    of_arrays(
        "NaN in A", {"A": with_entry(A, (1, 2, 0), np.nan)}, "A must be finite", "client 1, row 2", "is nan", "clean"
    ),
    of_arrays(
        "infinity in A", {"A": with_entry(A, (0, 0, 1), np.inf)}, "A must be finite", "entry [0, 0, 1]", "is inf"
    ),
    of_arrays(
        "NaN in b", {"b": with_entry(B, (2, 3), np.nan)}, "b must be finite", "client 2, row 3", "clean the data"
    ),
    of_arrays(
        "1e200", {"A": with_entry(A, (1, 1, 1), 1e200)}, "must stay below", "client 1, row 1", "1e+200", "rescale"
    ),
    of_arrays("1e200 in b", {"b": with_entry(B, (0, 1), -1e200)}, "b must stay below", "-1e+200", "rescale the data"),
    of_arrays(
        "1e20 in float32",
        {"A": with_entry(A, (0, 0, 0), 1e20).astype(np.float32), "b": B.astype(np.float32)},
        *("must stay below", "added in float32", "rescale the data"),
    ),
    of_arrays("complex A", {"A": A + 1j}, "A must be real numbers", "complex128", "real and imaginary parts"),
    of_arrays("complex b", {"b": B * 1j}, "b must be real numbers", "complex128", "real and imaginary parts"),
    of_arrays("dates", {"A": A.astype("M8[s]")}, "A must be real numbers", "datetime64[s]", "convert dates to numbers"),
    of_arrays("durations", {"b": B.astype("m8[s]")}, "b must be real numbers", "timedelta64[s]", "convert durations"),
    of_arrays("text", {"A": A.astype(str)}, "A must be real numbers", "<U32", "convert it to numbers"),
    of_arrays("bytes in A", {"A": A.astype("S")}, "A must be real numbers", "|S32", "convert it to numbers"),
    of_arrays("fields", {"A": np.zeros((3, 4, 2), [("u", "f8")])}, "A must be real numbers", "'u'", "convert it"),
    of_arrays("no A", {"A": None}, "must hold A and b, or A and y", "it holds b", "rename or add them"),
    of_arrays("no target", {"b": None}, "must hold A and b, or A and y", "it holds A", "rename or add them"),
    of_npz("nothing in it", saved(), "must hold A and b, or A and y", "it holds nothing", "rename or add them"),
    of_arrays("both targets", {"y": Y}, "holds both b and y", 'say kind = "least_squares" or "logistic"'),
    of_arrays(
        "labels −1, 0 and 1",
        {"y": with_entry((B > 0) * 1, (0, 0), -1)},
        "labels must be −1 or +1",
        "got 0",
        "pass 2*y − 1",
        base=LOGISTIC,
    ),
    of_arrays("labels 1 and 2", {"y": Y + (B > 0)}, "labels must be −1 or +1", "got 2.0", "2*y − 1", base=LOGISTIC),
    of_arrays("labels NaN", {"y": Y * np.nan}, "labels must be −1 or +1", "got nan", base=LOGISTIC),
    of_arrays("labels as text", {"y": Y.astype(str)}, "y must be real numbers", "<U32", "convert", base=LOGISTIC),
    of_arrays("labels complex", {"y": Y * 1j}, "y must be real numbers", "complex128", base=LOGISTIC),
    of_arrays(
        "NaN in client",
        {"client": with_entry(FLAT["client"], (5,), np.nan)},
        "`client`",
        "nan in row 5",
        "whose",
        base=FLAT,
    ),
    of_arrays(
        "infinity in client",
        {"client": with_entry(FLAT["client"], (7,), np.inf)},
        "`client`",
        "inf in row 7",
        base=FLAT,
    ),
    of_arrays("complex client", {"client": FLAT["client"] * 1j}, "finite numbers or names", "complex128", base=FLAT),
    of_arrays(
        "dates in client", {"client": FLAT["client"].astype("M8[D]")}, "numbers or names", "datetime64", base=FLAT
    ),
    of_arrays("client too short", {"client": FLAT["client"][:7]}, "must be (samples, dim)", "client (7,)", base=FLAT),
    of_arrays("client of two axes", {"client": FLAT["client"][:, None]}, "(samples,)", "client (12, 1)", base=FLAT),
    of_arrays("client with A of three axes", {"A": A}, "must be (samples, dim)", "A (3, 4, 2)", base=FLAT),
    of_arrays(
        "no rows at all", {k: v[:0] for k, v in FLAT.items()}, "at least one client", "got", "one block per client"
    ),
    of_npz(
        "l2 on least squares", saved(A=A, b=B), "least squares has no l2", "l2 = 0.1", "leave it out", options=",l2=0.1"
    ),
    of_npz("negative l2", saved(A=A, y=Y), "l2 must be a number ≥ 0", "got -1", "leave it out", options=",l2=-1"),
    of_npz("l2 NaN", saved(A=A, y=Y), "l2", "finite", "nan", options=",l2=nan"),
    of_npz("l2 in words", saved(A=A, y=Y), "l2 must be a", "number", "'much'", options=",l2=much"),
    of_npz("kind unknown", saved(A=A, b=B), "kind", "'linear'", options=",kind=linear"),
    of_npz(
        "kind without its target", saved(A=A, b=B), "logistic needs A and y", "holds A, b", options=",kind=logistic"
    ),
    of_npz("key unknown", saved(A=A, b=B), "unknown", "'kinds'", "did you mean 'kind'", options=",kinds=logistic"),
    of_npz("empty file", b"", FORM, "BadZipFile", AGAIN),
    of_npz("text file", "1,2\n3,4\n", FORM, "BadZipFile", AGAIN),
    of_npz("bytes", bytes(range(256)) * 8, FORM, "BadZipFile", AGAIN),
    of_npz("cut", saved(A=A, b=B)[:-30], FORM, "BadZipFile", AGAIN),
    of_npz("one npy, not zipped", npy("(2,)"), FORM, "BadZipFile", AGAIN),
    of_npz("a damaged array", zipped(**{"A.npy": b"PNG", "b.npy": npy("(2,)")}), FORM, "magic string", AGAIN),
    of_npz("objects", saved(A=np.array([[{}]], object), b=B), FORM, OBJECTS, "store numbers"),
    of_npz("objects in a spare array", saved(A=A, b=B, notes=np.array([None], object)), FORM, OBJECTS, AGAIN),
    of_npz("a pickle as a member", zipped(**{"A.npy": b"\x80\x04N."}), FORM, "magic string", AGAIN),
    of_npz(
        "a header that lies",
        zipped(**{"A.npy": npy(f"({10**15},)")}),
        FORM,
        "8000000000000000 bytes, but has 16",
        AGAIN,
    ),
    of_npz("a header that calls", zipped(**{"A.npy": npy("(__import__('os').getpid(),)")}), FORM, "ValueError", AGAIN),
    of_npz("a header that nests", zipped(**{"A.npy": npy("(" * 3000 + ")" * 3000)}), FORM, "must be", AGAIN),
    of_npz("negative shape", zipped(**{"A.npy": npy("(-2,)")}), FORM, "declares shape (-2,)", AGAIN),
    of_npz(
        "two of a name",
        zipped(**{"A.npy": npy("(2,)"), "A": npy("(2,)")}),
        FORM,
        "every array must be there once",
        AGAIN,
    ),
    of_npz(
        "a thousand and one arrays", zipped(**{f"{i}": b"" for i in range(1001)}), "at most 1000 arrays", "1001", AGAIN
    ),
    of_npz("a directory", Path.mkdir, "must be a file", "it is a directory", "name the file itself"),
    of_npz("a pipe", os.mkfifo, "must be a file", "it is a pipe", "name the file itself"),
    of_npz(
        "a link to nothing", lambda p: p.symlink_to("gone"), "does not exist", "gone", "check the path", code=MISSING
    ),
    Case("npz: missing", ("does not exist", "none.npz", "check the path"), (*RUN, "npz:none.npz"), code=MISSING),
    Case(
        "npz: below a file",
        ("does not exist", "f/a.npz", "a part of its path is a file"),
        (*RUN, "npz:f/a.npz"),
        files={"f": "x"},
        code=MISSING,
    ),
    Case("npz: no path", ("needs path", "npz"), (*RUN, "npz")),
    Case(
        "npz: name too long",
        ("cannot be written or read", "too long", "shorter"),
        (*RUN, f"npz:{'n' * 300}"),
        code=STORAGE,
    ),
]

# ----- what would not fit into memory
BIG = [
    Case(
        f"memory: {problem}",
        (f"{needs} of memory", *asked, "this machine has", "take a smaller"),
        (*RUN, problem),
    )
    for problem, needs, *asked in (
        ("least_squares:dim=100000000", "16 TB", "dim = 100000000"),
        ("least_squares:clients=2000000000,dim=2000000000", "3.2e+04 EB", "clients = 2000000000", "dim = 2000000000"),
        ("logistic_synthetic:samples=2000000000", "32 TB", "samples = 2000000000"),
        ("quadratic:dim=100000000", "3.2 EB", "dim = 100000000"),
        ("quadratic:clients=2000000000", "25.6 TB", "clients = 2000000000"),
    )
]

CASES = [*NPZ, *BIG]
