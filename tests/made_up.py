"""Results of benchmarks that nobody ran."""

from __future__ import annotations

from benchmarks.measure import Goal, Report, Row
from benchmarks.results import Result

MACHINE = {
    "processor": "A <fast> one",
    "cores": 2,
    "instructions": ["avx2"],
    "memory_gb": 16.0,
    "system": "Linux",
    "python": "3.13.1",
    "versions": {"undrift": "9.9", "jax": "0.12"},
    "commit": None,
    "code": "abc",
}


def result(case: str, report: Report, disturbed: tuple[str, ...] = ()) -> Result:
    return Result(
        case=case,
        machine=MACHINE,
        when="2026-01-02",
        repeat=3,
        took_seconds=12.5,
        load={"before": 0.1, "after": 1.5},
        calibration_ms=[4.0, 4.1, 4.0],
        others=0.01,
        stolen=0.0,
        disturbed=list(disturbed),
        report=report,
    )


def race() -> Report:
    """Against a peer and a limit: one goal met, one missed, both sides alike."""
    rows = [
        Row("undrift", 2.0, "ms / round", 1.9, 2.2, "undrift", "calls of 50 rounds"),
        Row("a peer & more", 5.0, "ms / round", 4.8, 5.5, "peer", "calls of 50 rounds"),
        Row("what is possible", 0.5, "ms / round", None, None, "limit", "calls of 50 rounds"),
        Row("undrift", 7.0, "GFLOP/s"),
    ]
    goals = [
        Goal("a peer ÷ undrift", 2.5, at_least=2.0, low=2.4, high=2.6, unit="×"),
        Goal("peak memory", 3.0, at_most=2.0, unit="GB"),
        Goal("largest difference", 1e-9, at_most=1e-6, same=True),
    ]
    return Report("softmax", "a race <of two>", rows, goals, ["Nobody ran."])


def limits() -> Report:
    rows = [
        Row("JAX, float32", 100.0, "GFLOP/s", 99.0, 101.0, "limit", "matrix product"),
        Row("copy in memory, one core", 10.0, "GB/s", 9.0, 11.0, "limit", "memory and disk"),
        Row("read from disk", 1.0, "GB/s", 0.9, 1.1, "limit", "memory and disk"),
        Row("all-reduce of 4,000 bytes, two processes", 1.0, "ms"),
        Row("all-gather of 4,000 bytes, two processes", 1.0, "ms"),
        Row("all-reduce, two processes", 0.5, "GB/s", 0.4, 0.6, "limit", "collectives (gloo)"),
    ]
    return Report("limits", "what 2 cores can do", rows)


def lenet() -> Report:
    return Report("lenet", "P2", [], [Goal("P2: share of the matrix product's rate", 0.5, at_least=0.45)])


def results() -> dict[str, Result]:
    found = {
        "limits": result("limits", limits()),
        "softmax": result("softmax", race(), ("somebody compiled a kernel",)),
        "lenet": result("lenet", lenet()),
    }
    return found
