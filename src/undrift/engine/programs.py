"""Compiled programs, known by what they compute.

`jax.jit` knows a program by the objects that it was made of: a fresh Optax solver, or a method loaded from a file once more, is
compiled again and kept for ever. Here a program is traced, which is quick, and named by its jaxpr and constants; what traces to
a program that is there already runs that one. Of a host callback the jaxpr shows only a name: such programs are kept apart.
"""

from __future__ import annotations

import functools
import itertools
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .forking import warn_before_forks
from .identity import is_fully_shown, program_identity

LEVEL = "xla_backend_optimization_level"
MOST_PROGRAMS = 64  # that are kept; a small one takes 5 MB

_contexts = itertools.count()


class Program(NamedTuple):
    """A compiled function, with the structure of the arguments that it was traced with."""

    jitted: Any
    tree: Any
    identity: str


class Programs:
    """A function whose first arguments are static, compiled once for every program that it traces to."""

    def __init__(self, function: Callable[..., Any], static: int, donate: int | None = None) -> None:
        """`donate`: the place of the argument whose memory the program may take over."""
        self.function, self.static, self.donate = function, static, donate
        self._by_objects: OrderedDict[Hashable, Program] = OrderedDict()
        self._by_identity: OrderedDict[Hashable, Program] = OrderedDict()
        self._lock = threading.Lock()
        functools.update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        program, leaves = self._find(arguments)
        warn_before_forks()
        return program.jitted(*arguments[: self.static], *jax.tree.unflatten(program.tree, leaves))

    def compiled(self, *arguments: Any) -> Callable[..., Any]:
        """The program that these arguments lead to, compiled: threads may call it with others of the same kinds."""
        program, leaves = self._find(arguments)
        warn_before_forks()
        ready = program.jitted.lower(*arguments[: self.static], *jax.tree.unflatten(program.tree, leaves)).compile()

        def call(*arguments: Any) -> Any:
            return ready(*jax.tree.unflatten(program.tree, jax.tree.leaves(arguments[self.static :])))

        return call

    def identity(self, *arguments: Any) -> str:
        """The name of the program that these arguments lead to."""
        return self._find(arguments)[0].identity

    def trace(self, *arguments: Any) -> Any:
        """The program as JAX shows it."""
        program, leaves = self._find(arguments)
        return program.jitted.trace(*arguments[: self.static], *jax.tree.unflatten(program.tree, leaves))

    def _find(self, arguments: tuple[Any, ...]) -> tuple[Program, list[Any]]:
        static = arguments[: self.static]
        leaves, tree = jax.tree.flatten(arguments[self.static :])
        kinds = (int(_context()), static, tuple(map(jax.typeof, leaves)))
        program = self._recall(self._by_objects, (tree, kinds))
        if program is None:
            program = self._traced(arguments, tree, kinds)
            self._keep(self._by_objects, (tree, kinds), program)
        return program, leaves

    def _traced(self, arguments: tuple[Any, ...], tree: Any, kinds: Hashable) -> Program:
        def function(*given: Any) -> Any:  # a new one each time: what JAX remembers of it goes where it goes
            return self.function(*given)

        function.__name__ = function.__qualname__ = self.function.__name__
        jitted = jax.jit(
            function,
            static_argnums=range(self.static),
            donate_argnums=() if self.donate is None else self.donate,
            compiler_options=_compiler_options(),
        )
        traced = jitted.trace(*arguments)
        text = str(traced.jaxpr.jaxpr)
        fresh = Program(jitted, tree, program_identity(traced.jaxpr, text))
        if not is_fully_shown(text):
            return fresh
        name = (fresh.identity, kinds, jax.tree.structure(traced.out_info))
        known = self._recall(self._by_identity, name)
        if known is None:
            self._keep(self._by_identity, name, fresh)
        return known or fresh

    def _recall(self, table: OrderedDict[Hashable, Program], name: Hashable) -> Program | None:
        with self._lock:
            if name in table:
                table.move_to_end(name)
            return table.get(name)

    def _keep(self, table: OrderedDict[Hashable, Program], name: Hashable, program: Program) -> None:
        with self._lock:
            table[name] = program
            while len(table) > MOST_PROGRAMS:
                table.popitem(last=False)


def _compiler_options() -> dict[str, Any] | None:
    """On a CPU LLVM's first level: programs as quick as at the third, in three quarters of the time or less.

    A level that the user asks for (`XLA_FLAGS`) is left alone.
    """
    chosen = LEVEL in os.environ.get("XLA_FLAGS", "")
    return None if chosen or jax.default_backend() != "cpu" else {LEVEL: 1}


@jax.jit
def _context() -> jax.Array:
    """A number for JAX's present settings: a program depends on them, and a function of nothing is traced once for each."""
    return jnp.int32(next(_contexts))
