"""Trackers as words: tensorboard:DIR, mlflow:URI, wandb:PROJECT, trackio:PROJECT."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import InputError, unknown
from .to_mlflow import mlflow
from .to_tensorboard import tensorboard
from .to_trackio import trackio
from .to_wandb import wandb
from .tracker import Tracker

TENSORBOARD = "runs/tensorboard"


def tracker_from(word: str, names: Sequence[str]) -> Tracker:
    """The tracker that a flag means, for a run that goes by these names: the last is its own, those before it lead there.

    >>> tracker_from("tensorbord:tb", ["demo"])
    Traceback (most recent call last):
    undrift.errors.InputError: unknown tracker 'tensorbord': did you mean 'tensorboard'? ...
    """
    kind, colon, value = word.partition(":")
    if kind not in KINDS:
        raise unknown("tracker", kind, KINDS)
    if colon and not value:
        raise InputError(f"--track {word}: say what follows the colon, or leave it out")
    made = KINDS[kind](value, names)
    made.word = word
    return made


def _tensorboard(value: str, names: Sequence[str]) -> Tracker:
    return tensorboard(Path(value or TENSORBOARD, *map(_as_name, names)), names[-1])


def _as_name(text: str) -> str:
    """As the name of a directory."""
    return re.sub(r"[^\w.-]+", "_", text).strip(".") or "run"


KINDS: dict[str, Callable[[str, Sequence[str]], Tracker]] = {
    "tensorboard": _tensorboard,
    "mlflow": lambda value, names: mlflow(value or None, name=" ".join(names)),
    "wandb": lambda value, names: wandb(value or "undrift", name=" ".join(names)),
    "trackio": lambda value, names: trackio(value or "undrift", name=" ".join(names)),
}
