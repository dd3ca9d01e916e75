"""Weight decay and clipping as numbers of a method: what study files and flags can say of a local solver."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InputError
from ..recipe import not_negative, positive

if TYPE_CHECKING:
    import optax

_KEYWORD = inspect.Parameter.KEYWORD_ONLY
OPTIONS = {
    "weight_decay": inspect.Parameter("weight_decay", _KEYWORD, default=0.0, annotation=float),
    "clip": inspect.Parameter("clip", _KEYWORD, default=None, annotation=float | None),
    "clip_cut": inspect.Parameter("clip_cut", _KEYWORD, default=None, annotation=int | None),
}


class ClippedDecayedSgd(NamedTuple):
    """g ← g·min(1, clip/‖g‖); g ← g + weight_decay·y; y ← y − η g: the order in which PyTorch programs do it.

    With `clip_cut` the first so many entries of g are clipped by their own norm and the others by theirs, as the two halves of
    a model that is cut there are.
    """

    weight_decay: float
    clip: float | None
    clip_cut: int | None = None

    def __call__(self, eta: Any) -> optax.GradientTransformation:
        import optax

        clip = [] if self.clip is None else [_clipping(self.clip, self.clip_cut)]
        decay = [optax.add_decayed_weights(self.weight_decay)] if self.weight_decay else []
        return optax.chain(*clip, *decay, optax.sgd(eta))

    def __str__(self) -> str:
        clip = "" if self.clip is None else f", clip={self.clip:g}"
        cut = "" if self.clip_cut is None else f", clip_cut={self.clip_cut}"
        return f"sgd(weight_decay={self.weight_decay:g}{clip}{cut})"


def _clipping(norm: float, cut: int | None) -> optax.GradientTransformation:
    """Of a flat gradient: as a whole, or of what lies before and behind the cut each by itself."""
    import jax.numpy as jnp
    import optax

    whole = optax.clip_by_global_norm(norm)
    if cut is None:
        return whole

    def in_two(gradient: Any, _: Any) -> Any:
        halves = (whole.update(half, whole.init(half))[0] for half in (gradient[:cut], gradient[cut:]))
        return jnp.concatenate([*halves])

    return optax.stateless(in_two)


def solver_from(
    weight_decay: float = 0.0, clip: float | None = None, clip_cut: int | None = None
) -> ClippedDecayedSgd | None:
    """The solver with these options; None for plain gradient steps.

    >>> solver_from(), str(solver_from(1e-4, clip=10))
    (None, 'sgd(weight_decay=0.0001, clip=10)')
    """
    not_negative(weight_decay=weight_decay)
    if clip is not None:
        positive(clip=clip)
    if clip_cut is not None and (clip is None or isinstance(clip_cut, bool) or clip_cut < 1):
        raise InputError(
            f"clip_cut, the number of parameters that are clipped by themselves, is at least 1 and stands beside clip; got "
            f"clip_cut={clip_cut!r} and clip={clip!r}: give both, or neither"
        )
    return None if not weight_decay and clip is None else ClippedDecayedSgd(weight_decay, clip, clip_cut)
