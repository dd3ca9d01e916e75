"""VGG-11 on pictures of CIFAR's shape: a gradient step with a batch of 20, beside PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import undrift as ud

from .disturbance import cores
from .lenet import difference
from .measure import Goal, Report, Row, in_turns, least, per_round
from .pictures import pictures

BATCH, ETA, STEPS = 20, 0.01, 6  # steps of a call
SHAPE = (32, 32, 3)


def run(repeat: int) -> Report:
    import torch

    from . import torch_side

    images, labels = pictures(10 * BATCH, SHAPE)
    model, theirs = ud.models.vgg11(), torch_side.vgg11()
    problem = ud.problems.network(model, (images, labels), [np.arange(len(labels))], batch=BATCH, train_sample=BATCH)
    flat = problem.initial(0)
    off = difference(theirs, model, flat, images[:BATCH], labels[:BATCH])

    def ours(steps: int) -> ud.Result:
        return ud.run(ud.fedavg(eta=ETA), problem, rounds=1, steps=steps, x0=flat, record_every=10**6)

    candidates: dict[str, Callable[[], Any]] = {"long": lambda: ours(STEPS + 1), "short": lambda: ours(1)}
    for layout in ("contiguous_format", "channels_last"):
        for threads in {1, cores()}:
            name = f"PyTorch, {layout.replace('_format', '')}, threads: {threads}"
            candidates[name] = steps_of(theirs, images, labels, getattr(torch, layout), threads)
    seconds = in_turns(candidates, repeat)
    per_step = {"undrift": per_round(seconds["long"], seconds["short"], STEPS)}
    per_step |= {name: s / STEPS for name, s in seconds.items() if name.startswith("PyTorch")}
    best = least(*(s for name, s in per_step.items() if name != "undrift"))
    sides = {name: "undrift" if name == "undrift" else "peer" for name in per_step}
    rows = [Row.of(name, 1e3 * s, "ms / step", sides[name], "a step") for name, s in per_step.items()]
    goals = [
        Goal.of("VGG-11: PyTorch (the fastest) ÷ undrift", best / per_step["undrift"], at_least=1),
        Goal(
            "parameters more than PyTorch's", problem.dim - torch_side.count(theirs), at_least=0, at_most=0, same=True
        ),
        Goal("largest relative difference of logits and gradients", off, at_most=1e-4, same=True),
    ]
    notes = [
        f"PyTorch {torch.__version__}. One client's local steps, all cores for one network on both sides; our step is what",
        f"{STEPS + 1} steps of ud.run take more than one, the choice of the batch included.",
    ]
    return Report("vgg", f"step of VGG-11, batch {BATCH} of 32 × 32 × 3, float32", rows, goals, notes)


def steps_of(model: Any, images: np.ndarray, labels: np.ndarray, layout: Any, threads: int) -> Callable[[], None]:
    """PyTorch's steps, with a network of its own in this layout."""
    import copy

    import torch
    from torch.nn.functional import cross_entropy

    from . import torch_side

    mine = copy.deepcopy(model).to(memory_format=layout)
    solver = torch.optim.SGD(mine.parameters(), lr=ETA)
    inputs = torch_side.channels_first(images).to(memory_format=layout)
    targets = torch.from_numpy(labels).long()

    def steps() -> None:
        torch.set_num_threads(threads)
        for chosen in torch.randperm(len(targets))[: STEPS * BATCH].split(BATCH):
            solver.zero_grad()
            cross_entropy(mine(inputs[chosen]), targets[chosen]).backward()
            solver.step()

    return steps
