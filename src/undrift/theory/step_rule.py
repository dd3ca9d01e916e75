"""`eta="theorem"`: the step size of the theorem that covers a method on a problem, or a refusal that says what is missing.

| method | rule | from |
|---|---|---|
| fedlin | 1/(6L), 1/(10L), 1/(26L); 1/(12L) with noise; Theorems 6, 7, 8 where it is compressed | FedLin |
| fedtrack | 1/(18LH), L = max_ij L_ij | FedTrack, Theorems 1 to 3 |
| fedavg, sflv1 | 1/(6LK) | SSL paper, (80), (81), (108), (119) |
| fedprox | 1/(6(L + β)K) | the same, for the local losses with their pull |
| fednova | 1/(L·mean τ_i), quadratics | the round map is I − M with 0 ⪯ M ⪯ I, see `fednova` below |
| sequential_fl, ssl | 1/(6LMK) | SSL paper, (6), (7) |
| scaffold | min{1/(81LKη_s), S/(15μMKη_s)} | Karimireddy et al. (2020), Theorem VII |
| fedsplit | s = 1/√(Lμ), inner 2/(L + μ + 2/s) | Pathak, Wainwright (2020) |
| gd, fedsgd | 1/L of f | descent lemma |
| sgd | 1/(2𝓛), 𝓛 = (1 − 1/b)L + max_j L_j/b | Gower et al. (2019), Theorem 3.1 |
| iag | (4/25)μ/(N L(μ + L)), L = Σ L_j | Gürbüzbalaban, Ozdaglar, Parrilo (2017), Theorem 3.3 |
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from ..compression import TopK
from ..errors import InputError
from ..oracles import MiniBatch, Oracle
from ..plan import Everyone, Participation, Permuted, Uniform
from ..problems.base import Problem
from ..problems.pooled import Pooled
from ..problems.quadratic import QuadraticFamily
from ..recipe import Method
from . import centralised, closed_form, fedavg, fedlin, fedtrack, ssl
from .bound import Bound, known_steps, longest, require_positive, required
from .constants import Constants
from .situation import Chosen, Situation


def resolve(
    method: Method,
    problem: Problem,
    *,
    steps: Any,
    oracle: Oracle,
    participation: Participation,
    failures: float = 0.0,
) -> Method:
    """The method with every number that was left to the theorem filled in; `chosen_by` says which theorem it was."""
    if not method.by_theorem:
        return method
    chosen = choose(Situation(method, problem, steps, oracle, participation, failures))
    missing = [name for name in method.by_theorem if name not in chosen.numbers]
    if missing:
        raise InputError(f"{chosen.theorem} says nothing about {', '.join(missing)} of {method.name}: give a number")
    numbers = {name: chosen.numbers[name] for name in method.by_theorem}
    made = method.with_numbers(**numbers)
    return dataclasses.replace(made, chosen_by=chosen.theorem)


def promise(
    method: Method,
    problem: Problem,
    *,
    steps: Any = 1,
    oracle: Oracle | None = None,
    participation: Participation | None = None,
    failures: float = 0.0,
) -> Bound | None:
    """The guarantee for this very run: where the method's numbers are those of the theorem that covers it, and it has no noise.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> promise(ud.fedlin(eta=1 / 12), p, steps=5).theorem, promise(ud.fedlin(eta=0.1), p, steps=5)
    ('FedLin, Theorem 1', None)
    """
    oracle = oracle or method.recipe.oracle or problem.default_oracle
    if not oracle.exact:
        return None  # the curve would need σ², which closed forms do not know
    try:
        who = participation or Everyone()
        chosen = choose(Situation(method, problem, steps, oracle, who, failures))
    except InputError:
        return None
    same = all(np.isclose(method.numbers.get(name, np.nan), value, rtol=1e-9) for name, value in chosen.numbers.items())
    return chosen.bound if same else None


def choose(situation: Situation) -> Chosen:
    """The rule for this method in this situation."""
    rule = RULES.get(situation.name)
    if rule is None:
        raise InputError(
            f"no theorem is known here that gives {situation.name} a step size: give a number for "
            f"{', '.join(situation.method.by_theorem)} (there are rules for {', '.join(sorted(RULES))})"
        )
    return rule(situation)


def _from(bound: Bound) -> Chosen:
    failing = [f"{a.name}: {a.detail}" if a.detail else a.name for a in bound.assumptions if a.status == "fails"]
    beyond = f" (not covered: {'; '.join(failing)})" if failing else ""
    return Chosen(dict(bound.numbers), bound.theorem + beyond, bound)


def _fedlin(s: Situation) -> Chosen:
    s.need_everyone("FedLin's theorems")
    s.need_plain("FedLin's theorems")
    up, down, c = s.setting("up"), s.setting("down"), s.constants
    if up is None and down is None:
        return _from(_fedlin_uncompressed(s, c))
    if not s.exact:
        raise InputError("no theorem covers FedLin with compression and stochastic gradients at once: give eta")
    if up is not None and down is not None:
        raise InputError("no theorem covers FedLin with both directions compressed at once: give eta")
    compressor = up if up is not None else down
    if not isinstance(compressor, TopK):
        raise InputError(f"FedLin's Theorems 6 to 8 are about TOP-k, got {compressor}: give eta")
    delta = compressor.contraction(s.problem.dim)
    if up is None:
        return _from((fedlin.server_sparse_memory if down.memory else fedlin.server_sparse)(c, delta))
    if not up.memory:
        raise InputError("Theorem 8 assumes error feedback at the clients, got up without memory: use memory=True")
    return _from(fedlin.client_sparse_memory(c, delta))


def _fedlin_uncompressed(s: Situation, c: Constants) -> Bound:
    mu = required("FedLin, Theorem 1", "L-smooth, μ-strongly convex losses", "L", c.mu, _unknown(s))
    if not s.exact:
        s.need_bounded_variance("FedLin, Theorem 4")
        return fedlin.noisy(c)
    return fedlin.strongly_convex(c) if mu > 0 else fedlin.convex(c) if mu == 0 else fedlin.nonconvex(c)


def _fedtrack(s: Situation) -> Chosen:
    s.need_everyone("FedTrack's theorems")
    s.need_plain("FedTrack's theorems")
    batch = int(s.setting("batch") or 1)
    c = dataclasses.replace(s.constants, L_components=closed_form.fedtrack_smoothness(s.problem, batch))
    if c.mu is not None and c.mu > 0:
        return _from(fedtrack.strongly_convex(c, s.steps))
    return _from(fedtrack.pl(c, s.steps) if c.pl is not None else fedtrack.nonconvex(c, s.steps))


def _fedavg(s: Situation) -> Chosen:
    theorem = "FedAvg's Theorem 2 of the SSL paper"
    s.need_plain(theorem)
    s.need_bounded_variance(theorem)
    c, who = s.constants, s.participation
    mu = required(theorem, "L-smooth convex losses", "L", c.mu, _unknown(s))
    if s.failures > 0:
        s.need_everyone(theorem)
    if s.takes_everyone:
        return _from(_averaged(s, c, mu))
    if not isinstance(who, Uniform):
        raise InputError(f"Corollaries 2 and 3 assume uniformly drawn cohorts, got {who}: give eta")
    return _from(fedavg.sampled(c, who.count, s.steps, replace=who.replace))


def _averaged(s: Situation, c: Constants, mu: float) -> Bound:
    if mu < 0:
        return fedavg.nonconvex(c, s.steps)
    _need_minimiser(s, c)
    return fedavg.strongly_convex(c, s.steps) if mu > 0 else fedavg.convex(c, s.steps)


def _fedprox(s: Situation) -> Chosen:
    """η = 1/(6(L + β)K): FedAvg's rule for the losses that clients descend on, f_i + (β/2)‖y − x‖²: (L + β)-smooth ones."""
    s.need_everyone("FedProx's rule")
    s.need_bounded_variance("FedProx's rule")
    s.need_plain("FedProx's rule")
    L, beta, K = _smoothness(s), s.number("beta"), longest(s.steps)
    return Chosen(
        {"eta": 1 / (6 * (L + beta) * K)},
        f"FedAvg's rule 1/(6LK) with L + β in place of L (K = {K}; SSL paper, Theorem 2)",
    )


