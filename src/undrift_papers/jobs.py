"""Single training runs that figures and tables share, all kept in one file.

A job is a setting; its name carries a hash of it, so that nothing is run twice, whichever item asks for it. A job that was
stopped continues from its checkpoint.

    jobs.zip        NAME/history.csv  NAME/summary.json, for every finished job
    jobs/NAME/      the checkpoint of one that is half done
"""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import io
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import undrift as ud
from undrift.engine.simulate import Observer
from undrift.errors import InputError
from undrift.oracles import LastBatch
from undrift.ownership import InUse, locked

from .archive import Archive, from_json, to_json

KEPT = ("accuracy", "test_loss", "loss")
HISTORY, SUMMARY = "history.csv", "summary.json"
WEIGHT_DECAY = 1e-4
BATCH = 20
UNIT, SIGNED, STANDARD = "0 to 1", "-1 to 1", "mean 0, variance 1"  # what is fed to the network
EQUAL, BY_SIZE = "equal", "by size"  # the weights of the clients
AS_THEY_ARE, MOVED = "as they are", "shifted by up to 4 pixels and mirrored at random"  # images of mini-batches
ONCE_EACH, ANEW = "all clients once before any twice", "drawn anew every round"  # whose turn it is in sequential FL
WHOLE, HALVES = "of the whole gradient", "of each half of the cut model"  # the norm that is clipped
FULL: LastBatch = "full"  # the last mini-batch of an epoch
SHORT: LastBatch = "short"
# Fields that came later: with these values, jobs keep the names they had.
SINCE = {
    "pixels": UNIT,
    "weights": EQUAL,
    "images": AS_THEY_ARE,
    "turns": ONCE_EACH,
    "clipping": WHOLE,
    "last_batch": FULL,
}
WORDS = {
    SIGNED: "-signed",
    STANDARD: "-standard",
    BY_SIZE: "-by_size",
    MOVED: "-moved",
    ANEW: "-anew",
    HALVES: "-halves",
    SHORT: "-short",
}
TRAIN_SAMPLE = 500


@dataclasses.dataclass(frozen=True)
class Job:
    """One method on one partition of one data set."""

    data: str
    model: str
    clients: int
    partition: str  # "exdir:1,10" (classes, α; options), "iid", "by_group", or "map:<file>" in the data directory
    method: str  # "fedavg" or "sequential_fl"
    eta: float
    steps: int
    rounds: int
    seed: int
    cohort: int = 10
    clip: float | None = None
    record_every: int = 2
    batch: int = BATCH
    weight_decay: float = WEIGHT_DECAY
    pixels: str = UNIT  # or SIGNED, STANDARD
    weights: str = EQUAL  # or BY_SIZE
    images: str = AS_THEY_ARE  # or MOVED
    turns: str = ONCE_EACH  # or ANEW; FedAvg draws anew in any case
    clipping: str = WHOLE  # or HALVES, of the model where the paper cuts it
    last_batch: LastBatch = FULL  # or SHORT

    @property
    def key(self) -> str:
        """A hash of the whole setting."""
        words = dataclasses.asdict(self)
        words = {name: value for name, value in words.items() if name not in SINCE or value != SINCE[name]}
        text = json.dumps(words, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:10]

    @property
    def name(self) -> str:
        """For people first, with the hash behind."""
        return f"{self.family}-T{self.rounds}-seed{self.seed}-{self.key}"

    @property
    def family(self) -> str:
        """What the names of jobs begin with that may differ in their length and seed (and in what only the hash says)."""
        shared, model = (_plain(words) for words in (self.partition.split("/")[-1].removesuffix(".json"), self.model))
        clip = "" if self.clip is None else "-clip"
        chosen = (self.pixels, self.weights, self.images, self.turns, self.clipping, self.last_batch)
        clip += "".join(WORDS.get(word, "") for word in chosen)
        return f"{self.data}-{model}-m{self.clients}-{shared}-{self.method}-K{self.steps}-eta{self.eta:g}{clip}"


