"""Arrays and partitions given to the library that must be refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from hostile_case import Case

import undrift as ud

RNG = np.random.default_rng(0)
A, B, Y = RNG.standard_normal((3, 4, 2)), RNG.standard_normal((3, 4)), np.ones((3, 4))


def of_call(name: str, call: Callable[[], Any], *says: str, code: int = 2) -> Case:
    return Case(f"library: {name}", says, call=call, code=code)


P = ud.problems
HESSIANS, LINEAR = np.stack([np.eye(2)] * 3), np.ones((3, 2))
X, LABELS, PARTS = np.zeros((6, 2), np.float32), np.array([0, 1, 2, 0, 1, 2]), [[0, 1, 2], [3, 4, 5]]


def net(train: Any = (X, LABELS), parts: Any = PARTS, **options: Any) -> Any:
    return P.network(ud.models.mlp((4,), classes=3, input=(2,)), train, parts, **options)


def off(x: Any, t: Any) -> Any:
    return jnp.sum((x - t) ** 2)


REAL, PARTS_OF = "must be real numbers", "give real and imaginary parts"
CASES = [
    of_call(
        "an empty client",
        lambda: P.least_squares([A[0], A[1][:0]], [B[0], B[1][:0]]),
        "at least one sample",
        "client 1 has none",
        "leave it out",
    ),
    of_call(
        "an empty client, logistic",
        lambda: P.logistic([A[0], A[1][:0]], [Y[0], Y[1][:0]]),
        "one sample",
        "client 1 has none",
        "leave it out",
    ),
    of_call(
        "complex block",
        lambda: P.least_squares([A[0], A[1] * 1j], [B[0], B[1]]),
        "A of client 1 " + REAL,
        "complex128",
        PARTS_OF,
    ),
    of_call("complex quadratic", lambda: P.quadratic(HESSIANS * 1j, LINEAR), "A " + REAL, "complex128", PARTS_OF),
    of_call(
        "complex b of a quadratic", lambda: P.quadratic(HESSIANS, LINEAR * 1j), "b " + REAL, "complex128", PARTS_OF
    ),
    of_call(
        "objects", lambda: P.least_squares(A.astype(object), B), "A " + REAL, "object", "convert what is no number"
    ),
    of_call(
        "masked", lambda: P.least_squares(np.ma.masked_less(A, 0), B), "A " + REAL, "masked", "fill or leave them out"
    ),
    of_call(
        "ragged rows",
        lambda: P.least_squares([[[1.0, 2.0], [3.0]]], [[1.0, 2.0]]),
        "A of client 0",
        "differ in length",
        "mend them",
    ),
    of_call(
        "ragged columns",
        lambda: P.least_squares([A[0], A[1][:, :1]], B[:2]),
        "agree in their last dimensions",
        "[(1,), (2,)]",
    ),
    of_call("text for A", lambda: P.least_squares("abc", B), "A must have one entry per row", "'abc'", "give an array"),
    of_call(
        "nothing for b", lambda: P.least_squares(A, None), "b must have one entry per row", "None", "give an array"
    ),
    of_call(
        "a dictionary", lambda: P.least_squares({"A": A}, B), "A must have one entry per row", "{'A'", "give an array"
    ),
    of_call("no blocks", lambda: P.logistic([], []), "at least one client", "empty list", "one block per client"),
    of_call(
        "an empty quadratic",
        lambda: P.quadratic(HESSIANS[:0], LINEAR[:0]),
        "shape (m, d, d)",
        "got (0, 2, 2)",
        "m ≥ 1 clients",
    ),
    of_call(
        "d = 0", lambda: P.quadratic(np.zeros((2, 0, 0)), np.zeros((2, 0))), "shape (m, d, d)", "got (2, 0, 0)", "d ≥ 1"
    ),
    of_call(
        "NaN in a quadratic",
        lambda: P.quadratic(HESSIANS * np.nan, LINEAR),
        "A must be finite",
        "client 0, row 0",
        "clean",
    ),
    of_call(
        "1e200 in a quadratic", lambda: P.quadratic(HESSIANS * 1e200, LINEAR), "must stay below", "1e+200", "rescale"
    ),
    of_call(
        "1e200 in logistic regression",
        lambda: P.logistic(A * 1e200, Y),
        "must stay below",
        "is 1.2573022109339328e+199",
        "rescale the data",
    ),
    of_call(
        "infinity in float16",
        lambda: P.least_squares(np.full((1, 2, 2), np.inf, np.float16), np.ones((1, 2), np.float16)),
        "A must be finite",
        "is inf",
        "clean",
    ),
    of_call(
        "spectral in words",
        lambda: P.quadratic(HESSIANS, LINEAR, spectral="no"),
        "spectral must be True, False or None",
        "'no'",
        "choose",
    ),
    of_call(
        "l2 in words",
        lambda: P.logistic(A, Y, l2="much"),
        "l2 must be finite and ≥ 0",
        "got 'much'",
        "choose such a number",
    ),
    of_call(
        "l2 true", lambda: P.logistic(A, Y, l2=True), "l2 must be finite and ≥ 0", "got True", "choose such a number"
    ),
    of_call(
        "l2 complex", lambda: P.logistic(A, Y, l2=1j), "l2 must be finite and ≥ 0", "got 1j", "choose such a number"
    ),
    of_call(
        "weights complex", lambda: P.least_squares(A, B, weights=[1, 1, 1j]), "weights " + REAL, "complex128", PARTS_OF
    ),
    of_call(
        "weights as text", lambda: P.least_squares(A, B, weights=["1", "1", "1"]), "weights " + REAL, "<U1", "convert"
    ),
    of_call(
        "weights whose sum overflows",
        lambda: P.least_squares(A, B, weights=[1e308] * 3),
        "weights must be finite",
        "1.e+308",
        "correct",
    ),
    of_call(
        "weights negative",
        lambda: P.least_squares(A, B, weights=[1, 1, -1]),
        "weights must be finite, ≥ 0",
        "-1",
        "correct them",
    ),
    of_call(
        "weights all zero",
        lambda: P.least_squares(A, B, weights=[0, 0, 0]),
        "not all zero",
        "[0. 0. 0.]",
        "correct them",
    ),
    of_call(
        "weights NaN",
        lambda: P.least_squares(A, B, weights=[1, 1, np.nan]),
        "weights must be finite",
        "nan",
        "correct them",
    ),
    of_call("weights too few", lambda: P.least_squares(A, B, weights=[1, 1]), "one entry per client", "got (2,)"),
    of_call("network, complex", lambda: net((X * 1j, LABELS)), "train inputs " + REAL, "complex64", PARTS_OF),
    of_call(
        "network, dates",
        lambda: net((X.astype("M8[s]"), LABELS)),
        "train inputs " + REAL,
        "datetime64",
        "convert dates",
    ),
    of_call(
        "network, NaN", lambda: net((X * np.nan, LABELS)), "train inputs must be finite", "sample 0", "clean the data"
    ),
    of_call(
        "network, no samples", lambda: net((X[:0], LABELS[:0])), "at least one sample", "got inputs of shape (0, 2)"
    ),
    of_call("network, no pair", lambda: net(X), "an object with x and y, or a pair", "ndarray"),
    of_call(
        "network, complex test data", lambda: net(test=(X * 1j, LABELS)), "test inputs " + REAL, "complex64", PARTS_OF
    ),
    of_call(
        "network, a mask",
        lambda: net(parts=[LABELS == 0, LABELS == 1]),
        "samples by whole numbers",
        "dtype bool",
        "flatnonzero",
    ),
    of_call(
        "network, fractional parts",
        lambda: net(parts=[[0.5], [1]]),
        "samples by whole numbers",
        "float64",
        "give indices",
    ),
    of_call(
        "network, negative parts",
        lambda: net(parts=[[-1], [1]]),
        "name sample -1",
        "only 0 … 5",
        "correct the partition",
    ),
    of_call(
        "network, parts in lists",
        lambda: net(parts=[[[0]], [[1]]]),
        "samples by whole numbers",
        "shape (1, 1)",
        "indices",
    ),
    of_call("network, parts a number", lambda: net(parts=3), "one list of samples per client", "got 3"),
    of_call(
        "network, nobody", lambda: net(parts=[]), "at least one client", "got none", "one list of samples per client"
    ),
    of_call(
        "network, train_sample 0",
        lambda: net(train_sample=0),
        "train_sample must be a whole number ≥ 1",
        "got 0",
        "correct",
    ),
    of_call(
        "network, train_sample 2.5",
        lambda: net(train_sample=2.5),
        "train_sample must be a whole number",
        "got 2.5",
        "correct",
    ),
    of_call(
        "network, cut in words", lambda: net(cut="half"), "cut must be a whole number of layers", "'half'", "correct it"
    ),
    of_call("custom, dim 0", lambda: P.custom(off, B, 0), "must be a whole number ≥ 1", "got 0", "correct it"),
    of_call("custom, dim true", lambda: P.custom(off, B, True), "must be a whole number ≥ 1", "got True", "correct it"),
    of_call("custom, dim 2.5", lambda: P.custom(off, B, 2.5), "must be a whole number ≥ 1", "got 2.5", "correct it"),
    of_call("custom, complex", lambda: P.custom(off, B * 1j, 4), "data " + REAL, "complex128", PARTS_OF),
    of_call(
        "custom, objects", lambda: P.custom(off, [{"t": object()}], 4), "data of client 0 " + REAL, "object", "convert"
    ),
    of_call("custom, nothing", lambda: P.custom(off, {}, 4), "at least one array", "got {}", "give the numbers"),
    of_call("custom, no clients", lambda: P.custom(off, B[:0], 4), "at least one client", "(0, 4)"),
    of_call("custom, one number", lambda: P.custom(off, 3.0, 4), "leading axes of clients", "[()]", "reshape them"),
    of_call(
        "custom, no samples",
        lambda: P.custom(off, np.ones(3), 4, per_sample=True),
        "clients and samples",
        "[(3,)]",
        "reshape",
    ),
    of_call(
        "custom, forms differ",
        lambda: P.custom(off, [{"t": B}, {"u": B}], 4),
        "data of the same form",
        "differ",
        "mend them",
    ),
    of_call(
        "custom, x* too short",
        lambda: P.custom(off, B, 4, optimum=(np.ones(3), 0.0)),
        "must be 4 finite numbers",
        "shape (3,)",
    ),
    of_call(
        "custom, f* NaN",
        lambda: P.custom(off, B, 4, optimum=(np.ones(4), np.nan)),
        "f* of optimum must be finite",
        "nan",
        "choose",
    ),
    of_call(
        "custom, L NaN",
        lambda: P.custom(off, B, 4, constants=(np.nan, 0.0)),
        "L of constants must be finite",
        "nan",
        "choose",
    ),
    of_call("clients true", lambda: ud.data.iid(10, True), "clients must be a whole number", "got True", "pass an int"),
    of_call(
        "clients as text", lambda: ud.data.iid(10, "3"), "clients must be a whole number", "got '3'", "pass an int"
    ),
    of_call(
        "alpha as text",
        lambda: ud.data.dirichlet(LABELS, 2, "much"),
        "alpha must be finite",
        "got 'much'",
        "a small alpha",
    ),
    of_call(
        "alpha of 400 digits",
        lambda: ud.data.dirichlet(LABELS, 2, 10**400),
        "alpha must be finite",
        "got 1000",
        "a small",
    ),
    of_call(
        "alpha true", lambda: ud.data.dirichlet(LABELS, 2, True), "alpha must be finite", "got True", "a small alpha"
    ),
    of_call(
        "NUL in the path of a map", lambda: ud.data.from_map("a\0b", 3), "cannot be a path", "a\\x00b", "correct it"
    ),
    of_call(
        "NUL in the data directory",
        lambda: ud.data.load("heart", data_dir="a\0b"),
        "data directory must exist",
        "create it",
    ),
    of_call(
        "samples as text",
        lambda: ud.data.from_map({"0": [0]}, "many"),
        "number of samples must be",
        "'many'",
        "pass an int",
    ),
    of_call(
        "an unknown way to fill in", lambda: ud.data.load("digits", impute="median"), "impute", "'median'", "choose one"
    ),
    of_call(
        "a partition beyond memory",
        lambda: ud.data.dirichlet(LABELS, 10**15, 1.0, min_size=0),
        *("of memory", f"{10**15} clients", "take fewer clients"),
    ),
    of_call(
        "ExDir beyond memory",
        lambda: ud.data.exdir(LABELS, 10**15, 2, 1.0, min_size=0),
        *("of memory", f"{10**15} clients", "take fewer clients"),
    ),
    of_call(
        "alpha NaN", lambda: ud.data.dirichlet(LABELS, 2, np.nan), "finite and above 0", "got nan", "a small alpha"
    ),
    of_call("alpha 0", lambda: ud.data.exdir(LABELS, 2, 2, 0.0), "finite and above 0", "got 0.0", "a large one"),
    of_call(
        "no classes", lambda: ud.data.pathological(LABELS, 2, 0), "classes must be at least 1", "got 0", "raise classes"
    ),
    of_call("minimum negative", lambda: ud.data.iid(9, 2, min_size=-1), "at least 0", "got -1", "raise min_size"),
]