def _fednova(s: Situation) -> Chosen:
    """η = 1/(L τ_eff), τ_eff = Σ w_i τ_i, on quadratics.

    A round is x ← x − M(x − x̃) with M = Σ w_i (τ_eff/τ_i)(I − (I − ηA_i)^{τ_i}) (FedLin, Proposition 2). For 0 ≤ ηλ ≤ 1,
    0 ≤ 1 − (1 − ηλ)^τ ≤ τηλ, so 0 ⪯ M ⪯ ητ_eff L·I ⪯ I: the distance to the surrogate's minimiser x̃ never grows, in any
    eigendirection of M, without oscillation.
    """
    theorem = "FedNova's rule 1/(L·mean τ_i) (FedLin, Proposition 2: quadratics)"
    s.need_everyone(theorem)
    s.need_plain(theorem)
    if not isinstance(s.problem, QuadraticFamily):
        raise InputError(
            "FedNova has a step rule without a dissimilarity constant on quadratics only; elsewhere its theorem (Wang et al. "
            "2020) asks for β² of bounded dissimilarity: give eta"
        )
    c = s.constants
    if c.mu is not None and c.mu < 0:
        raise InputError(f"{theorem} assumes convexity of every f_i, but here min_i μ_i = {float(c.mu):g}: give eta")
    steps = np.broadcast_to(known_steps(s.steps), (s.problem.clients,))
    effective = float(np.asarray(s.problem.weights, np.float64) @ steps)
    return Chosen({"eta": 1 / (_smoothness(s) * effective)}, theorem)


