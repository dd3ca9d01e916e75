"""The card of a model: what it was made of, how, with what guarantee, and how well it serves each client.

Everything is read from the run directory. What nobody wrote down is said to be unknown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ..deploy.contract import Contract
from ..errors import UndriftError
from ..studies.estimators import penalty_of
from ..studies.raw_columns import in_words
from ..studies.trained import LINEAR, Trained
from .tables import short

UNKNOWN = "unknown"
KINDS = {
    "logistic": "logistic regression",
    "least_squares": "linear regression by least squares",
    "network": "a neural network",
    "vector": "a vector of numbers (the problem's own)",
}
FINAL = (
    "loss",
    "gap",
    "grad_norm",
    "test_loss",
    "accuracy",
    "loss_worst",
    "loss_spread",
    "accuracy_worst",
    "accuracy_spread",
    "epsilon",
)
LONG = 20  # clients that are listed


def card(model: Trained) -> str:
    """The card as Markdown."""
    parts = (_model, _data, _training, _guarantee, _results, _made, _limits)
    lines = [f"# Model card: {_cell(model.label)} on {_cell(model.study.problem.get('name', UNKNOWN))}", ""]
    for part in parts:
        lines += [*part(model), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def client_count(model: Trained) -> int | None:
    """m, where it was written down."""
    served = _served(model)
    if isinstance(served.get("count"), int):
        return int(served["count"])
    if model.clients is not None:
        return len(model.clients)
    sites = model.study.deploy.get("sites")
    return None if sites is None else len(sites)


def _model(model: Trained) -> Iterator[str]:
    meaning = model.meaning
    yield "## Model"
    yield ""
    yield f"- {KINDS[meaning.kind][:1].upper()}{KINDS[meaning.kind][1:]}, {model.x.size:,} numbers ({model.x.dtype})."
    if meaning.net is not None:
        layers = ", ".join(layer.name for layer in meaning.net.layers)
        yield f"- Network {_cell(meaning.net.name)}: {_cell(layers)}; inputs of shape {tuple(meaning.net.input)}."
    if meaning.features is not None:
        yield f"- Features, in this order: {', '.join(f'`{_cell(name)}`' for name in meaning.features)}."
    elif meaning.kind in LINEAR:
        yield f"- {model.raw_features:,} features; their names are {UNKNOWN}."
    for clause in in_words(meaning.columns):
        yield f"- Of the column {_cell(clause)}."
    if meaning.label is not None:
        yield f"- Predicts `{_cell(meaning.label)}`" + _classes(meaning.classes) + "."
    if meaning.kind in LINEAR:
        yield f"- Intercept: {'yes, the last number; it is regularised like the others' if meaning.intercept else 'none'}."
    scaled = (
        "(feature − mean)/scale, with means and scales over all clients' samples"
        if meaning.mean is not None
        else "as they are"
    )
    yield f"- Features enter {scaled}."
    yield f"- {_regularisation(model)}"


def _classes(classes: Sequence[Any] | None) -> str:
    return "" if classes is None else f": {', '.join(f'`{_cell(one)}`' for one in classes)}"


def _regularisation(model: Trained) -> str:
    meaning = model.meaning
    if meaning.l2 is None:
        return f"Regularisation: {UNKNOWN}."
    if meaning.l2 == 0:
        return "Regularisation: none (scikit-learn: C = ∞)."
    words = f"Regularisation: l2 = {meaning.l2:g} at every client"
    alpha = penalty_of(meaning, client_count(model))
    if alpha is None:
        return f"{words}; in scikit-learn's terms C = {1 / meaning.l2:g} with sample weights w_i, the clients' (Σ w_i = 1)."
    return f"{words}; in scikit-learn's terms C = 1/(m·l2) = {1 / alpha:g}, the intercept a column of ones."


def _data(model: Trained) -> Iterator[str]:
    yield "## Data"
    yield ""
    sizes = _sizes(model)
    problem = {key: entry for key, entry in model.study.problem.items() if key != "name"}
    yield f"- Problem: `{_cell(model.study.problem.get('name', UNKNOWN))}` {_code(problem)}"
    count = client_count(model)
    yield f"- Clients: {UNKNOWN if count is None else f'{count:,}'}."
    if sizes:
        total = "" if len(sizes) != count else f", {sum(sizes.values()):,} in all"
        named = ", ".join(f"{_cell(name)} {size:,}" for name, size in list(sizes.items())[:LONG])
        more = f", and {len(sizes) - LONG} more" if len(sizes) > LONG else ""
        yield f"- Samples: {named}{more}{total}."
    else:
        yield f"- Samples per client: {UNKNOWN}."
    yield "- The samples themselves are not in this card, nor in the run directory."


def _sizes(model: Trained) -> dict[str, int]:
    if model.clients is not None:
        return dict(model.clients)
    return {str(one["name"]): int(one["samples"]) for one in _listed(model) if "samples" in one}


def _training(model: Trained) -> Iterator[str]:
    yield "## Training"
    yield ""
    words = {key: entry for key, entry in model.method.items() if key not in ("name", "label", "asked")}
    yield f"- Method: `{_cell(model.method.get('name', UNKNOWN))}` {_code(words)}"
    best = _of_method(model).get("best")
    if isinstance(best, Mapping):
        yield f"- The values of its grid that were best here: {_code(best)}"
    chosen = model.summary.get("chosen")
    for name, choice in chosen.items() if isinstance(chosen, Mapping) else ():
        if isinstance(choice, Mapping):
            yield f"- {_cell(name)} = {_cell(short(choice.get('value')))} was chosen: {_cell(choice.get('why', UNKNOWN))}."
    rounds = model.summary.get("rounds", model.study.run["rounds"])
    yield f"- Rounds: {rounds}; asked for: {model.study.run['rounds']}; ended: {_cell(model.summary.get('status', UNKNOWN))}."
    if model.summary.get("stopped"):
        yield f"- Stopped early: {_cell(model.summary['stopped'])}."
    best_round = model.summary.get("best_round")
    if isinstance(best_round, Mapping):
        yield f"- {_cell(best_words(best_round))}"
    run = {key: entry for key, entry in model.study.words()["run"].items() if key not in ("rounds", "per_client")}
    yield f"- Plan: {_code(run)} (what is not said here has its default)."


def best_words(best: Mapping[str, Any]) -> str:
    """Which round was best, and whose model was kept."""
    kept = "this is its model" if best.get("kept") else "this is the model of the last round"
    return f"Best round: {best.get('round')}, with {best.get('column')} = {short(best.get('value'))}; {kept}."


def _guarantee(model: Trained) -> Iterator[str]:
    yield "## Guarantee"
    yield ""
    claim = model.summary.get("theorem")
    claims = model.summary.get("theorems")
    if isinstance(claims, Mapping):
        claim = claims.get(model.label)
    if not isinstance(claim, Mapping):
        yield "No theorem or certificate was held against this run: none covered its method, step and problem, or not every"
        yield "round was measured."
        return
    verdict = "It held in this run" if claim.get("holds") is True else "It did NOT hold in this run"
    yield f"- {_cell(claim.get('sentence', UNKNOWN))}."
    yield f"- {verdict}: {_cell(claim.get('measured', UNKNOWN))}."
    yield "- It is about the training loss, not about new samples."


def _results(model: Trained) -> Iterator[str]:
    yield "## Results"
    yield ""
    final = _of_method(model).get("final") or model.summary.get("final") or {}
    known = {name: final[name] for name in FINAL if isinstance(final, Mapping) and final.get(name) is not None}
    yield "At the end: " + (", ".join(f"{name} = {short(value)}" for name, value in known.items()) or UNKNOWN) + "."
    yield ""
    yield from _per_client(model)


def _per_client(model: Trained) -> Iterator[str]:
    served, listed = _served(model), _listed(model)
    if not listed:
        yield f"Results of single clients: {UNKNOWN} (a run with --per-client records them)."
        return
    worst, best = (_table(served, key) for key in ("worst", "best"))
    by = served.get("compared_by", UNKNOWN)
    yield (
        f"Worst client by {_cell(by)}: {_cell(worst.get('name', UNKNOWN))} ({_number(worst.get(by))}); best: "
        f"{_cell(best.get('name', UNKNOWN))} ({_number(best.get(by))}). On the data they trained with, after round "
        f"{served.get('round', UNKNOWN)}."
    )
    yield ""
    columns = [
        name for name in ("name", "samples", "steps", "loss", "loss_per_sample", "accuracy") if name in listed[0]
    ]
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    shown = listed if len(listed) <= LONG else listed[:LONG]
    for one in shown:
        yield "| " + " | ".join(_number(one.get(name)) for name in columns) + " |"
    if len(shown) < (client_count(model) or 0):
        yield ""
        yield f"{len(shown)} of {client_count(model):,} clients are listed."


def _made(model: Trained) -> Iterator[str]:
    summary = model.summary
    seeds, files, versions = (_table(summary, key) for key in ("seeds", "files", "versions"))
    yield "## How to make it again"
    yield ""
    yield "```sh"
    yield str(summary.get("command", f"# the command is {UNKNOWN}")).replace("`", "'")
    yield "```"
    yield ""
    yield "The study, every number written out, is `study.toml` in the run directory (`undrift run study.toml`)."
    yield ""
    yield f"- Seed of the run: {_cell(seeds.get('run', UNKNOWN))}; of the data: {_cell(seeds.get('data', UNKNOWN))}."
    for name in ("model.npy", "models.npz"):
        if name in files:
            yield f"- Identity: {name} has SHA-256 `{_cell(files[name])}`."
    if (contract := _contract(model)) is not None:
        yield f"- Deployed under the contract `{contract}`; `undrift replay` plays its trace again."
    yield f"- Versions: {', '.join(f'{_cell(name)} {_cell(version)}' for name, version in versions.items()) or UNKNOWN}."


def _contract(model: Trained) -> str | None:
    """The hash of the contract of a deployed run."""
    path = model.folder / "contract.json"
    if not path.exists():
        return None
    try:
        return Contract.read(path.read_bytes()).hash
    except (UndriftError, OSError):  # a card says what is known, and a damaged contract says nothing
        return f"{UNKNOWN}: contract.json cannot be read"


def _limits(model: Trained) -> Iterator[str]:
    yield "## Limits"
    yield ""
    tested = "accuracy" in (model.summary.get("final") or {}) or "test_loss" in (model.summary.get("final") or {})
    if tested:
        yield "- Accuracy and test loss are on data that were held back; clients' own results are on their training data."
    else:
        yield "- All results are on the data it was trained with: how well it does on new samples is unknown."
    yield "- What the data stand for, who is missing in them, and what the model may be used for is unknown here: add it."
    yield "- Privacy: " + _privacy(model)


def _privacy(model: Trained) -> str:
    final = model.summary.get("final")
    epsilon = final.get("epsilon") if isinstance(final, Mapping) else None
    if epsilon is not None:
        return f"messages were clipped and noised; ε = {short(epsilon)} at the method's δ for all data of one client."
    return "no noise was added in training; a model can give away properties of its data."


# ----- what the summary says
def _table(words: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = words.get(key)
    return found if isinstance(found, Mapping) else {}


def _of_method(model: Trained) -> Mapping[str, Any]:
    """The words of this method in the summary of a comparison."""
    methods = model.summary.get("methods", [])
    return next((one for one in methods if isinstance(one, Mapping) and one.get("label") == model.label), {})


def _served(model: Trained) -> Mapping[str, Any]:
    found = _of_method(model).get("clients") or model.summary.get("clients")
    return found if isinstance(found, Mapping) else {}


def _listed(model: Trained) -> list[Mapping[str, Any]]:
    found = _served(model).get("listed")
    return [one for one in found if isinstance(one, Mapping) and "name" in one] if isinstance(found, list) else []


def _number(value: Any) -> str:
    return "–" if value is None else _cell(f"{value:.4g}" if isinstance(value, float) else value)


def _code(words: Mapping[str, Any]) -> str:
    if not words:
        return "with its defaults."
    text = json.dumps(msgspec.to_builtins(dict(words)), ensure_ascii=False).replace("`", "'")
    return f"`{text}`"


def _cell(value: Any) -> str:
    """Words of a user's inside Markdown: a line without marks that would end a cell, a code or begin HTML."""
    return " ".join(str(value).split()).replace("|", "/").replace("`", "'").replace("<", "‹").replace(">", "›")
