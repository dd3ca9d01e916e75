"""FedLin and FedTrack: local steps along the gradient of f, so nothing drifts."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...compression import DIFFERENCE, Compressor, TopK, top_k
from ...engine.description import Run
from ...errors import InputError
from ...problems.base import Problem
from .. import closed_form, ef21, fedlin, fedtrack, round_map
from ..bound import Bound, required
from ..certificates.record import Certifiable
from ..constants import Constants
from ..known import Chosen, Known, Usual, per_round, steps_beforehand, three_digits
from ..needs import constants_of, need_bounded_variance, need_everyone, need_plain, not_in_closed_form, setting
from ..paths import Differing, Path, Preconditioned, Recursion, Tracked, predicted

SHARES = (4, 10)  # TOP-k at the server keeps d/4 or d/10 entries


def _step(run: Run) -> Chosen:
    chosen = _by_theorem(run)
    if setting(run, "first_direction") is None:
        return chosen
    # The step size is right from round 2 on; the guarantee counts from a first round that may lead anywhere.
    return Chosen(chosen.numbers, f"{chosen.theorem} (not covered: a first direction other than ∇f(x_1))")


def _past_the_paper(run: Run) -> list[str]:
    """What no theorem speaks of. A table changes nothing where nobody misses a round, and there what is kept is fresh."""
    links = {name: setting(run, name) for name in ("up", "down", "up_model", "down_model")}
    found = [f"{name}={link}" for name, link in links.items() if link is not None and (link.differs or "model" in name)]
    if setting(run, "exchanges") == 1:
        found.append("exchanges=1")
    if setting(run, "correction") == "kept" and links["up"] is not None:
        found.append("correction='kept'")
    return found


def _by_theorem(run: Run) -> Chosen:
    need_everyone(run, "each of FedLin's theorems")
    need_plain(run, "each of FedLin's theorems")
    if beyond := _past_the_paper(run):
        raise InputError(
            f"FedLin's theorems are about the paper's own algorithm, here with {', '.join(beyond)}: give eta"
        )
    up, down, c = setting(run, "up"), setting(run, "down"), constants_of(run)
    if up is None and down is None:
        return Chosen.of(_uncompressed(run, c))
    if not run.oracle.exact:
        raise InputError("no theorem covers FedLin with compression and stochastic gradients at once: give eta")
    if up is not None and down is not None:
        raise InputError("no theorem covers FedLin with both directions compressed at once: give eta")
    compressor = up if up is not None else down
    if not isinstance(compressor, TopK):
        raise InputError(f"FedLin's Theorems 6 to 8 are about TOP-k, got {compressor}: give eta")
    delta = compressor.contraction(run.problem.dim)
    if up is None:
        return Chosen.of((fedlin.server_sparse_memory if down.memory else fedlin.server_sparse)(c, delta))
    if not up.memory:
        raise InputError("Theorem 8 assumes error feedback at the clients, got up without memory: use memory=True")
    return Chosen.of(fedlin.client_sparse_memory(c, delta))


def _uncompressed(run: Run, c: Constants) -> Bound:
    losses = "L-smooth, μ-strongly convex losses"
    mu = required("FedLin, Theorem 1", losses, "L", c.mu, not_in_closed_form(run))
    if not run.oracle.exact:
        need_bounded_variance(run, "FedLin, Theorem 4")
        return fedlin.noisy(c)
    return fedlin.strongly_convex(c) if mu > 0 else fedlin.convex(c) if mu == 0 else fedlin.nonconvex(c)


def _bound(run: Run, constants: Constants) -> Bound | None:
    if _past_the_paper(run):
        return None
    down = setting(run, "down")
    if down is None:
        return fedlin.strongly_convex(constants, run.steps)
    return fedlin.server_sparse_memory(constants, down.contraction(run.problem.dim), run.steps)


def _map(q: Any, values: Mapping[str, Any], steps: Any) -> round_map.RoundMap:
    if values["exchanges"] == 1:
        return round_map.fedlin_one_exchange(q, values["eta"], steps, fresh=values["correction"] == "fresh")
    return round_map.fedlin(q, values["eta"], steps)


def _path(recursion: Recursion) -> Path | None:
    """Of the links, TOP-k on one of them is played; what is predicted is what is measured where everyone takes part."""
    v = recursion.values(recursion.step)
    links = {name: v[name] for name in ("up", "down", "up_model", "down_model") if v[name] is not None}
    if not links:
        return predicted(recursion, _map)
    (name, link), *more = links.items()
    played = isinstance(link, TopK) and not more and v["exchanges"] != 1 and v["correction"] != "kept"
    if played and name == "up" and link.differs:
        return Differing(recursion)
    return Preconditioned(recursion) if played and name == "down" and link.memory is True else None


def _usual_step(problem: Problem, steps: Any, given: Mapping[str, Any]) -> Usual:
    L, up, down = problem.constants.L, given.get("up"), given.get("down")
    if up is not None and up.differs and down is None:
        delta = _contraction([up], problem.dim)
        return Usual(three_digits(ef21.step_size(L, 0.0, delta)), f"1/(L(1 + √(2β/θ))), as EF21's, δ = {delta:.3g}")
    if up is None and down is None:
        return Usual(three_digits(fedlin.plain_step(L)), f"1/(6L), FedLin's Theorem 1, L = {L:.3g}")
    delta = _contraction([c for c in (up, down) if c is not None], problem.dim)
    if up is None and down is not None and not down.memory:
        value, why = fedlin.sparse_step(L, delta), f"1/(2(2 + √δ)L), FedLin's Theorem 6, δ = {delta:.3g}"
    else:
        theorem = "Theorem 7" if up is None else "Theorem 8"
        value, why = fedlin.memory_step(L, delta), f"1/(72 L δ), FedLin's {theorem}, L = {L:.3g}, δ = {delta:.3g}"
    return Usual(three_digits(value), why)


def _contraction(links: list[Compressor], dim: int) -> float:
    """δ of all links together; d for those that are not contractions."""
    deltas = [link.contraction(dim) for link in links]
    return float(np.prod([delta if math.isfinite(delta) else dim for delta in deltas]))


def _at_the_server(problem: Problem) -> list[dict[str, Any]]:
    keep = sorted({max(1, problem.dim // share) for share in SHARES} - {problem.dim}, reverse=True)
    return [{"down": top_k(k)} for k in keep]


def _by_difference(problem: Problem) -> list[dict[str, Any]]:
    return [{"up": top_k(link["down"].k, memory="difference")} for link in _at_the_server(problem)]


FEDLIN = Known(
    step=_step,
    bound=_bound,
    round_map=_map,
    path=_path,
    scale=per_round,
    usual_step=_usual_step,
    variants={
        "top_k": _at_the_server,
        "difference": _by_difference,
        "one_exchange": lambda problem: [{"exchanges": 1}],
        "table": lambda problem: [{"table": True}],
        "table_one_exchange": lambda problem: [{"table": True, "exchanges": 1}],
    },
    certified=Certifiable(
        "fedlin",
        "FedLin",
        told=("up", "down"),
        kept={("down", True): "fedlin+feedback", ("up", DIFFERENCE): "fedlin+differences"},
        harmless=("table",),
        divides=True,
    ),
    rule="1/(6L), 1/(10L), 1/(26L); 1/(12L) with noise; Theorems 6, 7, 8 where it is compressed (FedLin)",
    colour="#D55E00",
)


def _fedtrack_step(run: Run) -> Chosen:
    need_everyone(run, "FedTrack's theorems")
    need_plain(run, "FedTrack's theorems")
    _need_whole_links(run)
    parts = closed_form.fedtrack_smoothness(run.problem, int(setting(run, "batch") or 1))
    c = dataclasses.replace(constants_of(run), L_components=parts)
    if c.mu is not None and c.mu > 0:
        return Chosen.of(fedtrack.strongly_convex(c, run.steps))
    return Chosen.of(fedtrack.pl(c, run.steps) if c.pl is not None else fedtrack.nonconvex(c, run.steps))


def _need_whole_links(run: Run) -> None:
    links = [f"{name}={setting(run, name)}" for name in ("up", "down") if setting(run, name) is not None]
    if links:
        raise InputError(f"FedTrack's theorems are about whole messages, here with {', '.join(links)}: give eta")


def _fedtrack_bound(run: Run, constants: Constants) -> Bound:
    _need_whole_links(run)
    return fedtrack.strongly_convex(constants, run.steps)


def _fedtrack_path(recursion: Recursion) -> Path | None:
    v = recursion.values(recursion.step)
    return Tracked(recursion) if v["up"] is None and v["down"] is None else None


def _fedtrack_usual_step(problem: Problem, steps: Any, given: Mapping[str, Any]) -> Usual:
    L, tau = problem.constants.L, float(np.max(steps_beforehand(steps)))
    why = f"1/(18 L τ), FedTrack's Theorem 1, L = {L:.3g}, τ = {tau:g}"
    return Usual(three_digits(fedtrack.step_size(L, tau)), why)


FEDTRACK = Known(
    step=_fedtrack_step,
    bound=_fedtrack_bound,
    path=_fedtrack_path,
    usual_step=_fedtrack_usual_step,
    variants={"table": lambda problem: [{"table": True}]},
    suits=lambda problem: problem.finite_sum,
    certified=Certifiable("fedtrack", "FedTrack", harmless=("batch",), losses="components"),
    rule="1/(18LH), L = max_ij L_ij (FedTrack, Theorems 1 to 3)",
    colour="#7B3294",
)