def _sequential(s: Situation) -> Chosen:
    theorem = "SSL's Theorem 1"
    s.need_plain(theorem)
    s.need_bounded_variance(theorem)
    who, c = s.participation, s.constants
    if s.failures > 0 or not (s.takes_everyone or isinstance(who, Permuted)):
        raise InputError(
            f"{theorem} assumes full passes over all clients in random order; here participation is {who}, failures "
            f"{s.failures:g}: use ud.plan.permuted(S), or give eta"
        )
    mu = required(theorem, "L-smooth losses", "L", c.mu, _unknown(s))
    if mu < 0:
        return _from(ssl.nonconvex(c, s.steps))
    _need_minimiser(s, c)
    return _from(ssl.strongly_convex(c, s.steps) if mu > 0 else ssl.convex(c, s.steps))


def _scaffold(s: Situation) -> Chosen:
    """η ≤ min{1/(81LKη_s), S/(15μMKη_s)} for convex losses; (S/M)^{2/3}/(24LKη_s) without convexity; η_s ≥ 1."""
    theorem = "SCAFFOLD, Theorem VII (Karimireddy et al. 2020)"
    s.need_plain(theorem)
    s.need_bounded_variance(theorem)
    if s.failures > 0:
        s.need_everyone(theorem)
    L, c, K, server = _smoothness(s), s.constants, longest(s.steps), s.number("server_eta")
    if server < 1:
        raise InputError(f"{theorem} assumes server_eta ≥ 1, got {server:g}: give eta")
    share = 1.0
    if not s.takes_everyone:
        if not isinstance(s.participation, Uniform):
            raise InputError(f"{theorem} assumes uniformly drawn cohorts, got {s.participation}: give eta")
        share = min(1.0, s.participation.count / s.problem.clients)
    mu = float(c.mu or 0.0)
    if mu < 0:
        return Chosen({"eta": share ** (2 / 3) / (24 * L * K * server)}, f"{theorem}, non-convex, K = {K}")
    limits = [1 / (81 * L * K * server)] + ([share / (15 * mu * K * server)] if mu > 0 else [])
    return Chosen({"eta": min(limits)}, f"{theorem}, K = {K}")


