"""One round of each method, for whoever can add vectors and ask for gradients.

Losses have their minimum at x* (see `sketch`), and memory is told relative to what it tends to: c_i means c_i − ∇f_i(x*).
The same lines run on sketches (exact combinations of unknown vectors), on PEPit's points and on numbers, so that what is
certified is what the tests compare with the simulation. A `world` has `clients` (each with `gradient`, `steps`), the point
`origin` (x*), and `mean`, `everyone`, `each` and `contracted`, which make or combine vectors.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

States = list[tuple[Any, ...]]  # for each client what V is a quadratic form of, the first part being model − x*


@dataclasses.dataclass(frozen=True)
class Played:
    """What a round began with and what it led to; `after` has (chance, states) for each of its ways to end."""

    before: States
    after: list[tuple[Fraction, States]]
    x: Any = None  # the models before and after, where a method has no memory
    x_after: Any = None


@dataclasses.dataclass(frozen=True)
class Method:
    """A method as the programme knows it."""

    play: Callable[[Any, Any, Mapping[str, Any]], Played]  # (world, η, settings)
    memory: str | None = None  # the Lyapunov function in words, where a round is more than a model
    alike: bool = False  # certified for clients with the same data only
    per: str = "round"
    number: str = "eta"
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # those it takes, with their defaults
    reach: Callable[[int, float], float] = lambda tau, kappa: (
        2.0 * tau
    )  # (τ, κ) -> the longest step that is tried, in 1/L
    quadratic: Callable[[float, float, int], float] = lambda eta, a, tau: (1 - eta * a) ** tau  # of x, on f_i = (a/2)x²


def _moved(x: Any, x_after: Any) -> Played:
    """A round without memory."""
    return Played([(x,)], [(Fraction(1), [(x_after,)])], x, x_after)


def descend(client: Any, start: Any, eta: Any, steps: int, shift: Any = None, pull: Any = None) -> Any:
    """y ← y − η(∇f_i(y) + shift + pull(y)), `steps` times."""
    y = start
    for _ in range(steps):
        direction = client.gradient(y)
        if shift is not None:
            direction = direction + shift
        if pull is not None:
            direction = direction + pull(y)
        y = y - eta * direction
    return y


def fedsgd(world: Any, eta: Any, settings: Mapping[str, Any]) -> Played:
    x = world.everyone()
    g = world.mean([client.gradient(x) for client in world.clients])
    return _moved(x, x - eta * g)


def fedavg(world: Any, eta: Any, settings: Mapping[str, Any]) -> Played:
    x = world.everyone()
    return _moved(x, world.mean([descend(client, x, eta, client.steps) for client in world.clients]))


def fedprox(world: Any, eta: Any, settings: Mapping[str, Any]) -> Played:
    x, beta = world.everyone(), settings["beta"]
    ends = [
        descend(client, x, eta, client.steps, pull=lambda y: beta * (y - x)) for client in world.clients
    ]  # fmt: skip
    return _moved(x, world.mean(ends))


def fedlin(world: Any, eta: Any, settings: Mapping[str, Any]) -> Played:
    """η is η̄, of which client i takes η̄/τ_i a step; `down` compresses g without memory."""
    x = world.everyone()
    G = [client.gradient(x) for client in world.clients]
    g = world.mean(G)
    if settings["down"] is not None:
        g = world.contracted(g, settings["down"])
    return _moved(x, world.mean(_corrected(world, x, G, g, eta)))


def _corrected(world: Any, x: Any, G: list[Any], g: Any, eta: Any) -> list[Any]:
    """y ← y − (η̄/τ_i)(∇f_i(y) − G_i + g), τ_i steps."""
    return [
        descend(client, x, Fraction(1, client.steps) * eta, client.steps, shift=g - G_i)
        for client, G_i in zip(world.clients, G, strict=True)
    ]


def fedlin_feedback(world: Any, eta: Any, settings: Mapping[str, Any]) -> Played:
    """FedLin with error feedback at the server: g = C(e + mean G_i), e ← e + mean G_i − g. The state is (x, e)."""
    x, e = world.everyone(), world.everyone()
    G = [client.gradient(x) for client in world.clients]
    whole = e + world.mean(G)
    g = world.contracted(whole, settings["down"])
    x_after = world.mean(_corrected(world, x, G, g, eta))
    count = len(world.clients)
    return Played([(x, e)] * count, [(Fraction(1), [(x_after, whole - g)] * count)])


def fedlin_differences(world: Any, eta: Any, settings: Mapping[str, Any]) -> Played:
    """FedLin whose clients send differences: h_i ← h_i + C(∇f_i(x) − h_i), g = mean h_i. The state is (x, h_i, ∇f_i(x))."""
    x, h = world.everyone(), world.each()
    G = [client.gradient(x) for client in world.clients]
    world.mean(h), world.mean(G)  # nobody computes them, yet the programme may use that they are means
    h_after = [h_i + world.contracted(G_i - h_i, settings["up"], shared=False) for h_i, G_i in zip(h, G, strict=True)]
    x_after = world.mean(_corrected(world, x, G, world.mean(h_after), eta))
    G_after = [client.gradient(x_after) for client in world.clients]
    world.mean(G_after)
    after = [(x_after, h_i, G_i) for h_i, G_i in zip(h_after, G_after, strict=True)]
    return Played([(x, h_i, G_i) for h_i, G_i in zip(h, G, strict=True)], [(Fraction(1), after)])


def fedtrack(world: Any, eta: Any, settings: Mapping[str, Any]) -> Played:
    """Components are refreshed in cyclic order; η is a client's step."""
    x = world.everyone()
    G = [client.gradient(x) for client in world.clients]
    g = world.mean(G)
    ends = [_tracked(client, x, g - G_i, eta) for client, G_i in zip(world.clients, G, strict=True)]
    return _moved(x, world.mean(ends))


