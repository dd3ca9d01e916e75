"""How methods are called in sentences, and whom others are compared with."""

from __future__ import annotations

FAMILIAR = "fedavg"  # whom everybody knows
RIVALS = (FAMILIAR, "scaffold", "fedlin")  # beside whom a single run is shown
PRINTED = {
    "fedsgd": "FedSGD", "ef21": "EF21", "fedavg": "FedAvg", "fedprox": "FedProx", "fednova": "FedNova", "fedexp": "FedExP",
    "mimelite": "MimeLite", "fedsplit": "FedSplit", "scaffold": "SCAFFOLD", "scaffnew": "Scaffnew", "feddyn": "FedDyn",
    "fedlin": "FedLin", "fedtrack": "FedTrack", "sequential_fl": "sequential FL", "ssl": "SSL", "sflv1": "SFLV1",
    "sflv2": "SFLV2", "gd": "gradient descent", "sgd": "SGD", "iag": "IAG",
}  # fmt: skip
