"""Accuracy of LeNet-5 on 10,000 pictures of MNIST's shape, beside PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import undrift as ud

from .disturbance import cores
from .measure import Goal, Report, Row, in_turns, least
from .pictures import pictures

COUNT, CALLS = 10_000, 2  # evaluations of a turn
BATCHES = (250, 1000)  # PyTorch's


def run(repeat: int) -> Report:
    import jax
    import torch

    from undrift.vectorise import on_all_devices, replicated

    from . import torch_side

    devices = cores()
    ud.use_devices(devices)
    images, labels = pictures(COUNT)
    model, theirs = ud.models.lenet5(), torch_side.lenet5()
    trained = ud.problems.network(model, (images, labels), np.array_split(np.arange(COUNT), 10))
    flat = ud.run(ud.fedavg(eta=0.1), trained, rounds=5, steps=20, record_every=5).x
    torch_side.load(theirs, flat)
    problem = ud.problems.network(model, (images, labels), [np.arange(20)], test=(images, labels), train_sample=1)
    spread = replicated(problem)
    compiled = jax.jit(on_all_devices(lambda p, x: p.evaluate(x, None).columns["accuracy"]))
    params, pixels, tensor = (
        problem.architecture.unravel(flat),
        jax.numpy.asarray(images),
        torch_side.channels_first(images),
    )
    predicted = jax.jit(lambda p, x: jax.numpy.mean(ud.models.predict(model, p, x).argmax(1) == labels))

    def by_torch(batch: int, threads: int) -> float:
        torch.set_num_threads(threads)
        with torch.inference_mode():
            found = torch.cat([theirs(part).argmax(1) for part in tensor.split(batch)])
        return float(np.mean(found.numpy() == labels))

    candidates: dict[str, Callable[[], Any]] = {
        f"undrift, as in a run on {devices} devices": lambda: float(compiled(spread, flat)),
        "undrift, models.predict": lambda: float(predicted(params, pixels)),
    }
    for batch in BATCHES:
        for threads in {1, devices}:
            candidates[f"PyTorch, batch {batch}, threads: {threads}"] = lambda b=batch, t=threads: by_torch(b, t)
    accuracies = [call() for call in candidates.values()]
    seconds = in_turns({name: lambda f=f: [f() for _ in range(CALLS)] for name, f in candidates.items()}, repeat)
    ours = seconds[next(iter(candidates))]
    best = least(*(s for name, s in seconds.items() if name.startswith("PyTorch")))
    sides = {name: "undrift" if name.startswith("undrift") else "peer" for name in seconds}
    rows = [Row.of(name, 1e3 * s / CALLS, "ms", sides[name], f"{COUNT:,} pictures") for name, s in seconds.items()]
    rows.append(Row("accuracy", accuracies[0], ""))
    goals = [
        Goal.of("accuracy of LeNet-5: PyTorch (the fastest) ÷ undrift", best / ours, at_least=1),
        Goal("largest difference of accuracies", max(accuracies) - min(accuracies), at_most=2 / COUNT, same=True),
    ]
    notes = [f"PyTorch {torch.__version__}. A picture on the edge of two classes may fall on either side of it."]
    return Report("evaluate", f"LeNet-5 on {COUNT:,} pictures of 28 × 28, float32", rows, goals, notes)
