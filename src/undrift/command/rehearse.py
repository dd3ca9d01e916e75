"""`undrift rehearse`: a deployment on this machine, with kills if wanted, compared with the simulation."""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .. import files
from ..deploy.ports import free_port
from ..errors import InputError
from ..studies.agreement import Agreement
from ..studies.replaying import MODEL, replay, site_files
from ..studies.study import Study, read_study, study_from
from . import codes
from .directory import names_in
from .processes import Ended, Troupe
from .replay import verdict
from .serve import chosen_method
from .setting import vouched
from .talk import Stop, Talk

DEFAULT: dict[str, Any] = {
    "problem": {"name": "digits", "clients": 4, "classes": 3},
    "run": {"rounds": 30, "steps": 5},
    "method": [{"name": "fedlin", "up": "top_k:20"}],
}
LOOK = 0.02  # seconds between two looks at the processes: rounds of small problems take little longer
REST = 0.1  # of the rounds, at the end: whoever is to be killed later would be too late for it


def execute(arguments: argparse.Namespace) -> int:
    """The command."""
    talk = Talk(arguments.quiet, arguments.json)
    agreement = Agreement.of(_study(arguments))
    with _place(arguments.out) as folder:
        if arguments.flower:
            from .rehearse_flower import rehearse_flower

            return rehearse_flower(agreement, folder, talk, arguments)
        return _rehearse(agreement, folder, talk, arguments)


def _study(arguments: argparse.Namespace) -> Study:
    study = read_study(arguments.study) if arguments.study else study_from(DEFAULT, "the rehearsal's own study")
    study = chosen_method(vouched(study, arguments), arguments.method)
    if arguments.clients is not None:
        if study.deploy.get("sites") or study.problem.get("name") == "sites":
            raise InputError(f"{study.source} names its sites: --clients has no meaning there, leave it out")
        study = study.but(problem={**study.problem, "clients": arguments.clients})
    return study


@contextlib.contextmanager
def _place(out: str | None) -> Iterator[Path]:
    """Where everything of the rehearsal lies: the run, certificates, states of the sites, logs."""
    if out is None:
        with tempfile.TemporaryDirectory(prefix="undrift-rehearsal-") as folder:
            yield Path(folder)
    else:
        if names_in(Path(out)):
            raise InputError(f"{out} already holds files: choose another directory with --out")
        with files.storage(out):
            Path(out).mkdir(parents=True, exist_ok=True)
        yield Path(out)


def _rehearse(agreement: Agreement, folder: Path, talk: Talk, arguments: argparse.Namespace) -> int:
    from ..deploy.certs import make_certificates

    sites, rounds = agreement.contract.sites, agreement.study.run["rounds"]
    make_certificates(folder / "pki", sites, days=2)
    files.write_text(folder / "study.toml", agreement.study.to_toml())
    began = time.monotonic()
    with Stop() as stop, talk.progress() as bar, Troupe(folder / "logs") as troupe:
        task = bar.add_task(f"{len(sites)} sites and a server", total=rounds)
        _start(troupe, agreement, folder, arguments)
        kills = _schedule(arguments, sites, rounds)
        while not troupe.is_over("server"):
            stop.heard()
            done = _rounds(folder / "run" / "trace.jsonl")
            bar.update(task, completed=done)
            while kills and kills[0][0] <= done < rounds:
                _, name = kills.pop(0)
                troupe.kill(name)
                talk.note(f"killed {name} in round {done + 1}")
                troupe.start(name)
            _check(troupe)
            time.sleep(LOOK)
    if kills:
        talk.note(f"{len(kills)} of the kills were not made: the run was over before")
    seconds = time.monotonic() - began
    return _compare(agreement, folder, talk, arguments, seconds, troupe)


def _start(troupe: Troupe, agreement: Agreement, folder: Path, arguments: argparse.Namespace) -> None:
    port, pki, trust = free_port(), folder / "pki", ["--trust"] if arguments.trust else []
    troupe.add("server", ["serve", str(folder / "study.toml"), "--certs", str(pki / "server"), "--port", str(port),
                          "--host", "127.0.0.1", "--out", str(folder / "run"), "--farewell", "600", *trust])  # fmt: skip
    own, sites = _method_files(agreement), agreement.contract.sites
    given = None if arguments.data is None else Path(arguments.data)
    data_files: list[Any] = [None] * len(sites) if agreement.source.public is not None else site_files(agreement, given)
    for site, file in zip(sites, data_files, strict=True):
        data = [] if file is None else ["--data", str(file)]
        troupe.add(site, ["join", f"127.0.0.1:{port}", "--certs", str(pki / site), "--state", str(folder / "state" / site),
                          "--accept", agreement.contract.hash, *data, *own])  # fmt: skip
    for name in troupe.commands:
        troupe.start(name)


def _method_files(agreement: Agreement) -> list[str]:
    stem, colon, _ = agreement.study.methods[0].name.rpartition(".py:")
    return ["--method-file", f"{stem}.py"] if colon else []


def _schedule(arguments: argparse.Namespace, sites: list[str], rounds: int) -> list[tuple[int, str]]:
    """(round, whom) of all kills, in order: a third of them the server."""
    draw = random.Random(arguments.seed)
    names = ["server" if draw.random() < 1 / 3 else draw.choice(sites) for _ in range(int(arguments.chaos))]
    last = max(int((1 - REST) * rounds), 1)
    return sorted((draw.randrange(last), name) for name in names)


def _rounds(trace: Path) -> int:
    """Rounds that are in the trace; its first line is its head."""
    try:
        return max(trace.read_bytes().count(b"\n") - 1, 0)
    except OSError:
        return 0


def _check(troupe: Troupe) -> None:
    failed = troupe.failed()
    if failed is not None:
        raise Ended(failed)


def _compare(
    agreement: Agreement, folder: Path, talk: Talk, arguments: argparse.Namespace, seconds: float, troupe: Troupe
) -> int:
    if not (folder / "run" / MODEL).exists():
        raise InputError(f"the rehearsal left no model; see {folder / 'logs'}")
    data = None if arguments.data is None else Path(arguments.data)
    found = replay(folder / "run", data, trust=True)
    content = {**found.words(), "sites": len(agreement.contract.sites), "kills": troupe.kills, "seconds": seconds}
    if arguments.json:
        print(json.dumps(content, indent=2))
    else:
        talk.results.print(f"{len(agreement.contract.sites)} sites, {troupe.kills} kills, {seconds:.1f} s")
        talk.results.print(verdict(found))
    if arguments.out is not None:
        talk.note(f"the run is in {folder / 'run'}, logs are in {folder / 'logs'}")
    return codes.OK if found.equal else codes.CLAIM_FAILED
