"""The documents of a run and of a comparison."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from ...engine.history import Result, totals
from ...privacy import private
from ...studies.comparison import ROUNDING, Outcome
from ...studies.entries import Entry, distinct_labels
from ...studies.method import StudyMethod
from ...studies.refining import remarks
from ...studies.relative import relative_gap
from ...studies.study import HIDDEN, Study
from ..clients import Clients
from ..exchanges import exchange_of
from ..measures import value_text
from ..promise import Promise
from ..steps_words import steps_words
from ..tables import compare_table, run_table, step_text
from .labels import LABELS
from .lanes import MOST, lanes_of

# What ε is counted for stands on the page though nobody wrote it.
PRIVATE = {name: inspect.signature(private).parameters[name].default for name in ("delta", "where")}
VIRTUAL = "virtual: counted from work and bytes at these rates, not measured"


def compare_document(
    study: Study,
    outcomes: Sequence[Outcome],
    chosen: Mapping[str, Mapping[str, Any]],
    summary: Mapping[str, Any],
    promises: Mapping[str, Promise],
    served: Mapping[str, Clients] | None = None,
    exchange: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The page of `undrift compare`.

    `chosen` says which rule chose a parameter, `summary` is what summary.json holds, `promises` are the guarantees by label,
    `served` how well the clients are, `exchange` the methods' rounds as messages.
    """
    arrived = [outcome for outcome in outcomes if outcome.best is not None]
    histories = [(o.label, o.colour or o.name, {name: o.column(name) for name in o.history}) for o in arrived]
    pooled = {outcome.label for outcome in outcomes if outcome.pooled}
    seeds = summary["seeds"]["run"]
    note = "Each method at the best step size of its grid."
    if len(seeds) > 1:
        note += (
            f" Best is the one whose worst seed is best. Lines are medians over {len(seeds)} seeds, bands their range."
        )
    labels = [outcome.label for outcome in outcomes]
    return {
        "title": f"{listed(labels) if len(labels) < 5 else f'{len(labels)} methods'} on "
        f"{study.problem['name'].rpartition('.py:')[2]}",
        "verdict": summary.get("verdict", {}),
        "subtitle": _subtitle(study, study.run["rounds"], summary),
        "command": summary["command"],
        "versions": summary["versions"],
        "seeds": seeds,
        "setting": setting_rows(study, chosen, summary["resources"]),
        "claims": [promised.claim() for promised in promises.values()],
        "figures": _with_promises(_figures(histories, note, pooled), promises, {o.label: o.result() for o in arrived}),
        "tables": [
            _from_terminal(compare_table(outcomes, "Results")),
            *_suffering(served or {}),
            _grids(outcomes, study.run["refine"]),
        ],
        "exchange": list(exchange),
    }


