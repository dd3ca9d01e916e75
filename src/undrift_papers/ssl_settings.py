"""The SSL paper's training experiments: what it prints (tables 3, 7, 8) and the settings behind it."""

from __future__ import annotations

from typing import Any

from undrift.resources import Resources

from .item import Setting, ours, paper, reduced
from .jobs import AS_THEY_ARE, STANDARD, UNIT
from .learning_costs import MODE

SEEDS = (1234, 666, 22)
PARALLEL, IN_TURN = "FedAvg", "SSL"
METHODS = {PARALLEL: "fedavg", IN_TURN: "sequential_fl"}  # SSL is sequential FL on the uncut model: the same numbers
COLOURS = {PARALLEL: "#0072B2", IN_TURN: "#D55E00"}
CLIENTS, COHORT = 500, 10
CLIP_NORM = 10.0  # only for ExDir(2, 10)
IMAGE_SETS = ("mnist", "fmnist")
LOCAL_STEPS = (10, 20)
ROUNDS = {1: 1000, 2: 400}  # by the C of ExDir(C, 10)
STEP_GRID = (0.0005, 0.001, 0.005, 0.01, 0.05, 0.1)  # has every choice of table 7 for MNIST and Fashion-MNIST
QUICK_GRID = (0.01, 0.03, 0.1, 0.3)

Pair = tuple[float, float]  # of FedAvg and of SSL
Entry = tuple[float, float, int | None]  # accuracy in %, ±, rounds to the target

# (data, C, K) -> step sizes, 500 clients: table 7
TABLE_7: dict[tuple[str, int, int], Pair] = {
    ("mnist", 1, 10): (0.001, 0.01),
    ("mnist", 1, 20): (0.0005, 0.01),
    ("mnist", 2, 10): (0.05, 0.05),
    ("mnist", 2, 20): (0.05, 0.05),
    ("fmnist", 1, 10): (0.001, 0.01),
    ("fmnist", 1, 20): (0.0005, 0.01),
    ("fmnist", 2, 10): (0.1, 0.1),
    ("fmnist", 2, 20): (0.1, 0.05),
    ("cifar10", 1, 5): (0.1, 0.01),
    ("cifar10", 1, 10): (0.1, 0.01),
    ("cifar10", 1, 20): (0.1, 0.005),
    ("cifar10", 2, 5): (0.5, 0.05),
    ("cifar10", 2, 10): (0.1, 0.05),
    ("cifar10", 2, 20): (0.1, 0.01),
    ("cifar10", 2, 30): (0.1, 0.01),
}
# (C, K) -> step sizes, CIFAR-10 with 10 clients: table 7
TABLE_7_SILO: dict[tuple[int, int], Pair] = {
    (1, 5): (0.5, 0.01),
    (1, 10): (0.1, 0.01),
    (1, 20): (0.1, 0.01),
    (1, 30): (0.1, 0.005),
    (2, 5): (0.1, 0.05),
    (2, 10): (0.1, 0.05),
    (2, 20): (0.1, 0.01),
    (2, 30): (0.1, 0.01),
}
# (data, C, K), 500 clients: tables 3 and 9
TABLE_3: dict[tuple[str, int, int], tuple[Entry, Entry]] = {
    ("fmnist", 1, 10): ((39.90, 6.08, 492), (80.38, 2.80, 19)),
    ("fmnist", 1, 20): ((38.78, 6.51, 490), (76.39, 3.15, 25)),
    ("fmnist", 2, 10): ((81.77, 1.15, 127), (78.25, 2.28, 162)),
    ("fmnist", 2, 20): ((83.55, 1.13, 87), (76.58, 3.18, 103)),
    ("mnist", 1, 10): ((56.43, 11.54, 274), (98.84, 0.19, 16)),
    ("mnist", 1, 20): ((51.86, 10.66, 274), (98.85, 0.12, 14)),
    ("mnist", 2, 10): ((98.15, 0.13, 25), (98.57, 0.36, 10)),
    ("mnist", 2, 20): ((98.35, 0.14, 18), (98.56, 0.33, 8)),
    ("cifar10", 1, 5): ((29.06, 6.46, 3666), (81.34, 1.35, 604)),
    ("cifar10", 1, 10): ((14.00, 5.66, None), (82.20, 1.33, 483)),
    ("cifar10", 1, 20): ((10.00, 0.00, None), (80.60, 1.62, 673)),
    ("cifar10", 2, 5): ((75.92, 1.17, 3210), (84.57, 0.90, 1004)),
    ("cifar10", 2, 10): ((81.17, 0.55, 2153), (82.95, 1.70, 966)),
    ("cifar10", 2, 20): ((81.26, 0.60, 1614), (85.24, 0.79, 998)),
    ("cifar10", 2, 30): ((80.47, 0.69, 1618), (84.52, 0.86, 966)),
}
# (C, K), CIFAR-10 with 10 clients: table 8
TABLE_8: dict[tuple[int, int], tuple[Entry, Entry]] = {
    (1, 5): ((69.28, 3.02, 956), (84.79, 0.45, 495)),
    (1, 10): ((50.01, 4.06, 2254), (85.64, 0.45, 401)),
    (1, 20): ((25.30, 2.72, 3516), (84.75, 0.51, 712)),
    (1, 30): ((32.07, 5.95, 3119), (83.19, 0.79, 920)),
    (2, 5): ((80.51, 0.47, 2413), (85.52, 0.58, 883)),
    (2, 10): ((80.91, 0.58, 1743), (84.33, 0.66, 897)),
    (2, 20): ((81.24, 0.44, 1236), (86.43, 0.44, 1096)),
    (2, 30): ((81.09, 0.52, 996), (85.48, 0.61, 1186)),
}


