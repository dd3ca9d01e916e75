"""A method's rounds on quadratics, for a grid of step sizes side by side: in closed form, or played without local loops.

On quadratics every method here is a recursion on d×d matrices or in the clients' eigenbases: affine for all but FedLin with
TOP-k, where the recursion is exact too: x⁺ = x − Q g with Q = Σ w_i η_i S_i, g = TOP-k(e + ∇f(x)).
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from itertools import count, islice
from typing import Any

import numpy as np

from ..errors import InputError
from ..plan import Plan, full, geometric_steps, uniform
from ..problems.base import Problem
from ..recipe import Method
from .quadratics import Quadratics
from .round_map import LocalSteps, RoundMap, in_turn

RACE = 600  # rounds that recursions are played before their speed is extrapolated
RACE_IN_TURN = 500  # sequential FL is dear to play
FAR = 10**7  # rounds beyond which nobody waits

Map = Callable[[Quadratics, Mapping[str, Any], Any], RoundMap]


@dataclasses.dataclass(frozen=True)
class Recursion:
    """What a predicted path depends on."""

    make: Callable[[float], Method]  # from a step size
    step: float  # one of the right order
    steps: np.ndarray  # τ_i
    q: Quadratics  # the problem, or its second-order model
    point: np.ndarray  # where that model was taken
    x0: np.ndarray
    problem: Problem
    seed: int = 0  # of the orders in which clients play in turn

    def values(self, grid: Any) -> dict[str, Any]:
        """Numbers and settings of the method: plain for one step size, numbers as arrays for a grid of them."""
        if np.ndim(grid) == 0:
            return self.make(float(grid)).parameters
        made = [self.make(float(step)) for step in grid]
        return {
            **made[0].parameters,
            **{name: np.array([one.numbers[name] for one in made]) for name in made[0].numbers},
        }


class Path(abc.ABC):
    """The gaps of a method on a quadratic, for a grid of step sizes side by side."""

    race = RACE
    extrapolates = True
    settles = False  # whether `floors` are where it ends, in closed form

    def __init__(self, recursion: Recursion, made: Map | None = None) -> None:
        self.recursion, self.q, self.x0, self.steps = recursion, recursion.q, recursion.x0, recursion.steps
        self.made = made
        self.start = float(self.q.gap(self.x0))

    @abc.abstractmethod
    def play(self, grid: np.ndarray) -> Iterator[np.ndarray]:
        """x_0, x_1, …: the models of all step sizes, (d, k) each."""

    def rounds(self, grid: np.ndarray, target: float) -> np.ndarray:
        """The first round from which on the gap stays at or below the target, ∞ where that is not seen."""
        last_above = np.full(len(grid), -1.0)
        gaps = np.full(len(grid), self.start)
        early = np.full(len(grid), np.inf)
        arrived = np.zeros(len(grid), bool)
        t, stop = 0, self.race
        with np.errstate(all="ignore"):
            for t, x in enumerate(islice(self.play(grid), self.race + 1)):
                gaps = np.nan_to_num(self.q.gap(x), nan=np.inf)
                last_above[gaps > target] = t
                if t == self.race // 2:
                    early = gaps
                arrived = t - last_above > 10 + 0.3 * last_above  # it has stayed below for a while
                if np.any(arrived) and stop == self.race:
                    stop = min(self.race, 3 * t)  # slower ones may win on the other model
                if t >= stop or (t > 20 and np.all(gaps > 1e6 * self.start)):
                    break
        found = np.where(arrived, last_above + 1, np.inf)
        nobody = t == self.race and not np.any(arrived)
        if self.extrapolates and nobody:  # go on at the speed of the second half
            with np.errstate(all="ignore"):
                speed = np.log(early / gaps) / (self.race - self.race // 2)
                more = np.log(gaps / target) / speed
            found = np.where((speed > 1e-7) & (self.race + more < FAR), np.ceil(self.race + more), np.inf)
        return found

    def gaps(self, grid: np.ndarray, rounds: int) -> np.ndarray:
        """(k, rounds + 1)."""
        with np.errstate(all="ignore"):
            return np.stack([self.q.gap(x) for x in islice(self.play(grid), rounds + 1)], axis=1)

    def floors(self, grid: np.ndarray) -> np.ndarray:
        """The largest relative gap in the last quarter of the race, for methods that need not arrive."""
        found = np.zeros(len(grid))
        with np.errstate(all="ignore"):
            for t, x in enumerate(islice(self.play(grid), self.race + 1)):
                if t > 3 * self.race // 4:
                    found = np.maximum(found, np.nan_to_num(self.q.gap(x), nan=np.inf))
        return found / self.start


class ClosedForm(Path):
    """Maps on x with real rates."""

    settles = True

    def map(self, step: float) -> RoundMap:
        assert self.made is not None
        return self.made(self.q, self.recursion.values(float(step)), self.steps)

    def play(self, grid: np.ndarray) -> Iterator[np.ndarray]:
        raise NotImplementedError

    def rounds(self, grid: np.ndarray, target: float) -> np.ndarray:
        found = [self.map(float(step)).rounds_to(target, self.x0, FAR) for step in grid]
        return np.array([np.inf if rounds is None else rounds for rounds in found], float)

    def gaps(self, grid: np.ndarray, rounds: int) -> np.ndarray:
        return np.stack([self.map(float(step)).predict(self.x0, rounds) for step in grid])

    def floors(self, grid: np.ndarray) -> np.ndarray:
        maps = [self.map(float(step)) for step in grid]
        ends = [float(m.family.gap(m.limit)) if m.spectral_radius < 1 else np.inf for m in maps]
        return np.asarray(ends) / self.start


class Played(Path):
    """Maps on longer states, played in the clients' eigenbases."""

    def play(self, grid: np.ndarray) -> Iterator[np.ndarray]:
        assert self.made is not None
        made = self.made(self.q, self.recursion.values(grid), self.steps)
        state = np.repeat(made.start(self.x0)[:, None], len(grid), axis=1)
        while True:
            yield made.model(state)
            state = made.apply(state)