def run_document(
    study: Study,
    entry: Entry,
    result: Result,
    summary: Mapping[str, Any],
    promise: Promise | None = None,
    served: Clients | None = None,
    presence: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The page of `undrift run`.

    `promise`: the guarantee that covers the run, drawn beside the curve and checked. `served`: how well its clients are.
    `presence`: what is known of them round by round (`report.lanes`).
    """
    label, colour = entry.label, entry.method.known.colour or entry.method.name
    columns = {name: column[None, :] for name, column in result.history.items()}
    return {
        "title": f"{label} on {study.problem['name'].rpartition('.py:')[2]}",
        "verdict": summary.get("verdict", {}),
        "subtitle": _subtitle(study, result.rounds, summary),
        "command": summary["command"],
        "versions": summary["versions"],
        "seeds": [summary["seeds"]["run"]],
        "setting": setting_rows(study, {label: summary["chosen"]}, summary["resources"]),
        "claims": [] if promise is None else [promise.claim()],
        "figures": _with_promises(
            _figures([(label, colour, columns)], "", {label} if entry.runs[0].recipe.centralised else set()),
            {} if promise is None else {label: promise},
            {label: result},
        ),
        "lanes": [] if served is None or (lanes := lanes_of(result, served)) is None else [lanes],
        "tables": [_from_terminal(run_table(label, entry.runs[0].words()["problem"], result)), *_not_in_lanes(served)],
        "presence": presence,
        "exchange": [exchange_of(label, entry.runs[0])],
    }


def _suffering(served: Mapping[str, Clients]) -> list[dict[str, Any]]:
    """Which client each method serves worst, and how far clients lie apart."""
    if not served:
        return []
    rows = [[label, *_extremes(one)] for label, one in served.items()]
    measure = next(iter(served.values())).measure.replace("_", " ")
    note = f"By each client's {measure} on its own data, at the end, with the first seed. Spread: standard deviation."
    columns = ["method", "worst client", "worst", "median", "best", "best client", "spread"]
    return [{"title": "Clients", "note": note, "columns": columns, "rows": rows}]


def _extremes(served: Clients) -> list[str]:
    worst, median, best = (served.values[served.measure][i] for i in (served.worst, served.median, served.best))
    shown = [value_text(served.measure, value) for value in (worst, median, best)]
    return [served.name(served.worst), *shown, served.name(served.best), value_text(served.measure, served.spread)]


def _not_in_lanes(served: Clients | None) -> list[dict[str, Any]]:
    """The clients' table where they are too many for lanes."""
    if served is None or served.roll.clients <= MOST:
        return []
    return [{**_from_terminal(served.table()), "note": served.sentence()}]


def _with_promises(
    figures: list[dict[str, Any]], promises: Mapping[str, Promise], results: Mapping[str, Result]
) -> list[dict[str, Any]]:
    """The bounds beside the curves of the gap."""
    bounds = []
    for label, promise in promises.items():
        columns = {name: column[None, :] for name, column in results[label].history.items()}
        for line in promise.lines(label, results[label].history):
            known = np.flatnonzero(np.isfinite(line.values))
            bounds.append(
                {
                    "label": line.label,
                    "kind": "bound",
                    "of": label,
                    "x": _axes(columns, known),
                    "y": line.values[known],
                    "thin": line.thin,
                }
            )
    note = " Thin dashes: what is promised." if bounds else ""
    if any(promise.bound.subject == "sq_distance" for promise in promises.values()):
        note += " Of ‖xₜ − x*‖² it is drawn as f − f* ≤ (L/2)‖xₜ − x*‖²."
    return [
        {**figure, "series": [*figure["series"], *bounds], "note": (figure["note"] + note).strip()}
        if bounds and figure["title"] == LABELS["gap"][0]
        else figure
        for figure in figures
    ]


def _figures(
    histories: Sequence[tuple[str, str, Mapping[str, np.ndarray]]], note: str, pooled: Collection[str]
) -> list[dict[str, Any]]:
    """What was recorded of all methods: how far they came, the gradient, the drift."""
    if not histories:
        return []
    shared = set.intersection(*(set(columns) for _, _, columns in histories))
    names = ["gap"] if "gap" in shared else [name for name in ("accuracy", "loss") if name in shared]
    found: list[dict[str, Any]] = []
    private = ["epsilon"] if any("epsilon" in columns for _, _, columns in histories) else []
    for name in [*names, *(name for name in ("grad_norm", "drift") if name in shared), *private]:
        series = [_series(label, method, name, columns) for label, method, columns in histories if name in columns]
        kept = [{**one, "pooled": one["label"] in pooled} for one in series if one is not None]
        if kept and (name != "drift" or any(np.any(np.asarray(one["y"]) > 0) for one in kept)):
            title, y_label, y_scale = LABELS[name]
            if name == "gap":
                note = f"{note} A dot marks where a gap comes down to rounding.".strip()
            found.append({"title": title, "note": note, "y_label": y_label, "y_scale": y_scale, "series": kept})
            found[-1]["floor"] = ROUNDING if name == "gap" else None
            note = ""  # said once
    return found


def _series(label: str, method: str, name: str, columns: Mapping[str, np.ndarray]) -> dict[str, Any] | None:
    """The median over seeds, with their range; rounds that were not evaluated are left out."""
    values = relative_gap(columns[name]) if name == "gap" else columns[name]
    recorded = np.flatnonzero(np.all(np.isfinite(values), axis=0))
    if not recorded.size:
        return None
    values = values[:, recorded]
    several = len(values) > 1
    return {
        "label": label,
        "kind": "measured",
        "method": method,
        "x": _axes(columns, recorded),
        "y": np.median(values, axis=0),
        "low": np.min(values, axis=0) if several else None,
        "high": np.max(values, axis=0) if several else None,
    }


def _axes(columns: Mapping[str, np.ndarray], rounds: np.ndarray) -> dict[str, np.ndarray]:
    """What these rounds had cost, by axis."""
    found = {"round": rounds}
    for axis, total in totals(columns).items():
        cost = np.median(total, axis=0)
        if cost[-1] > 0:  # a centralised method sends nothing
            found[axis] = cost[rounds]
    return found


def setting_rows(study: Study, chosen: Mapping[str, Mapping[str, Any]], resources: str) -> list[dict[str, Any]]:
    """Problem, plan and parameters; `chosen`: label -> parameter -> {"why": the rule that chose it}."""
    words = study.words()
    rows = [_row("problem" if key == "name" else f"problem: {key}", entry) for key, entry in words["problem"].items()]
    rows += [_row(f"run: {key}", entry) for key, entry in words["run"].items() if key not in ("speeds", "link")]
    rows.append(_row("seconds", resources, "given" if {"speeds", "link"} & set(words["run"]) else "ours", VIRTUAL))
    for method, label in zip(study.methods, distinct_labels(study.methods), strict=True):
        rows += _method_rows(label, method, chosen.get(label, {}))
    return rows


def _method_rows(label: str, method: StudyMethod, chosen: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for key, entry in method.words().items():
        if key == "private":
            entry = {**PRIVATE, **entry}
        if key not in ("name", "label", "asked"):  # what was asked for shows in the source
            rule = chosen.get(key)
            rows.append(_row(f"{label}: {key}", entry, "rule" if rule else "given", rule["why"] if rule else ""))
    return rows


def _row(key: str, value: Any, source: str = "", note: str = "") -> dict[str, Any]:
    return {"key": key, "value": value, "source": source, "note": note}


def _from_terminal(table: Table) -> dict[str, Any]:
    """A table of the terminal, cell by cell."""
    cells = [[cell.plain if isinstance(cell, Text) else str(cell) for cell in column.cells] for column in table.columns]
    rows = [list(row) for row in zip(*cells, strict=True)]
    columns = [str(column.header) for column in table.columns]
    return {"title": str(table.title or ""), "note": str(table.caption or ""), "columns": columns, "rows": rows}


def _grids(outcomes: Sequence[Outcome], refine: int) -> dict[str, Any]:
    """The end of every run of every grid, and what is to be said of the grids."""
    gap = all(outcome.measure == "gap" for outcome in outcomes)
    rows = []
    for outcome in outcomes:
        ends = np.max(outcome.curve_of_all()[..., -1], axis=1)
        for p, point in enumerate(outcome.points):
            lost = _lost(outcome.diverged[p])
            end = float(ends[p]) if np.isfinite(ends[p]) and not lost else None
            small = gap and end is not None and end < ROUNDING
            end_text: Any = f"<{ROUNDING:.0e}" if small else end
            rows.append([outcome.label, step_text(point), end_text, lost, _choice(outcome, p), outcome.origins[p]])
    end_name = f"{'relative gap' if gap else 'loss'} at the end" + (
        ", worst seed" if len(outcomes[0].seeds) > 1 else ""
    )
    note = " ".join(f"{outcome.label}: {line}." for outcome in outcomes for line in remarks(outcome, refine))
    columns = ["method", "step", end_name, "diverged", "choice", "origin"]
    return {"title": "Every value of every grid", "note": note, "columns": columns, "rows": rows}


def _lost(bad: np.ndarray) -> str:
    """The first round that diverged, and with how many seeds one did if not with all."""
    if not np.any(bad >= 0):
        return ""
    some = "" if np.all(bad >= 0) else f", {int(np.sum(bad >= 0))} of {bad.size} seeds"
    return f"round {int(np.min(bad[bad >= 0]))}{some}"


def _choice(outcome: Outcome, point: int) -> str:
    if point != outcome.best:
        return ""
    return "best" + (f", at the {' and '.join(sorted(set(outcome.edges.values())))} edge" if outcome.edges else "")


def listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def subtitle_of(study: Study, rounds: int, *more: str) -> str:
    """The problem's arguments and the rounds, in a line."""
    inside = [f"{key} = {entry}" for key, entry in study.problem.items() if key not in HIDDEN]
    return ", ".join([*inside, steps_words(study), f"{rounds} rounds", *more])


def _subtitle(study: Study, rounds: int, summary: Mapping[str, Any]) -> str:
    """The same, with whether something came in between."""
    status = [] if summary["status"] == "finished" else [summary["status"]]
    status += [f"stopped: {summary['stopped']}"] if summary.get("stopped") else []
    return subtitle_of(study, rounds, *status)
