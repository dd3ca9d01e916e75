"""Problems with a name, for the command line and study files.

Each is a function of plain numbers. `data_seed` draws the data and has nothing to do with the seed of a run.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np

from .. import memory, problems
from ..errors import InputError
from ..gate import Count, NotNegative, Positive, Seed
from ..problems.base import Problem
from .named import least_squares_on, logistic
from .networks import network
from .schema import Partition
from .sites import sites
from .table_words import Marks
from .tables import csv


def digits(
    clients: Count = 10,
    classes: Count = 2,
    alpha: Positive = 1.0,
    l2: NotNegative = 1.0,
    split: Literal["odd", "high"] = "odd",
    data_seed: Seed = 0,
) -> Problem:
    """Handwritten digits (1,797 images of 8×8 pixels, embedded): logistic regression, each client a few classes only.

    `split`: what is told apart, "odd" (odd from even) or "high" (5–9 from 0–4). `classes` and `alpha` steer the partition:
    how many classes a client holds, and how evenly a class is shared out (clients are of unequal size). Pixels are centred
    and scaled to unit mean square norm; the last feature is a constant.
    """
    from .. import data

    targets = {"odd": lambda digit: digit % 2 == 1, "high": lambda digit: digit >= 5}
    loaded = data.load("digits")
    pixels = np.concatenate([loaded.train.x, loaded.test.x]).reshape(-1, 64).astype(np.float64)
    labels = np.concatenate([loaded.train.y, loaded.test.y])
    centred = (pixels - pixels.mean(axis=0)) / np.sqrt(pixels.var(axis=0).sum())
    features = np.hstack([centred, np.ones((len(centred), 1))])
    signs = np.where(targets[split](labels), 1.0, -1.0)
    parts = data.exdir(labels, clients=clients, classes=classes, alpha=alpha, seed=data_seed)
    return problems.logistic([features[rows] for rows in parts], [signs[rows] for rows in parts], l2=l2)


def least_squares(
    clients: Count | None = None,
    samples: Count | None = None,
    dim: Count | None = None,
    alpha: NotNegative | None = None,
    noise: NotNegative | None = None,
    data_seed: Seed = 0,
    data: str | None = None,
    partition: Partition | None = None,
    positive: Marks | None = None,
    intercept: bool = True,
    standardise: Literal["federated", "none"] = "federated",
    weights: Literal["samples", "clients"] = "samples",
    data_dir: str | None = None,
) -> Problem:
    """FedLin's problem (14): b_i = A_i x_i + noise with x_i ~ N(u_i, 1), u_i ~ N(0, alpha): clients differ by alpha.

    A_i (`samples` × `dim`, 500 × 100, of 20 `clients`) is standard normal; `alpha` (10) and `noise` (0.5) are variances.
    With `data` instead the least squares of a data set with a name, such as diabetes: of the number to predict, or of +1 and
    −1 for the class or classes `positive` and all others. `partition`, `intercept`, `standardise`, `weights` as for logistic.
    """
    made_up = {"samples": samples, "dim": dim, "alpha": alpha, "noise": noise}
    if data is not None:
        if given := [key for key, entry in made_up.items() if entry is not None]:
            raise InputError(f"{given[0]} belongs to data that are made up, and data = {data!r}: leave one of them out")
        return least_squares_on(
            data, clients, partition, positive, intercept, standardise, weights, data_seed, data_dir
        )
    if partition is not None or positive is not None or data_dir is not None:
        raise InputError(
            "partition, positive and data_dir belong to data sets with a name: add data=…, such as diabetes"
        )
    return drawn_least_squares(
        20 if clients is None else clients,
        500 if samples is None else samples,
        100 if dim is None else dim,
        10.0 if alpha is None else alpha,
        0.5 if noise is None else noise,
        data_seed,
    )


def drawn_least_squares(clients: int, samples: int, dim: int, alpha: float, noise: float, data_seed: int) -> Problem:
    """FedLin's problem (14) with data drawn by this seed."""
    _fits(2, clients * samples * dim, clients=clients, samples=samples, dim=dim)
    rng = np.random.default_rng(data_seed)
    A = rng.standard_normal((clients, samples, dim))
    centres = np.sqrt(alpha) * rng.standard_normal((clients, 1))
    models = centres + rng.standard_normal((clients, dim))
    b = np.einsum("mnd,md->mn", A, models) + np.sqrt(noise) * rng.standard_normal((clients, samples))
    return problems.least_squares(A, b)


def logistic_synthetic(
    clients: Count = 10, samples: Count = 500, dim: Count = 100, l2: NotNegative = 0.0, data_seed: Seed = 0
) -> Problem:
    """FedLin's appendix K: logistic regression on standard normal features, labels drawn by one true model for all."""
    _fits(2, clients * samples * dim, clients=clients, samples=samples, dim=dim)
    rng = np.random.default_rng(data_seed)
    A = rng.standard_normal((clients, samples, dim))
    truth = rng.standard_normal(dim)
    chance = 1 / (1 + np.exp(-(A @ truth)))
    y = np.where(rng.random((clients, samples)) < chance, 1.0, -1.0)
    return problems.logistic(A, y, l2=l2)


