"""`undrift run --hosts`: several processes, one of which is killed, and how the run goes on."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import WAITING

from processes import PATIENCE, go_on, wait_for_line
from undrift.cli import main
from undrift.command import codes

PROBLEM = "least_squares:clients=5,samples=4,dim=3"
RUN = [
    "run", "--method", "scaffold", "--problem", PROBLEM, "--participation", "uniform:3", "--eta", "1e-3", "--steps", "2",
    "--record-every", "1000", "--rounds", "300", "--checkpoint-seconds", "0", "--no-figures", "--quiet",
]  # fmt: skip
UNDRIFT = "import sys\nfrom undrift.cli import main\nsys.exit(main(sys.argv[1:]))"


Launcher = Callable[[int, int], dict[str, str]]  # (how many processes, which one) -> its environment
FIRST_PORT = 61_440  # launchers name no port: JAX takes this one and the number of the job, modulo 4096


def free_job() -> int:
    """The number of a job whose port nobody uses."""
    for job in random.sample(range(4096), 100):
        with socket.socket() as tried, suppress(OSError):
            tried.bind(("127.0.0.1", FIRST_PORT + job))
            return job
    pytest.skip("no port is free among those that JAX takes under a launcher")


def slurm(job: int) -> Launcher:
    return lambda count, index: {
        "SLURM_JOB_ID": str(job), "SLURM_STEP_NODELIST": "127.0.0.1", "SLURM_STEP_NUM_NODES": "1",
        "SLURM_NTASKS": str(count), "SLURM_PROCID": str(index), "SLURM_LOCALID": str(index),
    }  # fmt: skip


def open_mpi(job: int) -> Launcher:
    return lambda count, index: {
        "OMPI_MCA_orte_hnp_uri": f"{4096 * job}.0;tcp://127.0.0.1:34911", "OMPI_COMM_WORLD_SIZE": str(count),
        "OMPI_COMM_WORLD_RANK": str(index), "OMPI_COMM_WORLD_LOCAL_RANK": str(index),
    }  # fmt: skip


class Company:
    """Processes that run one command together; none outlives the block."""

    def __init__(
        self, folder: Path, count: int, *words: str, launched: Launcher | None = None, script: str = UNDRIFT
    ) -> None:
        """`launched`: what a launcher would put into the environment of each process, in place of options."""
        self.folder, self.count, self.words, self.launched, self.script = folder, count, words, launched, script

    def __enter__(self) -> Company:
        with socket.socket() as found:
            found.bind(("localhost", 0))
            address = f"localhost:{found.getsockname()[1]}"
        self.stack = ExitStack()
        self.processes = []
        for index in range(self.count):
            log = self.stack.enter_context((self.folder / f"process-{index}.log").open("w"))
            hosts, environment = ["--hosts"], dict(os.environ)
            if self.launched is None:
                hosts += [address, "--host-count", str(self.count), "--host-index", str(index)]
            else:
                environment |= self.launched(self.count, index)
            command = [sys.executable, "-c", self.script, *self.words, *hosts]
            made = subprocess.Popen(
                command,
                cwd=self.folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
            )
            self.stack.callback(made.communicate)
            self.stack.callback(made.kill)
            self.processes.append(made)
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def codes(self) -> list[int]:
        return [made.wait(PATIENCE) for made in self.processes]

    def said(self, index: int) -> str:
        return (self.folder / f"process-{index}.log").read_text()

    def wait_for(self, line: str) -> None:
        """Until all processes have said this line."""
        for index, made in enumerate(self.processes):
            try:
                wait_for_line(made, line)
            except AssertionError as error:
                raise AssertionError(self.said(index)) from error


def killed(folder: Path, count: int, victim: int) -> None:
    """A run of so many processes of which one is killed when there is a checkpoint, while the others wait."""
    with Company(folder, count, *RUN, "--out", "run", script=WAITING) as company:
        company.wait_for("saved")
        assert (folder / "run" / "checkpoint.npz").exists()
        company.processes[victim].kill()
        company.processes[victim].wait(PATIENCE)
        others = [index for index in range(count) if index != victim]
        for index in others:
            go_on(company.processes[index])
        found = company.codes()
        assert [found[index] for index in others] == [codes.HOST_LOST] * len(others), company.said(others[0])
        for index in others:
            assert "has lost another one" in company.said(index)
            assert "--resume" in company.said(index)


def test_a_killed_process_ends_the_others_and_one_process_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(tmp_path, 2, victim=1)
    assert len(list((tmp_path / "run").glob("checkpoint.rows-*.npz"))) >= 2  # every process wrote its own
    monkeypatch.chdir(tmp_path)
    assert main([*RUN, "--out", "run", "--resume"]) == codes.OK
    assert main([*RUN, "--out", "whole"]) == codes.OK
    resumed, whole = (np.load(tmp_path / name / "model.npy") for name in ("run", "whole"))
    np.testing.assert_allclose(resumed, whole, rtol=1e-12, atol=1e-12)
    assert not list((tmp_path / "run").glob("checkpoint*"))


def test_a_launcher_is_asked_who_takes_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --hosts alone everything is left to JAX; what it does not find out is said."""
    asked: list[tuple[object, ...]] = []

    def nobody(*who: object, **_: object) -> None:
        asked.append(who)
        raise ValueError("coordinator_address should be defined")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("undrift.command.on_hosts.prepare_devices", lambda *_: None)
    monkeypatch.setattr("jax.distributed.initialize", nobody)
    assert main([*RUN, "--hosts", "--out", "run"]) == codes.BAD_INPUT
    assert asked == [(None, None, None)]
    assert "start them with srun or mpirun" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("launcher", [slurm, open_mpi])
def test_processes_of_a_launcher_find_each_other(tmp_path: Path, launcher: Callable[[int], Launcher]) -> None:
    with Company(tmp_path, 2, *RUN, "--rounds", "3", "--out", "run", launched=launcher(free_job())) as company:
        assert company.codes() == [codes.OK] * 2, company.said(0)
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["setting"]["mesh"].startswith(
        "2 devices of 2 processes"
    )


@pytest.mark.slow
def test_other_numbers_of_processes_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed(tmp_path, 3, victim=0)
    with Company(tmp_path, 2, "run", "--out", "run", "--resume", "--quiet", "--no-figures") as company:
        assert company.codes() == [codes.OK] * 2, company.said(0)
    monkeypatch.chdir(tmp_path)
    assert main([*RUN, "--out", "whole"]) == codes.OK
    resumed, whole = (np.load(tmp_path / name / "model.npy") for name in ("run", "whole"))
    np.testing.assert_allclose(resumed, whole, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_a_mistake_ends_all_processes_with_the_same_code(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("not a run")
    with Company(tmp_path, 2, *RUN, "--out", "run") as company:
        assert company.codes() == [codes.BAD_INPUT] * 2
        assert "already holds files" in company.said(0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--host-count", "2"], "belong to --hosts HOST:PORT"),
        (["--hosts", "localhost:1"], "say with --out DIR where all processes find the run"),
    ],
)
def test_what_is_missing_is_said(words: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path,
                                 monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main([*RUN, *words]) == codes.BAD_INPUT
    assert said in capsys.readouterr().err
