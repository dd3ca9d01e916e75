"""`undrift export`: the model of a run for other programs, and its card."""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .. import files
from ..errors import InputError
from ..report.card import card, client_count
from ..studies.trained import Trained, trained
from . import codes
from .directory import CARD, EXPORTED, writable
from .talk import Talk

Written = list[Path]


def execute(arguments: argparse.Namespace) -> int:
    """The command."""
    if arguments.to is None and not arguments.card:
        raise InputError(f"to what? Say --to {', --to '.join(FORMS)}, or --card for the model card alone")
    if arguments.to is None and arguments.out is not None and Path(arguments.out).suffix != ".md":
        raise InputError(f"a card is written to a file .md, got --out {arguments.out}: rename it, or say --to what")
    talk = Talk(arguments.quiet, arguments.json)
    model = trained(arguments.run, arguments.method)
    written = _export(model, arguments)
    if model.summary.get("status") != "finished":
        talk.note(f"the run in {model.folder} is {model.summary.get('status')}: this is its model so far")
    if arguments.json:
        print(json.dumps({"run": str(model.folder), "method": model.label, "to": arguments.to, "kind": model.meaning.kind,
                          "files": [str(path) for path in written]}, indent=2, ensure_ascii=False))  # fmt: skip
    for path in () if arguments.json else written:
        talk.results.print(str(path), soft_wrap=True)
    for line in _advice(arguments.to, written, model):
        talk.note(line)
    return codes.OK


def _export(model: Trained, arguments: argparse.Namespace) -> Written:
    if arguments.to is None:
        target = _target(arguments, model.folder / CARD)
        files.write_text(target, card(model))
        return [target]
    make, suffix = FORMS[arguments.to]
    target = _target(arguments, model.folder / EXPORTED[arguments.to])
    if target.suffix != suffix:
        raise InputError(f"--to {arguments.to} writes a file {suffix}, got --out {target}: name it so")
    beside = target.parent / CARD
    if arguments.out is not None:
        _refuse_to_replace(beside, arguments.overwrite)
    written = make(model, target, arguments)
    files.write_text(beside, card(model))
    return [*written, beside]


def _target(arguments: argparse.Namespace, usual: Path) -> Path:
    """Where to write; a file that is there is replaced only where it is an earlier export, or the user says so."""
    if arguments.out is None:
        writable(usual.parent)
        return usual
    target = Path(arguments.out)
    if target.is_dir():
        raise InputError(f"--out {target} is a directory: name a file in it, {target / usual.name}")
    writable(target.parent)
    if not target.parent.is_dir():
        raise InputError(f"--out {target}: there is no directory {target.parent}; make it first")
    return _refuse_to_replace(target, arguments.overwrite)


def _refuse_to_replace(target: Path, overwrite: bool) -> Path:
    if target.exists() and not overwrite:
        raise InputError(f"{target} is already there: --overwrite replaces it, --out names another file")
    return target


def _scikit_learn(model: Trained, target: Path, arguments: argparse.Namespace) -> Written:
    import joblib

    from ..studies.estimators import estimator_of

    buffer = io.BytesIO()
    joblib.dump(estimator_of(model, client_count(model)), buffer)
    files.write_bytes(target, buffer.getvalue())
    return [target]


def _arrays(model: Trained, target: Path, arguments: argparse.Namespace) -> Written:
    from ..studies.arrays_file import arrays_of

    files.write_arrays(target, arrays_of(model))
    return [target]


def _flax(model: Trained, target: Path, arguments: argparse.Namespace) -> Written:
    from ..studies.flax_files import packed, program_of

    program = target.with_suffix(".py")
    if not program.stem.isidentifier():
        raise InputError(
            f"--to flax also writes a Python module {program.name}: name --out with letters, digits and _ only"
        )
    if arguments.out is not None:
        _refuse_to_replace(program, arguments.overwrite)
    content = packed(model)
    files.write_bytes(target, content)
    files.write_text(program, program_of(model, program.stem, target.name))
    return [target, program]


FORMS: dict[str, tuple[Callable[[Trained, Path, argparse.Namespace], Written], str]] = {
    "sklearn": (_scikit_learn, ".joblib"),
    "npz": (_arrays, ".npz"),
    "flax": (_flax, ".msgpack"),
}


def _advice(to: str | None, written: Written, model: Trained) -> list[str]:
    """How it is used, in a line or two."""
    encoded = model.meaning.columns is not None
    takes = "the columns of your table as they are" if encoded else "features as they are"
    lines: dict[str | None, list[Any]] = {
        "sklearn": [
            f'model = joblib.load("{written[0]}"); model.predict(…) takes {takes}',
            "a joblib file runs code when it is loaded: load only what comes from somebody you trust (--to npz runs none)",
        ],
        "npz": [f'np.load("{written[0]}")["README"] says what the arrays are'],
        "flax": [f"{written[1] if len(written) > 1 else ''} holds the module and says how to load it"],
        None: [],
    }
    if encoded and to in ("npz", "flax"):
        return [
            *lines[to],
            "it takes features, not columns: words and missing values of a table come first, as its text says",
        ]
    return lines[to]
