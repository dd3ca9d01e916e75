"""The public names, in one place. `undrift` opens this room when the first of them is asked for."""

from . import oracles, plan, problems, stop, testing, track
from .advice import advise
from .algorithms import (
    METHODS,
    ef21,
    fedavg,
    feddyn,
    fedexp,
    fedlin,
    fednova,
    fedprox,
    fedsgd,
    fedsplit,
    fedtrack,
    gd,
    iag,
    mimelite,
    scaffnew,
    scaffold,
    sequential_fl,
    sflv1,
    sflv2,
    sgd,
    ssl,
)  # fmt: skip
from .api import describe, loopback, run, sweep
from .compiled import keep_compiled
from .compression import quantise, random_k, scaled_sign, top_k
from .engine.history import History, Result
from .engine.sweep import Sweep
from .errors import (
    CheckpointError,
    DivergenceError,
    HostLostError,
    InputError,
    Interrupted,
    StorageError,
    UndriftError,
    WireError,
)
from .links import compressed
from .privacy import private
from .protocol import Account, Algorithm, AtServer, Cohort, Diagnostics, Exchange, Gradients, OneByOne, Repeat
from .recipe import Method, method
from .resources import Resources
from .studies.study import named_problem
from .theory.known import Known
from .vectorise import use_devices

__all__ = [
    "METHODS", "Account", "Algorithm", "AtServer", "CheckpointError", "Cohort", "Diagnostics", "DivergenceError",
    "Exchange", "Gradients", "History", "HostLostError", "InputError", "Interrupted",
    "Known", "Method", "OneByOne", "Repeat", "Resources",
    "Result", "StorageError", "Sweep", "UndriftError", "WireError", "advise", "compressed", "describe", "ef21", "fedavg",
    "feddyn", "fedexp", "fedlin", "fednova", "fedprox", "fedsgd", "fedsplit", "fedtrack", "gd", "iag", "keep_compiled",
    "loopback", "method", "mimelite", "named_problem", "oracles", "plan", "private", "problems", "quantise", "random_k", "run",
    "scaffnew", "scaffold", "scaled_sign", "sequential_fl", "sflv1", "sflv2", "sgd", "ssl", "stop", "sweep", "testing", "top_k",
    "track", "use_devices",
]  # fmt: skip
