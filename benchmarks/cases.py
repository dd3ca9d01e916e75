"""Which cases there are: one module each, with a function `run(repeat: int) -> Report`."""

from __future__ import annotations

import dataclasses
import importlib.util


@dataclasses.dataclass(frozen=True)
class Case:
    """`needs`: modules without which it is left out, and where they come from. `seconds`: roughly, on two cores."""

    what: str
    seconds: float
    needs: tuple[str, ...] = ()


EXTRAS = {"torch": "bench", "grpc": "grpc"}
CASES = {
    "limits": Case("what the machine can do: matrix product, memory, disk, collectives between two processes", 30),
    "softmax": Case("P1: softmax regression, 10 of 1,000 clients, beside batched PyTorch", 60, ("torch",)),
    "lenet": Case("P2: LeNet-5, 10 of 500 clients, beside two PyTorch workers", 90, ("torch",)),
    "fedlin": Case("P3: FedLin on least squares, τ in 2 … 100, beside batched NumPy", 60),
    "million": Case(
        "a round with 10 of a million clients ÷ with 10 of a thousand, for methods with client memory", 120
    ),
    "cohort": Case("a round of 1,000 clients ÷ one of 100", 30),
    "sweep": Case("a sweep of 40 runs of softmax regression ÷ 40 single runs", 60),
    "sweep_lenet": Case("a sweep of 8 runs of LeNet-5 ÷ 8 single runs, on all cores", 60),
    "split": Case("sequential split learning ÷ sequential federated learning, LeNet-5", 40),
    "fedtrack": Case("FedTrack ÷ FedAvg per sample evaluated, LeNet-5", 40),
    "startup": Case("time to the first round of a second process, a tiny run, a list", 60),
    "loopback": Case("message passing in one process: an exchange with a client", 20),
    "first_round": Case("logistic regression with a million clients: the first round", 30),
    "out_of_core": Case("client memory and data larger than the machine's memory", 60),
    "long_run": Case("memory of a run of 100,000 rounds that keeps every iterate", 60),
    "mesh": Case("two processes of one core ÷ one", 60),
    "memory": Case("peak memory with 10,000 clients", 40),
    "vgg": Case("a step of VGG-11 beside PyTorch", 60, ("torch",)),
    "evaluate": Case("10,000 pictures through LeNet-5 beside PyTorch", 30, ("torch",)),
    "deploy_transport": Case("an exchange over gRPC beside a bare echo", 120, ("grpc",)),
    "deploy_rounds": Case("deployed rounds with checkpoints, and coming back after a kill", 60, ("grpc",)),
}


def missing(name: str) -> str | None:
    """Why this case must be left out, with the remedy; None if it need not."""
    for module in CASES[name].needs:
        if importlib.util.find_spec(module) is None:
            extra = EXTRAS[module]
            remedy = f"pip install 'undrift[{extra}]', or here pip install -e '.[{extra}]'"
            return f"it needs {module}, which is not installed: {remedy}"
    if importlib.util.find_spec(f"benchmarks.{name}") is None:
        return f"benchmarks/{name}.py is not there"
    return None