def quadratic(
    clients: Count = 10,
    dim: Count = 20,
    L: Positive = 10.0,
    mu: NotNegative = 1.0,
    heterogeneity: NotNegative = 1.0,
    data_seed: Seed = 0,
) -> Problem:
    """Random quadratics with eigenvalues from mu to L, every client in its own basis, minimisers `heterogeneity` apart."""
    if mu > L:
        raise InputError(f"mu must not exceed L, got mu = {mu}, L = {L}: choose a smaller mu")
    _fits(4, clients * dim**2, clients=clients, dim=dim)
    rng = np.random.default_rng(data_seed)
    bases, _ = np.linalg.qr(rng.standard_normal((clients, dim, dim)))
    eigenvalues = np.sort(rng.uniform(mu, L, (clients, dim)), axis=1)
    eigenvalues[:, 0], eigenvalues[:, -1] = mu, L
    A = (bases * eigenvalues[:, None, :]) @ np.swapaxes(bases, 1, 2)
    A = (A + np.swapaxes(A, 1, 2)) / 2
    minimisers = rng.standard_normal(dim) + heterogeneity * rng.standard_normal((clients, dim))
    return problems.quadratic(A, np.einsum("mij,mj->mi", A, minimisers))


def figure1() -> Problem:
    """FedLin's figure 1: f_1(x) = ½(x − 3)², f_2(x) = (x − 50)², so x* = 103/3."""
    return problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))


def fedsplit(L: Positive = 1000.0, mu: Positive = 1.0) -> Problem:
    """FedLin's appendix J: two clients in the plane on which FedSplit with an odd number of inner steps diverges."""
    if mu > L:
        raise InputError(f"the example needs 0 < mu ≤ L, got mu = {mu}, L = {L}: choose a smaller mu")
    return problems.quadratic(np.array([np.diag([L, mu]), np.diag([mu, mu])]), np.array([[1.0, 1.0], [-1.0, 2.0]]))


def npz(path: str, kind: Literal["auto", "least_squares", "logistic"] = "auto", l2: NotNegative = 0.0) -> Problem:
    """Your own arrays: an .npz file with A and b (least squares) or A and y (logistic regression, labels −1 and 1, or 0 and 1).

    Either A is (clients, samples, dim) and b or y (clients, samples); or A is (samples, dim), b or y (samples,), and an
    array `client` (samples,) says whose each sample is.
    """
    from ..data.formats import read_own_npz  # the room of data takes a second: only those wait who need it
    from ..data.table import TABLES

    if Path(path).suffix.lower() in TABLES:
        raise InputError(f"{path} is a table and no .npz file: say csv:{path}")
    arrays = read_own_npz(Path(path))
    if "A" not in arrays or not ({"b", "y"} & set(arrays)):
        raise InputError(
            f"{path} must hold A and b, or A and y; it holds {', '.join(arrays)[:200] or 'nothing'}: rename or add them"
        )
    if kind == "auto":
        if "b" in arrays and "y" in arrays:
            raise InputError(f'{path} holds both b and y: say kind = "least_squares" or "logistic"')
        kind = "least_squares" if "b" in arrays else "logistic"
    target = "b" if kind == "least_squares" else "y"
    if target not in arrays:
        raise InputError(f"{kind} needs A and {target}; {path} holds {', '.join(arrays)}")
    if target == "b" and l2:
        raise InputError(f"least squares has no l2, got l2 = {l2}: leave it out, or add rows √l2·I to A with 0 in b")
    A, values = _by_client(arrays["A"], arrays[target], arrays.get("client"), path)
    return problems.least_squares(A, values) if target == "b" else problems.logistic(A, _signs(values), l2=l2)


def _signs(labels: Any) -> Any:
    """Labels 0 and 1 (or False and True) as −1 and +1; others as they are."""
    blocks = labels if isinstance(labels, list) else [labels]
    if not all(block.dtype.kind in "biuf" and np.isin(block, (0, 1)).all() for block in blocks):
        return labels
    signs = [np.where(block > 0, 1.0, -1.0) for block in blocks]
    return signs if isinstance(labels, list) else signs[0]


_NAMED = (digits, least_squares, logistic, logistic_synthetic, quadratic, figure1, fedsplit, npz, csv, network, sites)
PROBLEMS: dict[str, Callable[..., Problem]] = {function.__name__: function for function in _NAMED}


def _by_client(A: np.ndarray, values: np.ndarray, client: np.ndarray | None, path: str) -> tuple[Any, Any]:
    if client is None:
        if A.ndim != 3:
            raise InputError(
                f"A in {path} has shape {A.shape}: give (clients, samples, dim), or add an array `client` with one entry "
                "per row"
            )
        return A, values
    if A.ndim != 2 or client.shape != A.shape[:1] or values.shape != A.shape[:1]:
        raise InputError(
            f"with `client`, A must be (samples, dim) and the others (samples,): got A {A.shape}, target {values.shape}, "
            f"client {client.shape}"
        )
    if client.dtype.kind not in "iuUSb" and not (client.dtype.kind == "f" and np.isfinite(client).all()):
        raise InputError(
            f"`client` in {path} must hold finite numbers or names, got {_first_strange(client)}: say whose each sample is"
        )
    groups = [np.flatnonzero(client == name) for name in np.unique(client)]
    return [A[rows] for rows in groups], [values[rows] for rows in groups]


def _first_strange(client: np.ndarray) -> str:
    if client.dtype.kind != "f":
        return f"dtype {client.dtype}"
    row = int(np.flatnonzero(~np.isfinite(client))[0])
    return f"{client[row]} in row {row}"


def _fits(arrays: int, numbers: int, **sizes: int) -> None:
    """Refuse what would need more memory than there is, before it is drawn; `numbers`: how many each of the arrays has."""
    asked = ", ".join(f"{name} = {size}" for name, size in sizes.items())
    memory.require(8 * arrays * numbers, f"a problem with {asked}", f"take a smaller {' or '.join(sizes)}")