def _tracked(client: Any, x: Any, shift: Any, eta: Any) -> Any:
    count = len(client.components)
    table = [loss.gradient(x) for loss in client.components]
    y = x
    for step in range(client.steps):
        if step > 0:
            j = (step - 1) % count
            table[j] = client.components[j].gradient(y)
        y = y - eta * (client.mean(table) + shift)
    return y


def scaffold(world: Any, eta: Any, settings: Mapping[str, Any]) -> Played:
    """The state is (x, c_i − ∇f_i(x*)). c_i⁺ is ∇f_i(x) (option 1), or the mean of the local gradients (option 2)."""
    x, c_i = world.everyone(), world.each()
    c = world.mean(c_i)
    moved, kept = [], []
    for client, own in zip(world.clients, c_i, strict=True):
        y = descend(client, x, eta, client.steps, shift=c - own)
        moved.append(y)
        if settings["option"] == 1:
            kept.append(client.gradient(x))
        else:
            kept.append(own - c + 1 / (client.steps * eta) * (x - y))
    x_after = world.mean(moved)
    if settings["server_eta"] != 1:
        x_after = x + settings["server_eta"] * (x_after - x)
    return Played([(x, own) for own in c_i], [(Fraction(1), [(x_after, new) for new in kept])])


def scaffnew(world: Any, eta: Any, settings: Mapping[str, Any]) -> Played:
    """One local step and one toss of the coin. The state is (y_i, h_i − ∇f_i(x*)); the h_i have mean zero."""
    p = settings["p"]
    y, h = world.each(), world.each_centred()
    stepped = [
        y_i - eta * (client.gradient(y_i) - h_i) for client, y_i, h_i in zip(world.clients, y, h, strict=True)
    ]  # fmt: skip
    mean = world.mean(stepped)
    tails = list(zip(stepped, h, strict=True))
    heads = [(mean, h_i + p / eta * (mean - y_i)) for y_i, h_i in zip(stepped, h, strict=True)]
    return Played(list(zip(y, h, strict=True)), [(1 - p, tails), (p, heads)])


def fedsplit(world: Any, eta: Any, settings: Mapping[str, Any]) -> Played:
    """η is s. The state is z_i − z_i*, z_i* = x* − s∇f_i(x*); the model is the mean of the z_i."""
    z = world.each()
    x = world.mean(z)
    after = []
    for client, z_i in zip(world.clients, z, strict=True):
        centre = x + x - z_i
        if settings["inner_steps"] is None:
            y = client.prox(centre, eta)
        else:  # gradient steps on f_i(y) + ‖y − centre‖²/(2s) from y = x, which x* does not move
            pull = 1 / eta
            inner_eta = settings["inner_eta"]
            y = descend(client, x, inner_eta, settings["inner_steps"], pull=lambda y, u=centre, by=pull: by * (y - u))
        after.append(z_i + 2 * (y - x))
    return Played([(z_i,) for z_i in z], [(Fraction(1), [(z_i,) for z_i in after])])


REQUIRED = object()  # a setting that must be given
SQUARES = "V = mean of [x − x*, {}] P [x − x*, {}]ᵀ, V ≥ ‖x − x*‖²"


def _memory(words: str) -> str:
    return SQUARES.format(words, words)


METHODS: dict[str, Method] = {
    "gd": Method(fedsgd, reach=lambda tau, kappa: 2.0, quadratic=lambda eta, a, tau: 1 - eta * a),
    "fedsgd": Method(fedsgd, reach=lambda tau, kappa: 2.0, quadratic=lambda eta, a, tau: 1 - eta * a),
    "fedavg": Method(fedavg, alike=True, reach=lambda tau, kappa: 2.0),
    "fedprox": Method(fedprox, alike=True, settings={"beta": REQUIRED}, reach=lambda tau, kappa: 2.0),
    "fedlin": Method(fedlin, settings={"down": None}, quadratic=lambda eta, a, tau: (1 - eta * a / tau) ** tau),
    "fedlin+feedback": Method(fedlin_feedback, _memory("e"), settings={"down": REQUIRED}),
    "fedlin+differences": Method(
        fedlin_differences, _memory("h_i − ∇f_i(x*), ∇f_i(x) − ∇f_i(x*)"), settings={"up": REQUIRED}
    ),
    "fedtrack": Method(fedtrack, settings={"components": REQUIRED}, reach=lambda tau, kappa: 2.0),
    "scaffold": Method(
        scaffold,
        _memory("c_i − ∇f_i(x*)"),
        settings={"option": 2, "server_eta": Fraction(1)},
        reach=lambda tau, kappa: 2.0,
    ),
    "scaffnew": Method(
        scaffnew, _memory("h_i − ∇f_i(x*)"), per="local step", settings={"p": REQUIRED}, reach=lambda tau, kappa: 2.0
    ),
    "fedsplit": Method(
        fedsplit,
        "V = mean ‖z_i − z_i*‖², V ≥ ‖x − x*‖²",
        number="s",
        settings={"inner_steps": None, "inner_eta": None},
        reach=lambda tau, kappa: 10 * kappa**0.5,
        quadratic=lambda s, a, tau: (1 - s * a) / (1 + s * a),
    ),
}
