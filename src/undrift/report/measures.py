"""Measures of single clients, and how they are written. The board shows them too, which starts without JAX."""

from __future__ import annotations

from typing import Any

import numpy as np

LOSS, PER_SAMPLE, ACCURACY = "loss", "loss_per_sample", "accuracy"


def value_text(name: str, value: Any) -> str:
    """A measure for people.

    >>> value_text("accuracy", 0.7512), value_text("loss", 0.00123456), value_text("loss", np.nan)
    ('75.1 %', '1.235e-03', '–')
    """
    if not np.isfinite(value):
        return "–"
    return f"{100 * value:.1f} %" if name == ACCURACY else f"{value:.3e}"