def _plain(words: str) -> str:
    """Words with options, as part of a file's name."""
    return words.replace(":", "").replace(",", "-").replace("=", "")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a job left behind."""

    job: Job
    rounds: np.ndarray  # those that were evaluated
    columns: dict[str, np.ndarray]
    summary: dict[str, Any]

    @property
    def accuracy(self) -> np.ndarray:
        return self.columns["accuracy"]

    def last(self, rounds: int = 20) -> np.ndarray:
        """Accuracies of the last so many rounds (those of them that were evaluated)."""
        return self.accuracy[self.rounds > self.rounds[-1] - rounds]

    @property
    def seconds_per_round(self) -> float:
        """Once everything is compiled, where the run was long enough to tell."""
        whole: float = self.summary["seconds"] / self.summary["job"]["rounds"]
        return self.summary.get("seconds_per_round") or whole

    def rounds_to(self, accuracy: float) -> int | None:
        """The first evaluated round with at least this accuracy."""
        reached = np.flatnonzero(self.accuracy >= accuracy)
        return int(self.rounds[reached[0]]) if reached.size else None


def archive(folder: Path) -> Archive:
    """Where the results of the jobs are kept that are worked on in this folder."""
    return Archive(folder.with_suffix(".zip"))


def outcome(job: Job, folder: Path) -> Outcome | None:
    """The result of a job, if it is there; a run that was evaluated more often, or went on for longer, serves as well."""
    kept = archive(folder).read(f"{job.family}-T")
    lengths = sorted({int(name[len(job.family) + 2 :].partition("-")[0]) for name in kept})
    for serving in _serving(job, lengths):
        if f"{serving.name}/{HISTORY}" in kept:
            return _read(job, *(kept[f"{serving.name}/{file}"] for file in (HISTORY, SUMMARY)))
    return None


def _serving(job: Job, lengths: Iterable[int]) -> Iterator[Job]:
    """Jobs whose first rounds are those of this one, with all evaluations that it wants; itself first."""
    finer = [every for every in range(job.record_every, 0, -1) if job.record_every % every == 0]
    for rounds in (job.rounds, *(length for length in lengths if length > job.rounds)):
        for every in finer:
            if rounds == job.rounds or job.rounds % every == 0:  # the last round of a job is always evaluated
                yield dataclasses.replace(job, rounds=rounds, record_every=every)


def _read(job: Job, history: bytes, summary: bytes) -> Outcome:
    rows = [row for row in csv.DictReader(io.StringIO(history.decode(), newline="")) if _wanted(int(row["round"]), job)]
    columns = {name: np.array([float(row[name]) for row in rows]) for name in rows[0] if name != "round"}
    about = from_json(summary)
    if about["diverged"] is not None and about["diverged"] > job.rounds:
        about["diverged"] = None
    return Outcome(job, np.array([int(row["round"]) for row in rows]), columns, about)


def _wanted(round: int, job: Job) -> bool:
    return round <= job.rounds and (round % job.record_every == 0 or round == job.rounds)


def finish(job: Job, folder: Path, observe: Observer | None = None) -> Outcome:
    """The result of a job: read if it is there, else run (or continued) now."""
    found = outcome(job, folder)
    if found is None:
        with locked(_lock(job, folder), wait=True):  # another process may be at it
            found = outcome(job, folder) or _finish(job, folder, observe)
    return found


def _finish(job: Job, folder: Path, observe: Observer | None = None) -> Outcome:
    files = _run(job, folder / job.name, observe)
    archive(folder).add({f"{job.name}/{file}": content for file, content in files.items()})
    shutil.rmtree(folder / job.name, ignore_errors=True)
    found = outcome(job, folder)
    assert found is not None
    return found


def _lock(job: Job, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f".{job.name}.lock"


def work_through(jobs: Iterable[Job], folder: Path, report: Callable[[str], None]) -> int:
    """Run what is missing, in order; several processes may share the list. Returns how many were run here."""
    done = 0
    for job in jobs:
        if outcome(job, folder) is not None:
            continue
        try:
            with locked(_lock(job, folder)):
                if outcome(job, folder) is not None:  # by now
                    continue
                began = time.time()
                ended = _finish(job, folder)
        except InUse:
            continue
        report(f"{job.name}: {ended.last().mean():.4f} in {time.time() - began:.0f} s")
        done += 1
    return done


def build_problem(job: Job) -> Any:
    """The federated problem of a job."""
    from undrift.studies.networks import model_builder
    from undrift.studies.partition import draw_parts

    dataset = ud.data.load(job.data)
    if job.partition.startswith("map:"):
        parts = _published_map(job.partition.removeprefix("map:"), len(dataset.train.y))
    else:
        parts = draw_parts(job.partition, dataset, job.clients, job.seed)
    model = model_builder(job.model)(dataset)
    mean, deviation = _scale(dataset.train.x, job.pixels)
    train, test = (
        (((split.x - mean) / deviation).astype(split.x.dtype), split.y) for split in (dataset.train, dataset.test)
    )
    black = tuple(float(value) for value in (0.0 - mean) / deviation)
    return ud.problems.network(
        model,
        train,
        parts,
        test=test,
        batch=job.batch,
        last_batch=job.last_batch,
        weights=BY_SIZE if job.weights == BY_SIZE else None,
        augment=ud.problems.Augment(shift=4, mirror=True, fill=black) if job.images == MOVED else None,
        train_sample=TRAIN_SAMPLE,
    )


def _scale(x: np.ndarray, pixels: str) -> tuple[np.ndarray, np.ndarray]:
    """What is subtracted from the pixels of every channel, and what they are then divided by."""
    if pixels == STANDARD:
        axes = tuple(range(x.ndim - 1))
        return x.mean(axis=axes), x.std(axis=axes)
    middle = {UNIT: (0.0, 1.0), SIGNED: (0.5, 0.5)}[pixels]
    mean, deviation = (np.full(x.shape[-1], value, x.dtype) for value in middle)
    return mean, deviation


def _published_map(name: str, samples: int) -> Any:
    path = Path(os.environ.get("UNDRIFT_DATA", "")) / name
    if not path.is_file():
        raise InputError(
            f"the partition map {name} is looked for in the data directory (UNDRIFT_DATA), not found: {path}"
        )
    # Sorted, as every stored job was run: the order of a client's samples decides which of them a mini-batch draws.
    return [np.sort(part) for part in ud.data.from_map(path, samples=samples)]


class _Pace:
    """Observes a run, and knows how long a round takes once everything is compiled."""

    def __init__(self, observe: Observer | None) -> None:
        self.observe = observe
        self.marks: list[tuple[int, float]] = []  # (round, time) after every chunk

    def __call__(self, history: ud.History) -> None:
        self.marks.append((history.length - 1, time.perf_counter()))
        if self.observe is not None:
            self.observe(history)

    @property
    def seconds_per_round(self) -> float | None:
        """Evaluations included; nothing where the run was over too soon to tell."""
        if len(self.marks) < 2:
            return None
        (first, began), (last, ended) = self.marks[0], self.marks[-1]
        return round((ended - began) / (last - first), 4)


def _run(job: Job, place: Path, observe: Observer | None) -> dict[str, bytes]:
    """Train; history.csv and summary.json."""
    from undrift.command.versions import versions
    from undrift.studies.solver import solver_from

    place.mkdir(parents=True, exist_ok=True)
    pace = _Pace(observe)
    problem = build_problem(job)
    clip_cut = _boundary(problem) if job.clipping == HALVES else None
    method = ud.METHODS[job.method](eta=job.eta, solver=solver_from(job.weight_decay, job.clip, clip_cut))
    everyone = job.cohort >= job.clients
    in_turn = method.recipe.ordered
    permuted = in_turn and job.turns == ONCE_EACH and not everyone
    # The published program weighs the clients of a cohort among themselves, and the steps of clients in turn not at all.
    among = job.weights == BY_SIZE
    draw = ud.plan.permuted if permuted else ud.plan.uniform
    result = ud.run(
        method,
        problem,
        rounds=job.rounds,
        steps=job.steps,
        participation=None
        if everyone and not (among and in_turn)
        else draw(min(job.cohort, job.clients), renormalise=among),
        seed=job.seed,
        record_every=job.record_every,
        on_divergence="continue",
        observe=pace,
        checkpoint=place / "checkpoint",
        checkpoint_seconds=30.0,
        resume=True,
    )
    summary = {
        "job": dataclasses.asdict(job),
        "setting": result.setting,
        "final": result.summary()["final"],
        "seconds": round(result.seconds, 1),
        "seconds_per_round": pace.seconds_per_round,
        "diverged": None if result.diverged is None else result.diverged[0],
        "versions": versions(),
    }
    return {HISTORY: _history(result), SUMMARY: to_json(summary)}


def _boundary(problem: Any) -> int:
    """Of how many parameters the client's half consists where the paper cuts the model."""
    halves: tuple[Any, Any] = problem.architecture.net.split()
    return int(halves[0].parameter_count)


def _history(result: Any) -> bytes:
    """The rounds that were evaluated."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["round", *KEPT])
    for t in np.flatnonzero(np.isfinite(result.history["accuracy"])):
        writer.writerow([t, *(f"{result.history[name][t]:.7g}" for name in KEPT)])
    return text.getvalue().encode()
