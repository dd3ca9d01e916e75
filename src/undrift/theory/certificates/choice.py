"""`eta="certified"`: from a run to the certificate that covers it, or a refusal that says what is missing.

A certificate is the worst case over *all* losses with the constants L and μ, so all that it asks of a problem are these two:
by default those of every client, L = max_i L_i and μ = min_i μ_i (`problem.constants`), which are larger and smaller than
those of f = Σ w_i f_i (`Constants.L_mean`, `mu_mean`). Gradient descent and FedSGD see nothing but ∇f, and are asked about with
L and μ of f; FedTrack refreshes components f_ij, f_i = (1/m_i) Σ_j f_ij, and is asked about with max_ij L_ij and min_ij μ_ij.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...compression import Compressor, ScaledSign, TopK
from ...engine.description import Run
from ...errors import InputError
from ...plan import ChangingSteps
from ...problems.base import Problem
from .. import closed_form
from ..bound import Assumption, Bound, known, known_steps, require_positive, required
from ..constants import Constants
from ..known import Chosen, Known
from ..methods import KNOWN, known_of
from ..needs import constants_of, need_everyone, need_plain, need_whole_server_step, not_in_closed_form, number, setting
from ..quantity import Quantity, exact
from . import table
from .certificate import Certificate
from .record import Certifiable

IN_STEPS = ("eta", "s", "inner_eta")  # numbers that are lengths of steps, which are said in units of 1/L
SURELY = (TopK, ScaledSign)  # compressors that contract every message, not only on average
STRONG = "strong convexity"
MEASURES = {"sq_distance": "‖{} − x*‖²", "gap": "(f({}) − f*)", "sq_gradient": "‖∇f({})‖²"}


class Losses(NamedTuple):
    """The functions that a certificate speaks of: each is L-smooth and μ-strongly convex."""

    whose: str  # "every f_i"
    L: Quantity
    mu: Quantity


def certified(run: Run) -> Chosen:
    """The numbers of the certificate that covers the run; numbers that the user gave must be among them.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> made = certified(ud.engine.description.Run.of(ud.fedlin(eta="certified"), p, 0, steps=5))
    >>> made.theorem.startswith("FedLin's certificate"), made.bound.certified, made.bound.rate < 1
    (True, True, True)
    """
    c, record = constants_of(run), _record(run)
    found = certificate_of(run, lambda: c)
    method = run.method
    for name, value in found.numbers.items():
        given = method.parameters.get(name)
        if name not in method.waiting and given is not None and not np.isclose(number(run, name), value, rtol=1e-9):
            raise InputError(
                f"{record.title} is certified with {name} = {value:.6g} and {', '.join(method.waiting)} together, got {name} = "
                f'{given:g}: say {name}="certified", or give all numbers'
            )
    what = MEASURES[found.measure].format("x") if found.memory is None else "V"
    words = f"{record.title}'s certificate, {_inside(found)}: at most {found.rate:.6g} times {what} a {found.per}"
    words += "".join(f", {part}" for part in (found.memory, found.source) if part)
    return Chosen(dict(found.numbers), words, bound_of(run, found, c))


def certificate_of(run: Run, constants: Callable[[], Constants] | None = None) -> Certificate:
    """The certificate for this method, these constants and these local steps, whatever the method's own numbers are."""
    record, known_here = _record(run), known_of(run.method)
    _need_plain_run(run, record)
    if known_here.drifts and not run.problem.all_alike():
        raise InputError(
            f"{record.title}'s certificate is about clients with the same data, and here they differ: local steps then drift "
            "towards the clients' own minimisers, and no step size leads to x*: take fedlin, which corrects that, or give a "
            "number (with one local step it is fedsgd)"
        )
    c = (constants or (lambda: constants_of(run)))()
    losses, (method, settings) = losses_of(run, record, c), told(run)
    steps = distinct_steps(run)
    if record.steps != "mean":
        return table.lookup(method, float(losses.L), float(losses.mu), steps, settings)
    found = table.lookup(method, float(losses.L), float(losses.mu), (1,), settings)
    return dataclasses.replace(found, rate=found.rate ** steps[0])  # every local step is one of the certificate


