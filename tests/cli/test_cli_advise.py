"""`undrift advise`."""

from __future__ import annotations

import csv
import json

from cli_helpers import QUADRATIC

PROBLEM = ["--problem", f"{QUADRATIC},heterogeneity=5"]
QUICK = ["advise", *PROBLEM, "--steps", 1, 5, "--method", "fedsgd", "fedlin"]


def test_advice_in_words_with_a_command_to_run(cli):
    said = cli(*QUICK, "--target", "1e-4")
    assert said.code == 0, said.err
    assert "Take fed" in said.out
    assert "undrift run --problem quadratic" in said.out
    command = next(line for line in said.out.splitlines() if line.startswith("undrift run"))
    run = cli(*command.split()[1:], "--json", "--no-figures", "--quiet")
    assert run.code == 0, run.err
    history = run.json["final"]
    start = cli(*command.split()[1:-2], "--rounds", 0, "--json", "--no-figures", "--quiet").json["final"]
    assert history["gap"] <= 1e-4 * start["gap"]


def test_files_and_json(cli, tmp_path):
    said = cli(*QUICK[:-2], "fedlin", "--out", "advice", "--json", "--measure", "--rounds", 200)
    assert said.code == 0, said.err
    content = said.json
    assert content == json.loads((tmp_path / "advice" / "advice.json").read_text())
    assert content["recommended"]["measured"]["rounds"] <= content["recommended"]["predicted"]["rounds"]
    assert {path.name for path in (tmp_path / "advice").iterdir()} == {
        "advice.json",
        "advice.csv",
        "advice.md",
        "advice.png",
        "advice.svg",
    }
    rows = list(csv.DictReader((tmp_path / "advice" / "advice.csv").read_text().splitlines()))
    assert len(rows) == len(content["candidates"]) == 2
    page = (tmp_path / "advice" / "advice.md").read_text()
    assert content["why"][0] in page
    again = cli(*QUICK, "--out", "advice")
    assert again.code == 2
    assert "--overwrite" in again.err


def test_study_file_and_refusals(cli, tmp_path):
    (tmp_path / "study.toml").write_text('[problem]\nname = "figure1"\n[run]\noracle = "noisy:1.0"\n')
    said = cli("advise", "study.toml")
    assert said.code == 2
    assert "--measure" in said.err
    for words, message in (
        (["--steps", "2..9"], "2..100:fixed"),
        (["--speeds", "1,2,3"], "one per client"),
        (["--link", "speed=3"], "up"),
        (["--problem", "quadratik"], "did you mean"),
    ):
        problem = [] if "--problem" in words else ["--problem", "figure1"]
        said = cli("advise", *problem, *words)
        assert said.code == 2
        assert message in said.err