class Drifted(Played):
    """Such maps that need not lead to x*: a race that nobody won tells nothing about later rounds."""

    extrapolates = False


class Extrapolated(Path):
    """FedExP: x⁺ = x − η_s Δ̄, Δ_i = ηS_i ∇f_i(x), η_s = max{1, Σ w_i‖Δ_i‖²/(2(‖Δ̄‖² + ε))}."""

    extrapolates = False  # local steps drift: there is a floor

    def play(self, grid: np.ndarray) -> Iterator[np.ndarray]:
        values = self.recursion.values(grid)
        local = LocalSteps.of(self.q, values["eta"], self.steps)
        x = before = np.repeat(self.x0[:, None], len(grid), axis=1)
        while True:
            yield (x + before) / 2 if values["average"] else x
            back = local.apply(self.q.gradients(x))
            mean, square = self.q.mean(back), self.q.weights @ np.sum(back**2, axis=1)
            below = 2 * (np.sum(mean**2, axis=0) + values["epsilon"])
            longer = np.divide(square, below, out=np.ones_like(square), where=below > 0)
            x, before = x - np.maximum(1, longer) * mean, x


class InTurn(Path):
    """Sequential FL in the very orders that a run with this seed draws."""

    race = RACE_IN_TURN
    extrapolates = False  # it need not go on as it began: there is a floor

    def play(self, grid: np.ndarray) -> Iterator[np.ndarray]:
        local = LocalSteps.of(self.q, in_turn(self.q, grid), self.steps)
        x = np.repeat(self.x0[:, None], len(grid), axis=1)
        for order in _orders(self.recursion.seed, self.q.clients):
            yield x
            for i in order:
                x = x - local.one(i, self.q.hessians[i] @ x - self.q.linear[i][:, None])


class InTurnCorrected(Path):
    """Sequential FL with control variates, in the very orders that a run with this seed draws. Linear: there is no floor."""

    race = RACE_IN_TURN

    def play(self, grid: np.ndarray) -> Iterator[np.ndarray]:
        q, m, k = self.q, self.q.clients, len(grid)
        etas = np.broadcast_to(in_turn(q, grid), (m, 1, k))
        local, lengths = LocalSteps.of(q, etas, self.steps), etas * self.steps[:, None, None]
        x, own = np.repeat(self.x0[:, None], k, axis=1), np.zeros((m, q.dim, k))
        c, change = np.zeros((q.dim, k)), np.zeros((q.dim, k))
        for order in _orders(self.recursion.seed, m):
            yield x
            for i in order:
                way = local.one(i, q.hessians[i] @ x - q.linear[i][:, None] - own[i] + c)
                mean = own[i] - c + np.divide(way, lengths[i], out=np.zeros_like(way), where=lengths[i] > 0)
                x, change, own[i] = x - way, change + q.weights[i] * (mean - own[i]), mean
            c, change = c + change, np.zeros_like(change)


class Coins(Path):
    """Scaffnew with the coins that a run with this seed tosses: y_i = x − γS_i(∇f_i(x) − h_i), h_i⁺ = h_i + (p/γ)(x⁺ − y_i)."""

    def play(self, grid: np.ndarray) -> Iterator[np.ndarray]:
        p, block = float(self.recursion.values(self.recursion.step)["p"]), 64
        tosses = Plan(self.q.clients, full(), geometric_steps(p), 0.0, self.recursion.seed)
        x = np.repeat(self.x0[:, None], len(grid), axis=1)
        h, t = np.zeros((self.q.clients, *x.shape)), 1
        while True:
            for steps in tosses.draw(t, block).steps[:, 0]:
                yield x
                back = LocalSteps.of(self.q, grid, steps).apply(self.q.gradients(x) - h)  # x − y_i
                move = self.q.mean(back)
                x, h = x - move, h + (p / grid) * (back - move)
            t += block


