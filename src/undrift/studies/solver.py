"""Weight decay and clipping as numbers of a method: what study files and flags can say of a local solver."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NamedTuple

from ..recipe import not_negative, positive

if TYPE_CHECKING:
    import optax

_KEYWORD = inspect.Parameter.KEYWORD_ONLY
OPTIONS = {
    "weight_decay": inspect.Parameter("weight_decay", _KEYWORD, default=0.0, annotation=float),
    "clip": inspect.Parameter("clip", _KEYWORD, default=None, annotation=float | None),
}


class ClippedDecayedSgd(NamedTuple):
    """g ← g·min(1, clip/‖g‖); g ← g + weight_decay·y; y ← y − η g: the order in which PyTorch programs do it."""

    weight_decay: float
    clip: float | None

    def __call__(self, eta: Any) -> optax.GradientTransformation:
        import optax

        clip = [] if self.clip is None else [optax.clip_by_global_norm(self.clip)]
        decay = [optax.add_decayed_weights(self.weight_decay)] if self.weight_decay else []
        return optax.chain(*clip, *decay, optax.sgd(eta))

    def __str__(self) -> str:
        clip = "" if self.clip is None else f", clip={self.clip:g}"
        return f"sgd(weight_decay={self.weight_decay:g}{clip})"


def solver_from(weight_decay: float = 0.0, clip: float | None = None) -> ClippedDecayedSgd | None:
    """The solver with these options; None for plain gradient steps.

    >>> solver_from(), str(solver_from(1e-4, clip=10))
    (None, 'sgd(weight_decay=0.0001, clip=10)')
    """
    not_negative(weight_decay=weight_decay)
    if clip is not None:
        positive(clip=clip)
    return None if not weight_decay and clip is None else ClippedDecayedSgd(weight_decay, clip)
