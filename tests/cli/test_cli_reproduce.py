"""`undrift reproduce`."""

from __future__ import annotations

import shutil
from importlib import metadata
from pathlib import Path

import pytest

import undrift
from paper_items import Producer, made_up
from undrift.command import codes


@pytest.fixture
def items(monkeypatch):
    """Four made-up items in place of the papers'; the third one can be stopped, the last one has a claim that fails."""
    from undrift_papers import command, registry

    producers = [Producer(), Producer(), Producer(stop_at=2), Producer()]
    names = ("one/fig1", "one/fig2", "two/fig1", "two/thm1")
    made = {n: made_up(n, p, limit=1e-9 if n == "two/thm1" else 1) for n, p in zip(names, producers, strict=True)}
    monkeypatch.setattr(registry, "all_items", lambda: made)
    monkeypatch.setattr(command, "all_items", lambda: made)
    return producers


def test_list_names_the_items_of_the_papers(cli):
    said = cli("reproduce", "--list", "--json")
    names = [row["item"] for row in said.json]
    assert said.code == codes.OK
    assert {"fedlin/fig1", "fedlin/fig8", "ssl/fig4", "fedavg/fig2", "fedtrack/thm3"} <= set(names)
    assert all(row["standing"] == "not run" and row["claims"] > 0 for row in said.json)


def test_list_says_what_is_there(cli, items):
    cli("reproduce", "one/fig1", "two/thm1")
    lines = cli("reproduce", "--list").out.splitlines()
    standing = {line.split()[0]: line for line in lines if "/" in line.split()[0]}
    assert "all 1 hold" in standing["one/fig1"]
    assert "1 of 1 fail" in standing["two/thm1"]
    assert "not run" in standing["one/fig2"]


def test_a_paper_means_all_its_items(cli, items):
    said = cli("reproduce", "one", "--json")
    assert [row["item"] for row in said.json["items"]] == ["one/fig1", "one/fig2"]
    assert (said.code, said.json["failed"], said.json["status"]) == (codes.OK, 0, "finished")


def test_interrupted_all_continues_with_what_is_missing(cli, items):
    stopped = cli("reproduce", "--all", "--json")
    assert (stopped.code, stopped.json["status"]) == (codes.INTERRUPTED, "interrupted")
    assert [row["item"] for row in stopped.json["items"]] == ["one/fig1", "one/fig2"]
    assert "2 of 4 items to go" in stopped.err
    finished = cli("reproduce", "--all", "--json")
    assert (finished.code, len(finished.json["items"])) == (codes.OK, 4)
    assert [row["fresh"] for row in finished.json["items"]] == [False, False, True, True]
    assert [producer.steps for producer in items] == [4, 4, 4, 4], "no part of anything was done twice"


def test_a_failed_claim_is_shown_counted_and_strict_about(cli, items):
    said = cli("reproduce", "two/thm1")
    assert said.code == codes.OK
    assert "FAILS" in said.out
    assert "because it was made to fail" in said.out
    assert "0 of 1 claims hold" in said.out
    assert cli("reproduce", "two/thm1", "--strict").code == codes.CLAIM_FAILED
    assert cli("reproduce", "one/fig1", "--strict").code == codes.OK


def test_report_is_made_from_the_files(cli, items, tmp_path):
    cli("reproduce", "one/fig1", "two/thm1")
    said = cli("reproduce", "--report", "page.md")
    text = (tmp_path / "page.md").read_text()
    assert said.code == codes.OK
    assert [producer.calls for producer in items] == [1, 0, 0, 1], "a report runs nothing"
    assert "**1 of 2 claims hold**, in 2 items. Not run yet: one/fig2, two/fig1." in text
    assert "`undrift reproduce --out runs/reproduction --report page.md`" in text
    fails = "| [two/thm1](page/two-thm1.md) | made up: two/thm1 | **0 of 1** | not so: it ends low: ends at 0.125 |"
    holds = "| [one/fig1](page/one-fig1.md) | made up: one/fig1 | 1 of 1 | it ends low: ends at 0.125 |"
    assert text.index("What does not hold") < text.index(fails) < text.index(holds), "differences come first"
    assert "does not hold**" not in text, "details are on the items' own pages"


