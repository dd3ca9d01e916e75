"""`undrift figure`: from what runs wrote, for papers; what it reads may be anybody's."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from cli_helpers import SMALL

from undrift.report.publication import STYLES, Wishes, _figure, settings
from undrift.report.recorded import measured, read_run
from undrift.report.tex import as_tex


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run by theorem, and a comparison with seeds."""
    from undrift.cli import main

    folder = tmp_path_factory.mktemp("figures")
    common = [*SMALL, "--no-figures", "--quiet"]
    assert main(["run", "--method", "fedlin", "--eta", "theorem", *common, "--out", str(folder / "one")]) == 0
    words = ["--method", "fedavg", "fedlin", "--eta", "0.01", "0.02", "--oracle", "noisy:1.0", "--seeds", "3"]
    assert main(["compare", *words, *common, "--out", str(folder / "two")]) == 0
    return folder


def by_hand(folder: Path, **changes: str) -> Path:
    """A run directory of three rounds."""
    folder.mkdir()
    rows = ["0,4.0,4.0,0,0,0", "1,2.0,2.0,8,8,3", "2,1.0,1.0,16,16,6"]
    files = {
        "history.csv": "\n".join(["round,loss,gap,bytes_up,bytes_down,gradients", *rows]) + "\n",
        "summary.json": json.dumps({"label": "mine", "study": {"method": [{"name": "fedlin"}]}}),
        **changes,
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def panel(runs, **wishes):
    with mpl.rc_context(settings(Wishes(**wishes))):
        return _figure(runs, Wishes(**wishes)).axes[0]


# ----- what is read
def test_a_run_comes_back_as_it_was_written(runs):
    (one,) = read_run(runs / "one")
    assert (one.label, one.method) == ("fedlin", "fedlin")
    assert measured(one, "gap").shape == (1, 13)
    assert measured(one, "relative-gap")[0, 0] == 1.0
    (bound,) = one.bounds
    assert bound.values[0] == 1.0
    assert np.all(measured(one, "relative-gap")[0] <= bound.values * (1 + 1e-9))  # the theorem holds
    avg, lin = read_run(runs / "two")
    assert [avg.label, lin.label] == ["fedavg", "fedlin"]
    assert measured(avg, "loss").shape == (3, 13)
    assert "eta" not in avg.columns


# ----- what is drawn
def test_pdf_svg_and_png_with_embedded_fonts(runs, cli):
    settings_before = dict(mpl.rcParams)
    said = cli("figure", runs / "one", runs / "two", "--for", "paper", "--bounds", "--out", "figures/gap", "--json")
    assert said.code == 0
    assert said.err == ""
    assert said.json["files"] == ["figures/gap.pdf", "figures/gap.svg", "figures/gap.png"]
    assert said.json["curves"] == ["fedlin (one)", "fedavg", "fedlin (two)"]
    pdf = Path("figures/gap.pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    assert b"/FontFile2" in pdf
    assert b"/Type3" not in pdf
    points = [float(word) for word in re.search(rb"/MediaBox \[([^\]]*)\]", pdf)[1].split()]
    assert points[2] == pytest.approx(88 / 25.4 * 72, abs=0.01)  # a column
    assert "</svg>" in Path("figures/gap.svg").read_text()
    assert Path("figures/gap.png").read_bytes().startswith(b"\x89PNG")
    assert dict(mpl.rcParams) == settings_before
    again = cli("figure", runs / "one", runs / "two", "--bounds", "--out", "again.pdf")
    assert again.code == 0
    assert Path("again.pdf").read_bytes() == pdf  # the same bytes: no date


def test_what_falls_below_zero_is_drawn_on_a_linear_axis(tmp_path, cli):
    """A loss of a quadratic is negative, but for its first value, whose sign rounding decides."""
    rows = "round,loss,bytes_up,bytes_down,gradients\n0,-1e-15,0,0,0\n1,-2.0,8,8,3\n2,-3.0,16,16,6\n"
    run = by_hand(tmp_path / "run", **{"history.csv": rows})
    assert panel(read_run(run), y="loss").get_yscale() == "linear"
    forced = cli("figure", run, "--y", "loss", "--scale", "log", "--out", "log.pdf")
    assert (forced.code, "above zero" in forced.err) == (2, True)


def test_sizes_fonts_and_axes(runs, cli):
    words = ["--for", "slides", "--width", "page", "--height", "90", "--font", "serif", "--size", "12", "--x", "bytes"]
    for y in ("gap", "loss", "gradient", "drift", "distance", "component_gradients"):
        assert cli("figure", runs / "two", "--y", y, *words, "--legend", "below", "--out", f"{y}.pdf").code == 0
        box = re.search(rb"/MediaBox \[([^\]]*)\]", Path(f"{y}.pdf").read_bytes())[1].split()
        assert [float(word) for word in box[2:]] == pytest.approx([180 / 25.4 * 72, 90 / 25.4 * 72], abs=0.01)


def test_curves_can_be_told_apart_without_colour(runs):
    lines = panel([*read_run(runs / "one"), *read_run(runs / "two")]).get_lines()
    assert (
        len(
            {
                (line.get_linestyle(), line.get_marker(), tuple(np.ravel(line._unscaled_dash_pattern[1])))
                for line in lines
            }
        )
        == 3
    )
    assert len({line.get_marker() for line in lines}) == 3


def test_medians_bands_and_labels(runs):
    (avg, lin) = read_run(runs / "two")
    shown = panel([avg, lin], y="loss", scale="linear")
    line = shown.get_lines()[0]
    np.testing.assert_allclose(line.get_ydata(), np.median(measured(avg, "loss"), axis=0))
    band = shown.collections[0].get_paths()[0].vertices[:, 1]
    assert band.min() == pytest.approx(measured(avg, "loss").min())
    assert band.max() == pytest.approx(measured(avg, "loss").max())
    assert shown.get_ylabel() == "$f(x_t)$"
    assert panel([avg], y="gap").get_ylabel() == r"$f(x_t) - f^\star$"
    assert panel([avg], y="gap").get_yscale() == "log"


def test_an_absolute_gap_has_an_absolute_bound(runs):
    (one,) = read_run(runs / "one")
    curve, bound = panel([one], y="gap", bounds=True).get_lines()
    np.testing.assert_allclose(curve.get_ydata()[0], one.columns["gap"][0, 0])
    np.testing.assert_allclose(bound.get_ydata()[0], one.columns["gap"][0, 0])


def test_names_are_text_and_those_of_the_user_formulas(cli, tmp_path):
    by_hand(tmp_path / "r", **{"summary.json": json.dumps({"label": "a $x_$ b"})})
    (run,) = read_run(tmp_path / "r")
    (text,) = panel([run]).get_legend().get_texts()
    assert (text.get_text(), text.get_parse_math()) == ("a $x_$ b", False)
    assert cli("figure", "r", "--label", "a $x_$ b=$\\tau = 5$", "--out", "f.png").code == 0
    said = cli("figure", "r", "--label", "a $x_$ b=$\\frac{1$", "--out", "g.png")
    assert said.code == 2
    assert "is no formula" in said.err
    assert not Path("g.png").exists()


def test_no_letter_of_a_file_is_a_command_of_tex():
    assert as_tex("\\input{/etc/passwd} 5% τ≤3 ↑ 字") == (
        r"\textbackslash{}input\{/etc/passwd\} 5\% $\tau$$\leq$3 $\uparrow$ ?"
    )
    wishes = Wishes(tex=True, style=STYLES["paper"])
    assert settings(wishes)["text.usetex"] is True


@pytest.mark.skipif(shutil.which("latex") is not None, reason="LaTeX is installed: it would set the figure")
def test_tex_that_is_not_there_is_said(cli, tmp_path):
    by_hand(tmp_path / "r")
    said = cli("figure", "r", "--usetex", "--out", "f.png")
    assert said.code == 2
    assert "leave out --usetex" in said.err


# ----- what is refused
@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--y", "los"], "did you mean 'loss'"),
        (["--y", "accuracy"], "has not recorded accuracy"),
        (["--x", "seconds"], "choose another --x"),
        (["--only", "yours"], "unknown curve 'yours'"),
        (["--label", "yours=b"], "unknown curve 'yours'"),
        (["--width", "wide"], "--width"),
        (["--width", "5"], "between 20 and 1000"),
        (["--height", "1e9"], "between 20 and 1000"),
        (["--xlim", "1"], "two numbers"),
        (["--ylim", "2,1"], "two numbers"),
        (["--title", "$\\frac$"], "is no formula"),
        (["--y", "loss", "--bounds"], None),
    ],
)
def test_wishes_that_cannot_be_met(cli, tmp_path, words, text):
    by_hand(tmp_path / "r")
    said = cli("figure", "r", *words, "--out", "f.png")
    assert said.code == (0 if text is None else 2)
    assert (text or "no run knows a bound") in said.err


