"""Labels are the user's: whatever they are, what was computed is shown and kept under exactly that name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

LABELS = [r"$\frac{$", "$x$", "[/x]", "[bold]", "file", "a/b", "..", ":smile:", "日本", "<b>&amp;", "%s{}", "same", "same",
          "same #1", "l" * 100]  # fmt: skip
HEAD = '[problem]\nname = "quadratic"\nclients = 2\ndim = 2\n[run]\nrounds = 3\nsteps = 1\n'


def study(labels: list[str]) -> str:
    return HEAD + "".join(f'[[method]]\nname = "gd"\neta = 0.1\nlabel = {json.dumps(one)}\n' for one in labels)


@pytest.mark.slow
def test_a_comparison_of_strange_names(cli, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # a terminal: progress is drawn too
    Path("study.toml").write_text(study(LABELS))
    said = cli("compare", "study.toml", "--out", "r")
    assert said.code == 0, said.err[-500:]
    kept = pd.read_csv("r/history.csv", keep_default_na=False)["label"].unique().tolist()
    assert kept[:11] == LABELS[:11]
    assert len(set(kept)) == len(LABELS)
    with np.load("r/models.npz") as models:
        assert list(models) == kept
    for label in LABELS[:8]:  # the longest ones are shortened in figures
        assert label in said.out
        assert label in Path("r/figure.svg").read_text().replace("&amp;", "&")
    assert cli("compare", "--out", "r", "--resume").code == 0


@pytest.mark.parametrize("label", [r"$\frac{$", "[/x]", "$"])
def test_a_run_with_a_strange_name(cli, monkeypatch, label):
    monkeypatch.setenv("FORCE_COLOR", "1")
    Path("study.toml").write_text(study([label]))
    said = cli("run", "study.toml", "--out", "r")
    assert said.code == 0, said.err[-500:]
    assert label in said.out


@pytest.mark.parametrize(
    ("label", "rule"),
    [("l" * 101, "1 to 100 letters"), ("two\nlines", "U+000A"), ("nul\0", "U+0000"), ("\x1b[31m", "U+001B")],
)
def test_labels_that_have_no_place_are_refused_at_once(cli, label, rule):
    Path("study.toml").write_text(study([label]))
    said = cli("run", "study.toml", "--out", "r")
    assert said.code == 2
    assert rule in said.err
    assert not Path("r").exists()


def test_a_partition_with_a_strange_name(cli):
    """The title of its picture holds the path of its map."""
    name = r"$\frac{$[/x].json"
    cli("partition", "--data", "digits", "--clients", "10", "--how", "iid", "--out", "p", "--no-figures")
    Path(name).parent.mkdir()  # as it happens, the name has a slash in it
    Path("p/parts.json").rename(name)
    said = cli("partition", "--data", "digits", "--how", f"from_map:{name}", "--out", "q")
    assert said.code == 0, said.err
    assert name in said.out.replace("\n", "")