def bound_of(run: Run, found: Certificate, constants: Constants) -> Bound | None:
    """The certificate as a guarantee for this run: measure_T ≤ rate^T measure_0.

    With memory ‖x_T − x*‖² ≤ V_T ≤ rate^T V_0; None where nobody knows V_0, as it depends on more than x_0 and ∇f_i(x*).
    """
    record, rate, what = _record(run), float(found.rate), MEASURES[found.measure]
    beyond = _beyond(record, found, constants)
    if beyond is None or found.per != "round" or found.measure not in ("gap", "sq_distance"):
        return None
    start = f"({what.format('x_0')} + {beyond:.4g})" if beyond else what.format("x_0")
    losses = losses_of(run, record, constants)
    checked = "checked in rational arithmetic" if found.exact else f"its residual is {found.residual:.1e}"
    return Bound(
        theorem=f"certified: {record.title}, {_inside(found)}",
        statement=f"{what.format('x_T')} ≤ {rate:.6g}^T {start}",
        method=run.method.name,
        subject=found.measure,
        numbers=dict(found.numbers),
        assumptions=(
            known(f"L-smoothness of {losses.whose}", losses.L),
            known(f"{STRONG} of {losses.whose}", losses.mu),
            Assumption(found.scope, "holds"),
            Assumption("the certificate", "holds" if found.exact else "measured", checked),
        ),
        values=lambda t, start: rate**t * (start + beyond),
        rate=rate,
        divided_by=known_steps(run.steps) if record.divides else 1,
        certified=True,
    )


def _beyond(record: Certifiable, found: Certificate, constants: Constants) -> float | None:
    """V_0 − ‖x_0 − x*‖²: 0 where a method has no memory, None where nobody knows it."""
    if found.memory is None:
        return 0.0
    if record.at_start is None or constants.zeta_star_sq is None:
        return None
    return record.at_start(found.numbers) * float(constants.zeta_star_sq)


def losses_of(run: Run, record: Certifiable, c: Constants) -> Losses:
    """L and μ of the functions that the certificate speaks of; refused where they are not known, or where μ ≤ 0."""
    rule, L, mu, whose = f"{record.title}'s certificate", c.L, c.mu, "every f_i"
    if record.losses == "mean" and c.L_mean is not None and c.mu_mean is not None:
        L, mu, whose = c.L_mean, c.mu_mean, "f"
    elif record.losses == "components":
        whose = "every component f_ij"
        L, mu = components(run.problem, int(setting(run, "batch") or 1), c) or (None, None)
    L = required(rule, f"L-smoothness of {whose}", "L", L, not_in_closed_form(run))
    mu = required(rule, f"{STRONG} of {whose}", "μ", mu, not_in_closed_form(run))
    require_positive(rule, f"{STRONG} of {whose}", "μ", mu, 'add a regulariser, or use eta="theorem" or a number')
    return Losses(whose, L, mu)