def test_a_report_has_a_page_for_each_item(cli, items, tmp_path):
    cli("reproduce", "one/fig1", "two/thm1", "--report", "page.md")
    whole, failed = ((tmp_path / "page" / f"{name}.md").read_text() for name in ("one-fig1", "two-thm1"))
    assert "| it ends low | holds | ends at 0.125 | low |" in whole
    assert "| it ends low | **does not hold** |" in failed
    assert "*it ends low*: because it was made to fail" in failed
    assert "undrift reproduce one/fig1 --scale paper" in whole
    assert "our choice" in whole
    assert "![made up: one/fig1](one-fig1-paper.png)" in whole
    assert "[All results](../page.md)" in whole
    assert (tmp_path / "page" / "one-fig1-paper.png").exists()


def test_a_report_draws_what_is_not_drawn(cli, items, tmp_path):
    cli("reproduce", "one/fig1")
    shutil.rmtree(tmp_path / "runs/reproduction/one/fig1")  # as in a clone: drawings are not in version control
    cli("reproduce", "--report", "page.md")
    assert (tmp_path / "page" / "one-fig1-paper.png").stat().st_size > 0
    assert "one-fig1-paper.png" in (tmp_path / "page" / "one-fig1.md").read_text()
    assert items[0].calls == 1


def test_damaged_results_are_named(cli, items, tmp_path):
    cli("reproduce", "one/fig1")
    file = tmp_path / "runs/reproduction/one/fig1-paper.zip"
    file.write_bytes(file.read_bytes().replace(b"0.125", b"0.126"))
    said = cli("reproduce", "one/fig1")
    assert said.code == codes.BAD_INPUT
    assert "one/fig1-paper.zip are damaged" in said.err
    listed = {line.split()[0]: line for line in cli("reproduce", "--list").out.splitlines() if line}
    assert "damaged" in listed["one/fig1"]
    assert cli("reproduce", "one/fig1", "--again").code == codes.OK


def test_bad_names_are_answered_with_the_nearest(cli):
    said = cli("reproduce", "fedlin/fg2")
    assert said.code == codes.BAD_INPUT
    assert "did you mean 'fedlin/fig2'?" in said.err


def test_the_library_does_not_know_the_application_by_name():
    folder = Path(undrift.__file__).parent
    assert [file for file in folder.rglob("*.py") if "undrift_papers" in file.read_text(encoding="utf-8")] == []


@pytest.mark.parametrize("words", [["fedlin/fig1"], ["--help"]])
def test_without_an_application_it_says_what_is_missing(cli, monkeypatch, words):
    monkeypatch.setattr("undrift.command.reproduce.entry_points", lambda **which: metadata.EntryPoints())
    said = cli("reproduce", *words)
    assert said.code == codes.BAD_INPUT
    assert "no installed package has the entry point 'reproduce'" in said.err


def test_any_application_may_bring_the_command(cli, monkeypatch):
    class Mine:
        def add_arguments(self, parser):
            parser.add_argument("--twice", type=int)

        def execute(self, arguments):
            return 2 * arguments.twice

    monkeypatch.setattr("undrift.command.reproduce.application", Mine)
    assert cli("reproduce", "--twice", "3").code == 6
    assert "did you mean --twice?" in cli("reproduce", "--twise", "3").err


def test_help_shows_examples_and_exit_codes(cli):
    said = cli("reproduce", "--help")
    assert said.code == codes.OK
    assert "examples:" in said.out
    assert "130 interrupted" in said.out


def test_nothing_asked_for(cli):
    said = cli("reproduce")
    assert said.code == codes.BAD_INPUT
    assert "--all" in said.err


def test_the_output_directory_must_be_one(cli, tmp_path):
    (tmp_path / "file").write_text("mine")
    said = cli("reproduce", "fedlin/fig1", "--out", "file")
    assert said.code == codes.BAD_INPUT
    assert (tmp_path / "file").read_text() == "mine"


def test_redraw_makes_the_figure_anew(cli, items, tmp_path):
    cli("reproduce", "one/fig1")
    figure = tmp_path / "runs/reproduction/one/fig1/paper/figure.png"
    figure.write_bytes(b"")
    cli("reproduce", "one/fig1")
    assert figure.stat().st_size == 0
    cli("reproduce", "one/fig1", "--redraw")
    assert figure.stat().st_size > 0
    assert items[0].calls == 1
