"""Sequential FL against FedAvg on MNIST: LeNet-5, 500 clients, ExDir(1, 10), 10 clients a round, 10 local steps.

    UNDRIFT_DATA=/path/to/data python experiments/mnist_lenet.py [--seed 1234] [--rounds 1000]

The setting of the SSL paper (table 3, MNIST, K = 10) at its step sizes (table 7): 0.01 for sequential FL, 0.001 for FedAvg;
batch 20, weight decay 1e-4, no clipping. Sequential FL plays one permutation of all clients over 50 rounds of 10, as the paper
counts. Resumes where it was stopped. Writes experiments/results/mnist-lenet-<method>-seed<seed>/ (history.csv, summary.json).
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import sys
import time
from pathlib import Path

import optax

import undrift as ud

RESULTS = Path(__file__).parent / "results"


def sgd(eta: float) -> optax.GradientTransformation:
    """Plain SGD with the paper's weight decay."""
    return optax.chain(optax.add_decayed_weights(1e-4), optax.sgd(eta))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1234)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--devices", type=int, default=2)
    arguments = parser.parse_args()
    if arguments.devices > 1:
        ud.use_devices(arguments.devices)

    data = ud.data.load("mnist")
    parts = ud.data.exdir(data.train.y, clients=500, classes=1, alpha=10.0, seed=arguments.seed)
    problem = ud.problems.network(ud.models.lenet5(), data.train, parts, test=data.test, batch=20)
    runs = {
        "sequential_fl": (ud.sequential_fl(eta=0.01, solver=sgd), ud.plan.permuted(10)),
        "fedavg": (ud.fedavg(eta=0.001, solver=sgd), ud.plan.uniform(10)),
    }
    for name, (method, participation) in runs.items():
        folder = RESULTS / f"mnist-lenet-{name}-seed{arguments.seed}"
        if (folder / "summary.json").exists():
            print(f"{folder} is there already")
            continue
        began = time.time()

        def report(history: ud.History, name: str = name, began: float = began) -> None:
            played = f"{history.length - 1}/{arguments.rounds}"
            print(f"\r{name}: round {played}, {time.time() - began:.0f} s", end="", file=sys.stderr, flush=True)

        result = ud.run(
            method,
            problem,
            rounds=arguments.rounds,
            steps=10,
            participation=participation,
            seed=arguments.seed,
            record_every=5,
            observe=report,
            checkpoint=folder / "checkpoint",
            resume=True,
        )
        result.save(folder)
        (folder / "model.npy").unlink()
        shutil.rmtree(folder / "checkpoint")
        summary = json.loads((folder / "summary.json").read_text())
        summary["command"] = " ".join(["python", "experiments/mnist_lenet.py", *sys.argv[1:]])
        summary["versions"] = {"undrift": ud.__version__, "python": platform.python_version()}
        (folder / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
        print(f"\n{name}: accuracy {result.history['accuracy'][-1]:.4f}")


if __name__ == "__main__":
    main()
