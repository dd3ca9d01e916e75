"""A warning before a process forks that has computed: its children would hang."""

from __future__ import annotations

import functools
import os
import warnings

ADVICE = (
    "this process has computed with undrift, and so with JAX, which runs many threads: a forked child has none of them and "
    "hangs as soon as it computes. Start children afresh, with multiprocessing.get_context('spawn') or 'forkserver', or fork "
    "before the first run; docs/embedding.md says more"
)


@functools.cache
def warn_before_forks() -> None:
    """From now on; called when the first program runs."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_warn)


def _warn() -> None:
    warnings.warn(ADVICE, RuntimeWarning, stacklevel=3)