class Preconditioned(Path):
    """x⁺ = x − Q g with g = ∇f(x), or TOP-k of it with error feedback; Q (k, d, d)."""

    def play(self, grid: np.ndarray) -> Iterator[np.ndarray]:
        Q, down = self.matrices(grid), self.recursion.values(self.recursion.step).get("down")
        x = np.repeat(self.x0[None, :, None], len(grid), axis=0)
        off = self.q.x[None, :, None]
        g = self.q.hessian @ (x - off)  # the first direction is never compressed
        error = np.zeros_like(g)
        while True:
            yield x[:, :, 0].T
            x = x - Q @ g
            g = self.q.hessian @ (x - off)
            if down is not None:
                whole = error + g
                g = _top(whole, down.k)
                error = whole - g

    def matrices(self, grid: np.ndarray) -> np.ndarray:
        counts = self.steps[:, None, None]
        return np.stack([self.q.mean(LocalSteps.of(self.q, step / counts, self.steps).matrices()) for step in grid])


class Differing(Preconditioned):
    """x⁺ = x − Q g with g = Σ w_i h_i, h_i ← h_i + TOP-k(∇f_i(x) − h_i): differences on the up-link, everyone there.

    FedLin's h_i are ∇f_i(x_0) at the start and follow a round's steps; EF21's are zero and go before its step (`leads`).
    """

    def __init__(self, recursion: Recursion, leads: bool = False) -> None:
        super().__init__(recursion)
        self.leads = leads

    def play(self, grid: np.ndarray) -> Iterator[np.ndarray]:
        Q, up = self.matrices(grid), self.recursion.values(self.recursion.step)["up"]
        x = np.repeat(self.x0[:, None], len(grid), axis=1)
        h = np.zeros((self.q.clients, *x.shape)) if self.leads else self.q.gradients(x)
        while True:
            yield x
            h = self._heard(h, x, up.k) if self.leads else h
            x = x - (Q @ self.q.mean(h).T[:, :, None])[:, :, 0].T
            h = h if self.leads else self._heard(h, x, up.k)

    def _heard(self, h: np.ndarray, x: np.ndarray, k: int) -> np.ndarray:
        new = self.q.gradients(x) - h  # (m, d, grid)
        columns = np.moveaxis(new, 2, 1).reshape(-1, self.q.dim, 1)
        kept = _top(columns, k).reshape(new.shape[0], new.shape[2], self.q.dim)
        return h + np.moveaxis(kept, 1, 2)

    def matrices(self, grid: np.ndarray) -> np.ndarray:
        return grid[:, None, None] * np.eye(self.q.dim) if self.leads else super().matrices(grid)


class Tracked(Preconditioned):
    """FedTrack, cyclic: y_ℓ = x − η D_ℓ g, D_{ℓ+1} = D_ℓ + I − η Σ (H_ij D at the last refresh of j)."""

    def matrices(self, grid: np.ndarray) -> np.ndarray:
        factors = self.recursion.problem.factors()
        if factors is None:
            raise InputError("FedTrack's rounds are predicted for linear models, whose components are samples")
        rows, ridge = np.asarray(factors.A, np.float64), factors.l2
        curvature = factors.curvatures(self.recursion.point)
        d, k = self.q.dim, len(grid)
        eta = grid[:, None, None]
        total = np.zeros((k, d, d))
        for i, weight in enumerate(self.q.weights):
            n = int(self.recursion.problem.sizes[i])
            D = np.broadcast_to(np.eye(d), (k, d, d)).copy()
            change = np.zeros((k, d, d))
            seen = np.zeros((min(n, int(self.steps[i])), k, d))  # a_jᵀD at the last refresh
            whole: dict[int, np.ndarray] = {}
            for step in range(1, int(self.steps[i])):
                j = (step - 1) % n
                a = rows[i, j]
                now = np.einsum("i,kij->kj", a, D)
                change += curvature[i, j] * a[None, :, None] * (now - seen[j])[:, None, :]
                seen[j] = now
                if ridge:
                    change += (ridge / n) * (D - whole.get(j, 0.0))
                    whole[j] = D.copy()
                D = D + np.eye(d) - eta * change
            total += weight * eta * D
        return total


def _orders(seed: int, clients: int, block: int = 64) -> Iterator[np.ndarray]:
    """The order of clients in round 1, 2, …"""
    everyone = uniform(clients)
    for t in count(1, block):
        yield from everyone.cohorts(seed, range(t, t + block), clients)


def predicted(recursion: Recursion, made: Map | None) -> Path | None:
    """The path of a round map: in closed form where it has one."""
    if made is None:
        return None
    probe = made(recursion.q, recursion.values(recursion.step), recursion.steps)
    return (Played if probe.diagonal is None else ClosedForm)(recursion, made)


def _top(vectors: np.ndarray, k: int) -> np.ndarray:
    """The k largest entries of every column block (g, d, 1), the others zero."""
    if k >= vectors.shape[1]:
        return vectors
    order = np.argpartition(-np.abs(vectors[:, :, 0]), k - 1, axis=1)[:, :k]
    kept = np.zeros_like(vectors)
    np.put_along_axis(kept[:, :, 0], order, np.take_along_axis(vectors[:, :, 0], order, axis=1), axis=1)
    return kept
