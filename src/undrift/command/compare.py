"""`undrift compare`: several methods on the same problem and plan, each over a grid of step sizes."""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import tomllib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import InputError
from ..problems.base import Problem
from ..studies.build import MethodMaker, build_problem, check_together, method_factory, run_arguments
from ..studies.comparison import Outcome, distinct_labels, play
from ..studies.defaults import by_theorem, choose, grid_around
from ..studies.spec import MethodSpec, Study, study_from
from ..studies.words import located
from ..theory.methods import COMPARED, COMPARED_ON_NETWORKS, known_of
from . import codes
from .compare_files import Finished, summary_of, write_outcomes
from .devices import prepare_devices
from .directory import PAGE, RunDirectory
from .promise import Promise, promise_of
from .run import says_what, title_of
from .setting import method_spec, study_from_arguments, with_absolute_paths, with_flags
from .talk import Stop, Talk


class Plan(NamedTuple):
    """All that is needed to compare."""

    directory: RunDirectory
    study: Study
    problem: Problem
    setting: dict[str, Any]
    makers: list[MethodMaker]
    notes: tuple[str, ...]
    chosen: dict[str, dict[str, Any]]  # label -> parameter -> {"why": the rule that chose it}


def execute(arguments: argparse.Namespace) -> int:
    """The command."""
    talk = Talk(arguments.quiet, arguments.json)
    plan = _plan(arguments)
    for line in plan.notes:
        talk.note(line)
    if arguments.resume and (summary := plan.directory.summary()) is not None and summary.get("status") == "finished":
        talk.note(f"the comparison in {plan.directory.path} is finished: nothing to resume")
        if arguments.json:
            print(json.dumps(summary, indent=2, ensure_ascii=False))
        return codes.OK
    plan.directory.open(plan.study, plan.notes, arguments.resume)
    outcomes, interrupted = _play(plan, talk)
    status = "interrupted" if interrupted else "finished"
    promises = _promises(plan, outcomes)
    content = summary_of(plan.study, outcomes, status, str(plan.setting["resources"]), promises)
    summary = plan.directory.write_summary(content)
    if outcomes:
        _show(plan, outcomes, promises, summary, talk, arguments)
    if arguments.json:
        print(json.dumps(summary, indent=2, ensure_ascii=False))
    talk.note(f"written to {plan.directory.path}")
    if interrupted:
        talk.notes.print(f"stopped after {len(outcomes)} of {len(plan.makers)} methods", markup=False)
        talk.notes.print(f"continue with: undrift compare --out {plan.directory.path} --resume", markup=False)
        return codes.INTERRUPTED
    plan.directory.drop_checkpoints()
    lost = [outcome.label for outcome in outcomes if outcome.best is None]
    if lost and plan.study.run.on_divergence == "stop":
        talk.notes.print(f"undrift: {', '.join(lost)} diverged at every step size: give smaller ones", markup=False)
        return codes.DIVERGED
    return codes.OK


def demo() -> Study:
    """The study that is run where nothing is asked for: the main methods on embedded data."""
    file = resources.files("undrift.studies") / "demo.toml"
    return study_from(tomllib.loads(file.read_text(encoding="utf-8")), "the demo study", Path())


def _plan(arguments: argparse.Namespace) -> Plan:
    """From arguments to objects; nothing is written yet."""
    if arguments.resume and not (says_what(arguments) or arguments.seeds):
        directory = RunDirectory.claim(arguments.out, "", False, True)
        study = directory.study()
    else:
        anything = arguments.study or arguments.problem or arguments.method
        study = study_from_arguments(arguments, None if anything else demo())
        if not study.problem:
            study = dataclasses.replace(study, problem=demo().problem)
        study = dataclasses.replace(study, methods=_methods(study, arguments))
        stem = f"compare-{study.problem.get('name', '')}"
        directory = RunDirectory.claim(arguments.out, stem, arguments.overwrite, arguments.resume)
    prepare_devices(arguments.devices, {})  # a grid runs as one batch, on one device
    problem = build_problem(study)
    setting = run_arguments(study, problem)
    makers, notes, chosen = [], [], {}
    for number, spec in enumerate(study.methods):
        with located(study.method_place(number)):
            maker, said, why = _with_grid(MethodMaker.of(spec, study.folder), problem, setting)
            for point in maker.points():
                check_together(maker.make(**point), problem, study.run.seed, study.run.on_divergence, setting)
        makers.append(maker)
        notes += [f"{maker.label}: {line}" for line in said]
        chosen[maker.label] = why
    study = with_absolute_paths(dataclasses.replace(study, methods=tuple(maker.spec for maker in makers)))
    if arguments.resume and directory.study().words() != study.words():
        raise InputError(f"{directory.path} holds another comparison than these flags describe: resume it without them")
    return Plan(directory, study, problem, setting, makers, tuple(notes), chosen)


