"""Private methods in study files, flags, records and pages; refused in deployments."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from cli_helpers import SMALL

STUDY = """[problem]
name = "quadratic"
clients = 4
dim = 6
[run]
rounds = 12
steps = 3
[[method]]
name = "fedavg"
eta = 0.01
private = { clip = 1.0, noise = 4.0, where = "server" }
[[method]]
name = "fedavg"
eta = 0.01
"""


def column(folder, name):
    with Path(folder, "history.csv").open(newline="", encoding="utf-8") as file:
        return [float(row[name]) for row in csv.DictReader(file)]


def test_flags_make_a_private_run_and_epsilon_is_in_all_records(cli):
    said = cli(
        "run", "--method", "fedavg:eta=0.01", *SMALL, "--clip", "1", "--noise", "4", "--no-figures", "--out", "r"
    )
    assert said.code == 0, said.err
    assert "epsilon" in said.out
    epsilon = column("r", "epsilon")
    assert epsilon[0] == 0
    assert epsilon == sorted(epsilon)
    assert epsilon[-1] > 0
    summary = json.loads(Path("r/summary.json").read_text(encoding="utf-8"))
    assert summary["final"]["epsilon"] == epsilon[-1]
    assert "noise=4" in summary["setting"]["method"]
    study = Path("r/study.toml").read_text(encoding="utf-8")
    assert "clip = 1.0" in study
    assert cli("run", "r/study.toml", "--no-figures", "--out", "again").code == 0  # what was written is read
    assert column("again", "loss") == column("r", "loss")


def test_a_comparison_shows_what_each_method_promises(cli, quick_figures):
    Path("study.toml").write_text(STUDY, encoding="utf-8")
    said = cli("compare", "study.toml", "--out", "c")
    assert said.code == 0, said.err
    assert "fedavg private" in said.out
    assert "ε" in said.out
    page = Path("c/page.html").read_text(encoding="utf-8")
    assert "for all data of one client" in page
    assert "delta = 1e-05, where = server" in page  # also where nobody wrote it
    assert "fedavg private: eta" in page
    assert ": asked" not in page


def test_what_promises_nothing_is_written_as_infinite(cli):
    said = cli(
        "run", "--method", "fedavg:eta=0.01", *SMALL, "--clip", "1", "--noise", "0", "--no-figures", "--out", "r"
    )
    assert said.code == 0, said.err
    assert column("r", "epsilon")[-1] == float("inf")
    json.loads(Path("r/summary.json").read_text(encoding="utf-8"))


def test_a_deployed_run_refuses_it_with_the_reason(cli):
    first = STUDY[: STUDY.rindex("[[method]]")]
    for where in ("client", "server"):
        Path("study.toml").write_text(first.replace('"server"', f'"{where}"'), encoding="utf-8")
        said = cli("explain", "--deployed", "study.toml")
        assert said.code == 2
        assert "drawn from the run's seed" in said.err
        assert "leave private out" in said.err


def test_the_adviser_takes_no_noise(cli):
    """Its predictions are those of methods without noise."""
    said = cli("advise", *SMALL[:2], "--clip", "1", "--noise", "1")
    assert said.code == 2
    assert "--clip is a flag of `undrift run`, `undrift compare`" in said.err
