"""How many devices of the CPU a run uses: to be said before JAX computes anything."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import jax

from ..errors import InputError
from ..studies.networks import is_convolutional
from ..vectorise import DEVICES, use_devices


def prepare_devices(wanted: int | None, problem: Mapping[str, Any]) -> None:
    """As many as the user says; else one per core where the clients of a convolutional network are played in turn, else one."""
    if wanted is not None:
        if wanted < 1:
            raise InputError(f"--devices must be a whole number ≥ 1, got {wanted}")
        if max(1, getattr(jax.config, DEVICES)) != wanted:
            use_devices(wanted)
        return
    if problem.get("name") == "network" and is_convolutional(problem.get("model")):
        try:
            use_devices(cores())
        except InputError:
            return  # something was computed in this process before: it goes on with the devices it has


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
