"""The methods of a study, ready to run.

Step sizes where the user gives none: the rule of the theorem that covers the method, or the usual choice; always said.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import precision
from ..engine.description import Run
from ..engine.simulate import check_stop
from ..errors import InputError
from ..gate import shown
from ..problems.base import Problem
from ..problems.network import Network
from ..recipe import RULES, Method
from .method import StudyMethod
from .own import is_own
from .study import Study
from .words import located

# How far beyond (and below) the rule a grid looks, in factors: theorems are careful, so it looks upwards more.
GRID = (0.5, 2.0, 8.0, 32.0)
# Networks have no rule: usual values, and a grid on both sides.
NETWORK_STEP, CONVOLUTIONAL_STEP = 0.1, 0.01
LONGEST_LABEL = 200  # longer ones have no room in a table, a figure or an archive
NETWORK_GRID = (0.1, 0.3, 1.0, 3.0)
LOOKED_AT = 1000  # rounds of a schedule, before anything is run


class Choice(NamedTuple):
    """A value and the reason for it."""

    value: Any
    why: str
    factors: tuple[float, ...] = GRID
    rule: str = ""  # "theorem" or "certified", where the user asked for it; "": nothing was given

    @property
    def around(self) -> list[float]:
        """Values around the chosen one."""
        return [float(f"{self.value * factor:.3g}") for factor in self.factors]


class Entry(NamedTuple):
    """A method of a study, ready to run: all its parameters have values, and each point of its grid has its run."""

    method: StudyMethod
    runs: list[Run]
    chosen: dict[str, Choice]  # what the user left open
    label: str = ""  # for tables and figures, its own in the study


def ready(study: Study, problem: Problem, grids: bool) -> tuple[Study, list[Entry]]:
    """The study with every parameter written out, and its runs; `grids`: a step size that is not given becomes a grid.

    Whatever can be refused is refused here, before anything is run or written.
    """
    if not grids:
        study = study.with_lanes(problem.population)
    steps, entries = study.arguments(problem)["steps"], []
    study.seeds  # noqa: B018 (refuses a last seed that is none)
    for number, method in enumerate(study.methods):
        with located(study.method_place(number)):
            entry = _filled_in(study, method.checked().as_asked(), problem, steps, grids)
            if method.asked is not None and entry.method.parameters != method.parameters:
                # Another version of undrift chose them, or somebody has changed them since: they are the user's own now.
                entry = _filled_in(study, dataclasses.replace(method, asked=None), problem, steps, grids)
            entries.append(entry)
    labels = distinct_labels(study.methods)
    entries = [entry._replace(label=label) for entry, label in zip(entries, labels, strict=True)]
    return study.but(methods=tuple(entry.method for entry in entries)).with_steps(), entries


def _filled_in(study: Study, method: StudyMethod, problem: Problem, steps: Any, grids: bool) -> Entry:
    """The method with values for what was left open, and with what its theorem says where that was asked for."""
    chosen = choose(method, problem, steps)
    step = method.known.number if grids else None
    values = {name: one.around if name == step else one.value for name, one in chosen.items()}
    entry = _entry(study, method.with_parameters(**values), problem, chosen)
    return entry._replace(method=entry.method.as_chosen(method, entry.chosen))


def _entry(study: Study, method: StudyMethod, problem: Problem, chosen: dict[str, Choice]) -> Entry:
    alike: dict[Any, Run] = {}  # runs that differ in numbers only are described once

    def run_of(made: Method) -> Run:
        if made.recipe not in alike:
            alike[made.recipe] = checked(study.describe(made, problem))
            if not is_own(method.name):  # a number of one's own method may mean anything
                check_schedules(alike[made.recipe])
        return alike[made.recipe].but(method=made)

    # What else is missing is filled in first: FedProx's rule depends on β.
    parameters = method.parameters
    for rule in RULES:
        asked = [key for key, entry in parameters.items() if rule in _entries(entry)]
        if asked:
            found = _by_rule(study, method, problem, rule, asked)
            alike[found.recipe] = found
            by_rule = {key: Choice(found.method.numbers[key], found.method.chosen_by, (), rule) for key in asked}
            parameters = {**parameters, **{key: _filled(parameters[key], one) for key, one in by_rule.items()}}
            chosen = {**chosen, **{key: _beside(chosen.get(key), one) for key, one in by_rule.items()}}
    method = method.with_parameters(**parameters)
    return Entry(method, [run_of(method.make(**point)) for point in method.points()], chosen)


def _by_rule(study: Study, method: StudyMethod, problem: Problem, rule: str, asked: list[str]) -> Run:
    """The run with what a rule says for these parameters; refused where that is not the same all over the grid of the others.

    A rule's number belongs to the other parameters (SCAFFOLD's η to η_s), and a grid has one number for all of them.
    """
    others = dataclasses.replace(method, parameters={k: v for k, v in method.parameters.items() if k not in asked})
    first: tuple[dict[str, Any], Run] | None = None
    for point in others.points():
        with located(_words(point)) if point else nullcontext():
            found = checked(study.describe(method.make(**{**point, **dict.fromkeys(asked, rule)}), problem))
        first = first or (point, found)
        for key in asked:
            here, there = found.method.numbers[key], first[1].method.numbers[key]
            if not np.isclose(here, there, rtol=1e-12, atol=0):
                raise InputError(
                    f"{key} = {rule!r} is {there:.6g} with {_words(first[0])} and {here:.6g} with {_words(point)}, so that no "
                    f"one number serves this grid: give each its own [[method]], or numbers for {key}"
                )
    assert first is not None
    return first[1]


def _words(point: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} = {shown(entry)}" for key, entry in point.items())


def checked(run: Run) -> Run:
    """The same run; refuses now what would be refused when its program is built: a k beyond the dimension, a strange column."""
    played = run.to_play()
    with precision.scope(played.population.dtype):
        played.shapes  # noqa: B018
        check_stop(played)
    return run


def check_schedules(run: Run) -> None:
    """Refuse numbers that become negative or infinite; looked at are the first rounds and the last."""
    rounds = np.unique(np.append(np.arange(min(run.rounds, LOOKED_AT)), max(run.rounds - 1, 0)))
    for name, schedule in run.recipe.schedules:
        values = np.asarray(jax.vmap(schedule)(jnp.asarray(rounds, jnp.int32)))
        bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
        if bad.size:
            raise InputError(
                f"{name} by schedule must be a finite number ≥ 0 in every round, got {values[bad[0]]:g} in round "
                f"{rounds[bad[0]] + 1}: give the schedule other numbers"
            )


def choose(method: StudyMethod, problem: Problem, steps: Any) -> dict[str, Choice]:
    """Values for the parameters that a method needs and was not given."""
    known, given = method.known, method.parameters
    inexact = known.without_prox if not problem.has_prox else ()
    missing = [*method.missing, *(inexact if inexact and given.get(inexact[0]) is None else ())]
    missing = [name for name in dict.fromkeys(missing) if name not in given]
    if not missing:
        return {}
    if links := [name for name in missing if name in method.own_links]:
        raise InputError(
            f'{method.name} needs {links[0]}, a compressor: give it in the study file ({links[0]} = "top_k:10"), or as '
            f"--{links[0]} top_k:10"
        )
    if isinstance(problem, Network):
        return {name: _network_choice(name, method, problem) for name in missing}
    try:
        problem.constants  # noqa: B018
    except InputError as error:
        raise InputError(f"{method.name} needs {', '.join(missing)}, and there is no default: {error}") from error
    up, down = method.compressors
    usual = known.values(problem, steps, {**given, "up": up, "down": down})
    for name in missing:
        if name not in usual:
            word = method.name
            raise InputError(f"{word} needs {name}: give it in the study file, or as --method {word}:{name}=…")
    return {name: Choice(*usual[name]) for name in missing}


def distinct_labels(methods: Iterable[StudyMethod]) -> list[str]:
    """One label per method; a method that stands there twice is numbered.

    >>> distinct_labels([StudyMethod("fedlin"), StudyMethod("fedlin", {"table": True})])
    ['fedlin', 'fedlin table']
    >>> distinct_labels([StudyMethod("gd"), StudyMethod("gd"), StudyMethod("gd", label="gd #1")])
    ['gd #1 #1', 'gd #2', 'gd #1 #2']
    """
    labels = [method.title for method in methods]
    for label in labels:
        if not isinstance(label, str) or len(label) > LONGEST_LABEL or not label.isprintable():
            raise InputError(
                f"a label is one line of at most {LONGEST_LABEL} printable characters, got {str(label)[:80]!r}: shorten it"
            )
    while twice := next((label for label in labels if labels.count(label) > 1), None):
        places = [number for number, label in enumerate(labels) if label == twice]
        for count, number in enumerate(places, start=1):
            labels[number] = f"{twice} #{count}"
    return labels


def _entries(entry: Any) -> list[Any]:
    return entry if isinstance(entry, list) else [entry]


def _beside(before: Choice | None, choice: Choice) -> Choice:
    """The choice, and what another rule chose for the same grid."""
    if before is None or not before.rule:
        return choice
    return before._replace(why=f"{before.why}; {choice.value:.6g}: {choice.why}")


def _filled(entry: Any, choice: Choice) -> Any:
    """The parameter with the rule's number in place of its word."""
    filled = [choice.value if one == choice.rule else one for one in _entries(entry)]
    return filled if isinstance(entry, list) else filled[0]


def _network_choice(name: str, method: StudyMethod, problem: Network) -> Choice:
    if name != "eta":
        word = method.name
        raise InputError(f"{word} needs {name}, and networks have no rule for it: give --method {word}:{name}=…")
    why = "a usual value for networks {}, whose constants are not known; try others"
    if problem.architecture.convolutional:
        return Choice(CONVOLUTIONAL_STEP, why.format("with convolutions"), NETWORK_GRID)
    return Choice(NETWORK_STEP, why.format("without convolutions"), NETWORK_GRID)
