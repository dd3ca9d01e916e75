"""`undrift advise`: which method, step size, local steps and compression, and why."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import files
from ..advice import Advice, advise
from ..advice.adviser import LOCAL_STEPS
from ..errors import InputError
from ..gate import scalar
from ..ownership import owned
from ..studies.build import build_steps
from ..studies.method import method_factory
from ..studies.study import Study
from . import codes
from .directory import command_line, names_in, writable
from .setting import problem_flag, study_from_arguments
from .talk import Stop, Talk
from .versions import versions

FILES = ("advice.json", "advice.csv", "advice.md", "advice.png", "advice.svg")


def execute(arguments: argparse.Namespace) -> int:
    """The command."""
    talk = Talk(arguments.quiet, arguments.json)
    folder = _folder(arguments)
    study = study_from_arguments(_without_steps(arguments))
    problem = study.make_problem()
    for line in problem.remarks:
        talk.note(line)
    told = study.arguments(problem)
    steps = [build_steps(scalar(word), problem.clients) for word in arguments.steps or map(str, LOCAL_STEPS)]
    with talk.progress() as bar, Stop() as stop:
        task = bar.add_task("", total=None)

        def progress(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)
            stop.heard()

        advice = advise(
            problem,
            arguments.target,
            on=arguments.on,
            absolute=arguments.absolute,
            steps=[_known(entry) for entry in steps],
            speeds=study.run["speeds"],
            link=study.run["link"],
            by=arguments.by,
            methods=_methods(arguments.method),
            measure=arguments.measure,
            rounds=arguments.rounds,
            seed=told["seed"],
            oracle=told["oracle"],
            participation=told["participation"],
            failures=told["failures"],
            availability=told["availability"],
            progress=progress,
        )
    command = _command(study, advice, arguments.method or ())
    content = {
        **advice.words(),
        "study": study.words(),
        "command": command_line(),
        "run": command,
        "versions": versions(),
    }
    _write(advice, folder, study, command, content, arguments.no_figures)
    if arguments.json:
        print(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        _show(advice, study, command, talk)
    if folder is not None:
        talk.note(f"written to {folder}")
    return codes.OK


def _folder(arguments: argparse.Namespace) -> Path | None:
    if arguments.out is None:
        return None
    folder = Path(arguments.out)
    if set(FILES) & set(names_in(folder)) and not arguments.overwrite:
        raise InputError(f"{folder} already holds an advice: --overwrite replaces it")
    return writable(folder)


def _without_steps(arguments: argparse.Namespace) -> argparse.Namespace:
    """`--steps` names several choices here, and `--rounds` is a budget: neither belongs to the study."""
    return argparse.Namespace(**{**vars(arguments), "steps": None, "rounds": None})


def _known(steps: Any) -> Any:
    if isinstance(steps, int | list):
        return steps
    raise InputError(
        f"advice is given for local steps that are the same in every round, got {steps}: write 2..100:fixed"
    )


def _methods(words: list[str] | None) -> list[Any] | None:
    """Methods of the library by name, one's own (path/to/file.py:factory) as their factories."""
    return None if words is None else [method_factory(word) if ".py:" in word else word for word in words]


def _command(study: Study, advice: Advice, given: Sequence[str]) -> str:
    """The run that the advice recommends, as a command."""
    best = advice.recommended
    if best is None:
        return ""
    counts = [int(t) for t in best.steps]
    steps = str(counts[0]) if len(set(counts)) == 1 else ",".join(map(str, counts))
    named = study.source != "command line"
    where = shlex.quote(study.source) if named else f"--problem {shlex.quote(problem_flag(study.problem))}"
    rounds = advice.costs_rounds(best)
    own = next((word for word in given if word.endswith(f".py:{best.option.name}")), best.option.name)
    local = "" if best.option.draws_steps else f" --steps {steps}"
    return f"undrift run {where} {best.method_word(own)}{local} --rounds {rounds}"


def _write(
    advice: Advice, folder: Path | None, study: Study, command: str, content: dict[str, Any], no_figures: bool
) -> None:
    if folder is None:
        return
    from ..report.advice import page, write_csv, write_figure

    with owned(folder):
        files.write_json(folder / "advice.json", content)
        files.write_text(folder / "advice.md", page(advice, study.title, command))
        write_csv(advice, folder / "advice.csv")
        for name in FILES[3:]:
            with files.storage(folder / name):
                (folder / name).unlink(missing_ok=True)  # it would show the advice before
        if not no_figures:
            write_figure(advice, folder, study.title)


def _show(advice: Advice, study: Study, command: str, talk: Talk) -> None:
    from ..report.advice import advice_table

    talk.results.print(advice_table(advice, study.title))
    for sentence in advice.why:
        talk.results.print(f"• {sentence}", markup=False)
    if command:
        talk.results.print(f"\n{command}", markup=False, soft_wrap=True)
