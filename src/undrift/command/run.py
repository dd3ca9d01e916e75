"""`undrift run`: one method on one problem."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import Any, NamedTuple

from ..engine.history import Result
from ..engine.simulate import run
from ..errors import DivergenceError, InputError, Interrupted
from ..problems.base import Problem
from ..report.relative import relative_gap
from ..studies.build import MethodMaker, build_problem, check_together, run_arguments
from ..studies.defaults import Choice, by_theorem, choose
from ..studies.spec import MethodSpec, Study
from ..studies.toml import value
from ..studies.words import located
from . import codes
from .devices import prepare_devices
from .directory import PAGE, RunDirectory
from .promise import Promise, promise_of
from .setting import method_spec, study_from_arguments, with_absolute_paths, with_flags
from .talk import Stop, Talk


class Plan(NamedTuple):
    """All that is needed to run."""

    directory: RunDirectory
    study: Study
    problem: Problem
    setting: dict[str, Any]
    maker: MethodMaker
    chosen: dict[str, Choice]


def execute(arguments: argparse.Namespace) -> int:
    """The command."""
    talk = Talk(arguments.quiet, arguments.json)
    plan = _plan(arguments)
    directory = plan.directory
    for line in _comments(plan.chosen):
        talk.note(line)
    if arguments.resume and (summary := _finished(plan)) is not None:
        talk.note(f"the run in {directory.path} is {summary['status']}: nothing to resume")
        return _shown(summary, arguments.json, codes.OK if summary["status"] == "finished" else codes.DIVERGED)
    directory.open(plan.study, _comments(plan.chosen), arguments.resume)
    status, code, result, error = _play(plan, talk, arguments)
    promised = promise_of(plan.maker.make(), plan.problem, plan.setting, result)
    summary = _save(plan, result, status, promised)
    if not arguments.no_figures:
        _draw(plan, result, summary, promised)
    if status != "interrupted":
        directory.drop_checkpoints()
    if not arguments.json:
        from ..report.tables import run_table

        talk.results.print(run_table(plan.maker.label, repr(plan.problem), result))
    if promised is not None:
        talk.note(str(promised.verdict))
    talk.note(f"written to {directory.path}")
    if error is not None:
        talk.notes.print(f"undrift: {error}", markup=False)
    if status == "interrupted":
        talk.notes.print(f"continue with: undrift run --out {directory.path} --resume", markup=False)
    return _shown(summary, arguments.json, code)


def _plan(arguments: argparse.Namespace) -> Plan:
    """From arguments to objects; nothing is written yet."""
    if arguments.resume and not says_what(arguments):
        directory = RunDirectory.claim(arguments.out, "", False, True)
        study = directory.study()
    else:
        study = one_method(study_from_arguments(arguments), arguments)
        stem = f"{study.methods[0].name.rpartition('.py:')[2]}-{study.problem.get('name', '')}"
        directory = RunDirectory.claim(arguments.out, stem, arguments.overwrite, arguments.resume)
    prepare_devices(arguments.devices, study.problem)
    problem = build_problem(study)
    setting = run_arguments(study, problem)
    with located(study.method_place(0)):
        maker = MethodMaker.of(study.methods[0], study.folder)
        chosen = choose(maker, problem, setting["steps"])
        maker = maker.with_parameters(**{name: choice.value for name, choice in chosen.items()})
        maker, promised = by_theorem(maker, problem, setting)
        chosen = {**chosen, **promised}
        check_together(maker.make(), problem, study.run.seed, study.run.on_divergence, setting)
    study = with_absolute_paths(dataclasses.replace(study, methods=(maker.spec,)))
    return Plan(directory, study, problem, setting, maker, chosen)


def _finished(plan: Plan) -> dict[str, Any] | None:
    """The summary, if the run that is to be resumed came to its end."""
    if plan.directory.study().words() != plan.study.words():
        raise InputError(f"{plan.directory.path} holds another run than these flags describe: resume it without them")
    summary = plan.directory.summary()
    return summary if summary is not None and summary.get("status") in ("finished", "diverged") else None


def _play(plan: Plan, talk: Talk, arguments: argparse.Namespace) -> tuple[str, int, Result, Exception | None]:
    """(status, exit code, result, what went wrong)."""
    run_spec = plan.study.run
    with talk.progress() as bar, Stop() as stop:
        task = bar.add_task(plan.maker.label, total=run_spec.rounds)

        def progress(done: int, rounds: int) -> None:
            bar.update(task, completed=done)
            stop.heard()

        try:
            result = run(
                plan.maker.make(),
                plan.problem,
                seed=run_spec.seed,
                on_divergence=run_spec.on_divergence,
                progress=progress,
                checkpoint=plan.directory.path,
                checkpoint_seconds=arguments.checkpoint_seconds,
                resume=arguments.resume,
                **plan.setting,
            )
        except Interrupted as stopped:
            return "interrupted", codes.INTERRUPTED, stopped.result, stopped
        except DivergenceError as diverged:
            return "diverged", codes.DIVERGED, diverged.result, diverged
    return "finished", codes.OK, result, None


def one_method(study: Study, arguments: argparse.Namespace) -> Study:
    """The study with the one method that is to be run."""
    spec: MethodSpec | None
    spec = method_spec(arguments.method) if arguments.method else (study.methods[0] if study.methods else None)
    if spec is None:
        raise InputError("which method? Name one, for example --method fedlin; `undrift list` shows them")
    spec = with_flags(spec, arguments, arguments.eta)
    grids = {key: entry for key, entry in spec.parameters.items() if isinstance(entry, list)}
    singles = {key: entry[0] for key, entry in grids.items() if len(entry) == 1}
    for key in grids.keys() - singles.keys():
        raise InputError(
            f"{study.source}: {spec.name} has {len(grids[key])} values of {key}; `undrift run` takes one: give --{key}, or "
            "use `undrift compare`"
            if key == "eta"
            else f"{study.source}: {spec.name} has several values of {key}: `undrift run` takes one, `undrift compare` all"
        )
    spec = dataclasses.replace(spec, parameters={**spec.parameters, **singles})
    return dataclasses.replace(study, methods=(spec,))


def says_what(arguments: argparse.Namespace) -> bool:
    flags = (
        "study",
        "method",
        "problem",
        "eta",
        "rounds",
        "steps",
        "participation",
        "failures",
        "oracle",
        "up",
        "down",
        "speeds",
        "link",
    )
    return any(getattr(arguments, flag) is not None for flag in (*flags, "seed", "record_every", "on_divergence"))


def _comments(chosen: dict[str, Choice]) -> tuple[str, ...]:
    return tuple(f"{name} = {choice.value:g} {choice.how}: {choice.why}" for name, choice in chosen.items())


def _save(plan: Plan, result: Result, status: str, promised: Promise | None) -> dict[str, Any]:
    result.save(plan.directory.path)
    content = {
        "status": status,
        "label": plan.maker.label,
        **result.summary(),
        "study": plan.study.words(),
        "seeds": {"run": plan.study.run.seed, "data": plan.study.problem.get("data_seed", 0)},
        "chosen": {name: {"value": choice.value, "why": choice.why} for name, choice in plan.chosen.items()},
        "resources": str(plan.setting["resources"]),
        "theorem": None if promised is None else promised.claim(),
    }
    return plan.directory.write_summary(content)


def _draw(plan: Plan, result: Result, summary: dict[str, Any], promised: Promise | None) -> None:
    from ..report.figures import curve_from, write_figures
    from ..report.page import write_page
    from ..report.page.results import run_document

    measure = "gap" if "gap" in result.history else "loss"
    columns = {name: column[None, :] for name, column in result.history.items()}
    values = relative_gap(columns["gap"]) if measure == "gap" else columns["loss"]
    colour = plan.maker.known.colour
    curve = curve_from(plan.maker.label, colour or plan.maker.spec.name, values, columns)
    write_figures([curve], plan.directory.path, title_of(plan.study), measure, singles=False)
    document = run_document(plan.study, plan.maker.label, result, repr(plan.problem), summary, promised, colour)
    write_page(plan.directory.path / PAGE, document)


def title_of(study: Study) -> str:
    """A line above the figures."""
    inside = ", ".join(
        f"{key} = {value(entry)}" for key, entry in study.problem.items() if key not in ("name", "path", "data_dir")
    )
    return f"{study.problem['name']}{f' ({inside})' if inside else ''}"


def _shown(summary: dict[str, Any], as_json: bool, code: int) -> int:
    if as_json:
        print(json.dumps(summary, indent=2, ensure_ascii=False))
    return code