def _fedsplit(s: Situation) -> Chosen:
    """s = 1/√(Lμ), and 2/(L + μ + 2/s) for the inner steps (whose loss is (L + 1/s)-smooth and (μ + 1/s)-strongly convex)."""
    theorem = "FedSplit (Pathak, Wainwright 2020), s = 1/√(Lμ)"
    L, mu = _smoothness(s), s.constants.mu
    mu = required(theorem, "strong convexity of every f_i", "μ", mu, _unknown(s))
    require_positive(theorem, "strong convexity of every f_i", "μ", mu, "give s")
    size = 1 / float(np.sqrt(L * mu)) if "s" in s.method.by_theorem else s.number("s")
    return Chosen({"s": size, "inner_eta": 2 / (L + float(mu) + 2 / size)}, theorem)


def _gd(s: Situation) -> Chosen:
    L, c = _smoothness_of_mean(s), s.constants
    if isinstance(s.oracle, MiniBatch) and s.method.recipe.centralised:
        return _from(centralised.sgd_minibatch(s.problem, s.oracle.size, s.steps))
    s.need_bounded_variance("SGD's rule 1/L")
    if c.pl is not None and c.pl > 0:
        return _from(centralised.gd(c, s.steps) if s.exact else centralised.sgd(c, s.steps))
    return Chosen({"eta": 1 / L}, "gradient descent, η = 1/L of f (descent lemma)")


def _fedsgd(s: Situation) -> Chosen:
    s.need_everyone("FedSGD's rule 1/L")
    s.need_plain("FedSGD's rule 1/L")
    return _gd(dataclasses.replace(s, steps=1))


def _iag(s: Situation) -> Chosen:
    """η = γ̄/2, γ̄ = (8/25) μ/(N L(μ + L)) for f = Σ_j f̂_j with N components, L = Σ L_j and delays of at most N steps."""
    theorem = "IAG, Theorem 3.3 (Gürbüzbalaban, Ozdaglar, Parrilo 2017)"
    source = s.problem.source if isinstance(s.problem, Pooled) else s.problem
    order = s.setting("order")
    if order not in ("cyclic",):
        raise InputError(f"{theorem}: the delay of a component is known for the cyclic order, got {order!r}: give eta")
    parts = closed_form.component_smoothness(source, int(s.setting("batch") or 1))
    parts = required(theorem, "smoothness of every component", "L_j", parts, "give eta")
    weights, c = np.asarray(source.weights, np.float64), s.constants
    L = float(sum(w * part.sum() for w, part in zip(weights, parts, strict=True)))
    mu = required(theorem, "strong convexity of f", "μ of f", c.mu_mean, "give eta")
    require_positive(theorem, "strong convexity of f", "μ", mu, "add a regulariser, or give eta")
    count = sum(len(part) for part in parts)
    return Chosen({"eta": 4 / 25 * float(mu) / (count * L * (float(mu) + L))}, theorem)


def _smoothness(s: Situation) -> float:
    L = s.constants.L
    return float(required(f"the step rule of {s.name}", "L-smoothness of every f_i", "L", L, _unknown(s)))


def _smoothness_of_mean(s: Situation) -> float:
    c = s.constants
    L = c.L_mean if c.L_mean is not None else c.L
    return float(required(f"the step rule of {s.name}", "L-smoothness of f", "L", L, _unknown(s)))


def _need_minimiser(s: Situation, c: Constants) -> None:
    if c.zeta_star_sq is None:
        raise InputError(
            f"the theorem for {s.name} on convex losses assumes that f has a minimiser x*, and none is known here: give "
            "eta, or add a regulariser"
        )


def _unknown(s: Situation) -> str:
    return (
        f"a {s.problem.name} problem has no L in closed form; measure it (ud.theory.constants(problem, path=…)), evaluate the "
        "theorem with that (ud.theory), and give the number"
    )


RULES: dict[str, Callable[[Situation], Chosen]] = {
    "fedlin": _fedlin,
    "fedtrack": _fedtrack,
    "fedavg": _fedavg,
    "sflv1": _fedavg,
    "fedprox": _fedprox,
    "fednova": _fednova,
    "sequential_fl": _sequential,
    "ssl": _sequential,
    "scaffold": _scaffold,
    "fedsplit": _fedsplit,
    "gd": _gd,
    "sgd": _gd,
    "fedsgd": _fedsgd,
    "iag": _iag,
}