def _methods(study: Study, arguments: argparse.Namespace) -> tuple[MethodSpec, ...]:
    if arguments.method:
        specs: Sequence[MethodSpec] = [method_spec(word) for word in arguments.method]
    else:
        usual = COMPARED_ON_NETWORKS if study.problem.get("name") == "network" else COMPARED
        specs = study.methods or [MethodSpec(name) for name in usual]
    if arguments.eta is None:
        return tuple(with_flags(spec, arguments, None) for spec in specs)
    # A step size may have another name.
    numbers = [known_of(method_factory(spec.name, study.folder)).number for spec in specs]
    return tuple(
        with_flags(spec, arguments, list(arguments.eta) if number == "eta" else None)
        for spec, number in zip(specs, numbers, strict=True)
    )


def _with_grid(
    maker: MethodMaker, problem: Problem, setting: dict[str, Any]
) -> tuple[MethodMaker, list[str], dict[str, Any]]:
    """The method with values for what it was not given, its step size as a grid around the rule; what was chosen, and why."""
    chosen, step = choose(maker, problem, setting["steps"]), maker.known.number
    values: dict[str, Any] = {}
    said = []
    for name, choice in chosen.items():
        values[name] = grid_around(choice) if name == step else choice.value
        shown = ", ".join(f"{v:g}" for v in values[name]) if name == step else f"{choice.value:g}"
        said.append(f"{name} = {shown} {'around ' if name == step else ': '}{choice.why}".replace(" :", ":"))
    why = {name: {"why": f"{'around ' if name == step else ''}{choice.why}"} for name, choice in chosen.items()}
    maker, promised = by_theorem(maker.with_parameters(**values), problem, setting)
    said += [f"{name} = {choice.value:.6g}: {choice.why}" for name, choice in promised.items()]
    return maker, said, {**why, **{name: {"why": choice.why} for name, choice in promised.items()}}


def _play(plan: Plan, talk: Talk) -> tuple[list[Outcome], bool]:
    """Outcomes, and whether somebody stopped it."""
    study, rounds = plan.study, plan.study.run.rounds
    seeds = list(range(study.run.seed, study.run.seed + study.run.seeds))
    labels = distinct_labels(plan.makers)
    identity = hashlib.sha256(json.dumps(study.words(), sort_keys=True).encode()).hexdigest()
    files = Finished(plan.directory.path, identity)
    outcomes: list[Outcome] = []
    with talk.progress() as bar, Stop() as stop:
        task = bar.add_task("", total=rounds * len(plan.makers))
        finished = {number: outcome for number in range(len(labels)) if (outcome := files.load(number)) is not None}

        def progress(number: int, done: int, total: int) -> None:
            bar.update(task, completed=number * rounds + done, description=labels[number])
            stop.heard()

        def done(number: int, outcome: Outcome) -> None:
            files.save(number, outcome)
            outcomes.append(outcome)
            stop.heard()

        try:
            everything = play(plan.makers, plan.problem, plan.setting, seeds, labels, progress, finished.get, done)
        except KeyboardInterrupt:
            known = {**finished, **{labels.index(outcome.label): outcome for outcome in outcomes}}
            return [known[number] for number in sorted(known)], True
    return everything, False


def _promises(plan: Plan, outcomes: list[Outcome]) -> dict[str, Promise]:
    """The guarantee of every method whose step a theorem chose, held against its first seed."""
    makers = dict(zip(distinct_labels(plan.makers), plan.makers, strict=True))
    found = {}
    for outcome in outcomes:
        if outcome.best is not None:
            method = makers[outcome.label].make(**outcome.points[outcome.best])
            promised = promise_of(method, plan.problem, plan.setting, outcome.result())
            if promised is not None:
                found[outcome.label] = promised
    return found


def _show(
    plan: Plan,
    outcomes: list[Outcome],
    promises: dict[str, Promise],
    summary: dict[str, Any],
    talk: Talk,
    arguments: argparse.Namespace,
) -> None:
    from ..report.tables import compare_table

    write_outcomes(plan.directory.path, outcomes)
    if not arguments.no_figures:
        from ..report.figures import curve_from, write_figures
        from ..report.page import write_page
        from ..report.page.results import compare_document

        curves = [
            curve_from(o.label, o.colour or o.name, o.curve(), _columns(o)) for o in outcomes if o.best is not None
        ]
        if curves:
            write_figures(curves, plan.directory.path, title_of(plan.study), outcomes[0].measure)
        document = compare_document(plan.study, outcomes, plan.chosen, summary, promises)
        write_page(plan.directory.path / PAGE, document)
    if not arguments.json:
        talk.results.print(compare_table(outcomes, f"{title_of(plan.study)}, {plan.study.run.rounds} rounds"))
    for label, promised in promises.items():
        talk.note(f"{label}: {promised.verdict}")


def _columns(outcome: Outcome) -> dict[str, Any]:
    return {name: outcome.column(name) for name in outcome.history}