DAMAGES = {
    "empty": {"history.csv": ""},
    "no rounds": {"history.csv": "round,loss\n"},
    "no column round": {"history.csv": "t,loss\n0,1\n"},
    "a column twice": {"history.csv": "round,loss,loss\n0,1,2\n"},
    "a short line": {"history.csv": "round,loss\n0\n"},
    "a word": {"history.csv": "round,loss\n0,low\n"},
    "a round is missing": {"history.csv": "round,loss\n0,1\n2,1\n"},
    "a round is a word": {"history.csv": "round,loss\n__import__('os'),1\n"},
    "seeds of other length": {"history.csv": "method,label,seed,round,loss\na,a,0,0,1\na,a,0,1,1\na,a,1,0,1\n"},
    "a label with a bell": {"history.csv": 'method,label,seed,round,loss\na,"a\x07",0,0,1\n'},
    "a label without end": {"history.csv": f"method,label,seed,round,loss\na,{'a' * 999},0,0,1\n"},
    "a quote without end": {"history.csv": 'round,loss\n0,"1\n'},
    "a summary that is none": {"summary.json": "{"},
    "a summary without end": {"summary.json": "[" * 100_000},
    "bounds of other columns": {"bounds.csv": "a,b\n1,2\n"},
    "a bound of no round": {"bounds.csv": "of,label,thin,round,relative_gap\nmine,b,0,-1,1\n"},
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_files_of_strangers(cli, tmp_path, damage):
    by_hand(tmp_path / "r", **DAMAGES[damage])
    said = cli("figure", "r", "--out", "f.png")
    assert said.code == 2
    assert f"r/{next(iter(DAMAGES[damage]))}" in said.err
    assert "Traceback" not in said.err
    assert not Path("f.png").exists()


def test_a_bound_far_away_takes_no_memory(tmp_path):
    by_hand(tmp_path / "r", **{"bounds.csv": "of,label,thin,round,relative_gap\nmine,b,0,0,1\nmine,b,0,2000000000,1\n"})
    (run,) = read_run(tmp_path / "r")
    assert run.bounds[0].values.size < 1000


def test_strange_summaries_do_not_matter(tmp_path):
    for number, text in enumerate(('{"label": 3, "study": []}', "[]", '{"study": {"method": [1]}}')):
        (run,) = read_run(by_hand(tmp_path / f"r{number}", **{"summary.json": text}))
        assert run.label == f"r{number}"


def test_what_is_no_run_or_there_already(cli, tmp_path):
    by_hand(tmp_path / "r")
    assert "is no run directory" in cli("figure", "nowhere").err
    assert cli("figure", "r", "--out", "f.svg").code == 0
    said = cli("figure", "r", "--out", "f.svg")
    assert said.code == 2
    assert "--overwrite" in said.err
    assert cli("figure", "r", "--out", "f.svg", "--overwrite").code == 0
    assert cli("figure", "r").code == 0
    assert Path("relative-gap-per-round.pdf").exists()
    Path("d.png").mkdir()
    assert "is a directory" in cli("figure", "r", "--out", "d.png").err