def step_key(data: str, classes: int, steps: int) -> str:
    """How a setting names the pair of step sizes of a cell."""
    return f"{data} ExDir({classes}) K={steps}"


# Found by ssl/table7 at quick scale.
QUICK_STEPS = {step_key("digits", 1, 10): [0.3, 0.1], step_key("digits", 2, 10): [0.3, 0.3]}


VARIANT_ITEM = "ssl/table3-variants"
# Runs (with the first seed, if nothing is said) that differ in one thing: the cells and methods that are run so.
DRAWN = "drawn from the seed"
PUBLISHED, BY_SIZES = "published map", "published map, weights by size"
FROM_0_TO_1, FROM_MINUS_1 = "pixels from 0 to 1", "pixels from -1 to 1"
AUGMENTED = "images shifted and mirrored"
DRAWN_ANEW = "clients drawn anew every round"
VARIANTS: dict[str, dict[str, Any]] = {
    PUBLISHED: {},
    BY_SIZES: {"data": ["mnist"], "classes per client": [1], "local steps": [10], "methods": [PARALLEL]},
    FROM_0_TO_1: {"seeds": {"fmnist": list(SEEDS)}},
    AUGMENTED: {"data": ["fmnist"], "local steps": [10]},
    DRAWN_ANEW: {"data": ["fmnist"], "local steps": [10], "methods": [IN_TURN]},
    FROM_MINUS_1: {"classes per client": [1], "local steps": [10], "methods": [PARALLEL]},
}


SAME_NUMBERS = (
    "the same numbers on the uncut model: the tests show it at every cut; gradients are clipped by the norm of the whole, "
    "not of each half"
)


def image_setting(data: tuple[str, ...]) -> tuple[Setting, ...]:
    """MNIST and Fashion-MNIST in the cross-device setting."""
    steps = {step_key(*cell): list(pair) for cell, pair in TABLE_7.items() if cell[0] in data}
    return (
        paper("data", list(data)),
        paper("model", "lenet5"),
        paper("clients", CLIENTS),
        paper("clients per round", COHORT, "SSL: one permutation of all clients over 50 rounds of 10, as the paper counts"),
        paper("classes per client", [1, 2], "ExDir(C, 10)"),
        paper("local steps", list(LOCAL_STEPS)),
        paper("rounds", {str(classes): rounds for classes, rounds in ROUNDS.items()}, "by C"),
        paper("seeds", list(SEEDS)),
        paper("step sizes", steps, "FedAvg, SSL: table 7"),
        paper("clipping norm", {"2": CLIP_NORM}, "by C; none for ExDir(1, 10)"),
        paper("batch", 20),
        paper("weight decay", 1e-4),
        ours("pixels", STANDARD, "the paper does not say; its authors' public code (liyipeng00/convergence) does so"),
        ours("images", AS_THEY_ARE, "the paper does not say; the same code augments CIFAR only"),
        ours("evaluated every", 4, "the paper evaluates every round; averages are over the evaluated ones of the last 20"),
        ours("SSL is run as", "sequential_fl", SAME_NUMBERS),
    )  # fmt: skip


def split_setting(layers: int, where: str) -> tuple[Setting, ...]:
    """What the bytes and seconds of SSL's curves depend on; its accuracies do not."""
    return (
        paper("cut", layers, f"layers at the client: {where}"),
        ours("model handed on", MODE, "by the clients themselves; through the server it is sent twice"),
        ours("seconds", str(Resources.of(1)), "virtual; every client the same, the clients of SSL in turn"),
    )


LENET_CUT = split_setting(5, "to LeNet-5's second pooling, 6 % of the model")
DIGITS_CUT = reduced("cut", 2, "the first hidden layer")


def digits_setting() -> tuple[Setting, ...]:
    """The same on embedded data."""
    return (
        reduced("data", ["digits"]),
        reduced("model", "mlp"),
        reduced("clients", 50),
        reduced("clients per round", 5),
        reduced("local steps", [10]),
        reduced("rounds", {"1": 200, "2": 100}),
        reduced("seeds", [SEEDS[0]]),
        reduced("step sizes", QUICK_STEPS, "FedAvg, SSL: ssl/table7 at quick scale"),
        reduced("pixels", UNIT),
        reduced("images", AS_THEY_ARE),
    )


ONE_SEED = (reduced("seeds", [SEEDS[0]], "one seed of three"),)


def without(settings: tuple[Setting, ...], *keys: str) -> tuple[Setting, ...]:
    """The settings but these."""
    return tuple(setting for setting in settings if setting.key not in keys)