def components(problem: Problem, batch: int, c: Constants) -> tuple[Quantity | None, Quantity | None] | None:
    """max_ij L_ij and min_ij μ_ij of f_i = (1/m_i) Σ_j f_ij, a component being `batch` samples; None where nobody knows.

    Of a component's curvature only its share of the regulariser is counted: a few samples span no space.
    """
    factors = problem.factors()
    if factors is None or np.all(problem.sizes <= batch):
        return (c.L, c.mu) if np.all(problem.sizes <= batch) else None
    shares = [factors.l2 * -(-n // batch) * (n % batch or batch) / n for n in map(int, problem.sizes)]
    return closed_form.fedtrack_smoothness(problem, batch), exact(min(shares), "min_ij μ_ij, the regulariser's share")


def distinct_steps(run: Run) -> tuple[int, ...]:
    """The numbers of local steps that a client may take in some round, each once; none where the method's coin draws them."""
    whose = _record(run).steps
    if whose == "drawn":
        return ()
    if whose == "one":
        return (1,)
    if isinstance(run.steps, ChangingSteps) and whose == "plan" and run.steps.values is not None:
        return tuple(run.steps.values)
    if isinstance(run.steps, ChangingSteps) and run.steps.largest is not None:
        raise InputError(
            f"a certificate of {_record(run).title} is about the same steps in every round, got {run.steps}: give eta"
        )
    given = known_steps(run.steps)  # refuses what nobody knows beforehand
    if whose == "mean":
        return (int(np.rint(np.mean(given))),)
    return tuple(int(tau) for tau in np.unique(given))


def told(run: Run) -> tuple[str, dict[str, Any]]:
    """What the table is asked about besides constants and steps: the method's name there, and the settings that matter.

    A link is told by its contraction δ; what it keeps is part of the name, or told (NAME_memory) where no name says it. Where
    components are refreshed the table is told how many of them a client has, or all numbers that there are.
    """
    record = _record(run)
    name_there, found = record.method, dict[str, Any]()
    matter = [one for one in record.told if run.method.parameters.get(record.only_with.get(one, one)) is not None]
    for name in matter:
        value = number(run, name) if name in run.method.numbers else run.method.parameters.get(name)
        if isinstance(value, Compressor):
            if not isinstance(value, SURELY):
                raise InputError(
                    f"{record.title}'s certificate is about compressors that contract every message, and {value} does so on "
                    "average: give eta, or use top_k or scaled_sign"
                )
            found[name] = float(value.contraction(run.problem.dim))
            if (name, value.memory) in record.kept and name_there == record.method:
                name_there = record.kept[name, value.memory]
            elif value.memory is not False:
                found[f"{name}_memory"] = value.memory
        else:
            found[name] = value
    if record.losses == "components":
        batch = int(setting(run, "batch") or 1)
        counts = sorted({-(-int(n) // batch) for n in run.problem.sizes})
        found["components"] = counts[0] if len(counts) == 1 else tuple(counts)
    return name_there, found


def _record(run: Run) -> Certifiable:
    known_here: Known = known_of(run.method)
    if known_here.certified is None:
        solved = {row["method"] for row in table.rows()}
        there_are = ", ".join(sorted(n for n, one in KNOWN.items() if one.certified and one.certified.method in solved))
        raise InputError(
            f'there is no certificate for {run.method.name}: use "theorem", or give a number for '
            f"{', '.join(run.method.waiting) or known_here.number} (there are certificates for {there_are})"
        )
    return known_here.certified


def _need_plain_run(run: Run, record: Certifiable) -> None:
    """Exact gradients, everyone in every round, and the method as the table's programme describes it."""
    rule = f"{record.title}'s certificate"
    if not run.oracle.exact:
        raise InputError(f"{rule} assumes exact gradients, got {run.oracle}: give eta, or use oracle=ud.oracles.full()")
    if not run.method.recipe.centralised:
        need_everyone(run, rule)
    need_plain(run, rule)
    need_whole_server_step(run, rule)
    usual = {name: one.default for name, one in inspect.signature(run.method.recipe.factory).parameters.items()}
    allowed = {*record.told, *record.harmless}
    other = [f"{k}={v}" for k, v in run.method.recipe.settings if k not in allowed and v != usual.get(k)]
    if other:
        raise InputError(
            f"{rule} is about the method itself, here with {', '.join(other)}: leave that out, or give eta"
        )
    if changing := [name for name, _ in run.method.recipe.schedules]:
        raise InputError(
            f"{rule} is about numbers that stay the same, and {', '.join(changing)} changes by round: give eta"
        )


def _inside(found: Certificate) -> str:
    """The numbers, steps in units of 1/L."""
    inside = [
        f"{name} = {value * found.L:.4g}/L" if name in IN_STEPS else f"{name} = {value:.4g}"
        for name, value in found.numbers.items()
    ]
    return ", ".join(inside)
