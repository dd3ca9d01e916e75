"""Heterogeneity figures, the picture, and map files."""

from __future__ import annotations

import io
import itertools
from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.collections import PathCollection

from undrift import data


def test_figures_against_a_plain_reference() -> None:
    labels = np.random.default_rng(0).integers(0, 4, 200)
    parts = data.dirichlet(labels, clients=7, alpha=0.3, seed=0)
    figures = data.describe(parts, labels)
    p = [np.bincount(labels[part], minlength=4) / len(part) for part in parts]
    overall = np.bincount(labels, minlength=4) / 200
    assert figures.sizes.tolist() == [len(part) for part in parts]
    assert figures.classes.tolist() == [len(set(labels[part].tolist())) for part in parts]
    assert figures.entropy == pytest.approx([-sum(q * np.log2(q) for q in row if q > 0) for row in p])
    assert figures.distance == pytest.approx([0.5 * np.abs(row - overall).sum() for row in p])
    pairs = [0.5 * np.abs(a - b).sum() for a, b in itertools.combinations(p, 2)]
    assert figures.pairwise == pytest.approx(np.mean(pairs))


def test_heterogeneity_falls_as_alpha_grows() -> None:
    labels = np.repeat(np.arange(10), 200)
    figures = [data.describe(data.dirichlet(labels, 20, a, seed=0), labels) for a in (0.05, 0.5, 5.0, 500.0)]
    assert [f.pairwise for f in figures] == sorted((f.pairwise for f in figures), reverse=True)
    assert [f.entropy.mean() for f in figures] == sorted(f.entropy.mean() for f in figures)


def test_an_empty_client_has_no_distance() -> None:
    figures = data.describe([[0, 1], []], [0, 1])
    assert np.isnan(figures.distance[1])
    assert figures.summary()["distance"]["greatest"] == 0.0
    assert figures.pairwise == 0.0


def test_describe_refuses_what_is_no_cover() -> None:
    with pytest.raises(data.PartitionError, match="sample 1 belongs to none"):
        data.describe([[0]], [0, 1])


def bubbles(figure: object) -> PathCollection:
    (scatter,) = [c for c in figure.axes[0].collections if isinstance(c, PathCollection)]  # type: ignore[attr-defined]
    return scatter


def test_bubble_area_is_the_number_of_samples() -> None:
    labels = np.repeat([0, 1, 2], [10, 20, 70])
    parts = data.dirichlet(labels, clients=5, alpha=0.5, seed=0)
    counts = data.describe(parts, labels).counts
    scatter = bubbles(data.bubble_figure(parts, labels))
    where = np.asarray(scatter.get_offsets()).astype(int)
    samples = counts[where[:, 0], where[:, 1]]
    assert samples.sum() == 100
    areas = np.asarray(scatter.get_sizes())
    assert areas / areas.max() == pytest.approx(samples / samples.max())


def test_a_crowd_is_thinned_and_the_caption_says_so() -> None:
    labels = np.random.default_rng(0).integers(0, 62, 4000)
    figure = data.bubble_figure(data.iid(labels, clients=1000), labels, max_clients=50)
    clients = set(np.asarray(bubbles(figure).get_offsets())[:, 0].astype(int).tolist())
    assert len(clients) == 50
    assert "50 of 1000 clients drawn" in figure.get_supxlabel()


def test_the_picture_is_a_png_and_names_the_classes() -> None:
    labels = np.array([0, 0, 1, 1])
    figure = data.bubble_figure([[0, 2], [1, 3]], labels, title="pair", class_names=("cat", "dog"), client_names="ab")
    assert [t.get_text() for t in figure.axes[0].get_xticklabels()] == ["a", "b"]
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == ["cat", "dog"]
    target = io.BytesIO()
    figure.savefig(target, format="png")
    assert target.getvalue().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="one name for each of 2 classes, got 1"):
        data.bubble_figure([[0, 2], [1, 3]], labels, class_names=("cat",))


def test_drawing_leaves_no_global_state() -> None:
    before = pyplot.get_fignums()
    data.bubble_figure([[0], [1]], [0, 1])
    assert pyplot.get_fignums() == before


def test_map_file_round_trip(tmp_path: Path) -> None:
    labels = np.repeat(np.arange(5), 30)
    parts = data.exdir(labels, clients=12, classes=2, alpha=1.0, seed=4)
    back = data.from_map(data.to_map(parts, tmp_path / "map.json"), labels)
    assert all(np.array_equal(a, b) for a, b in zip(parts, back, strict=True))


def test_a_map_file_keeps_the_order_of_a_clients_samples(tmp_path: Path) -> None:
    parts = [[4, 0, 2], [3], [5, 1]]
    back = data.from_map(data.to_map(parts, tmp_path / "map.json"), samples=6)
    assert [part.tolist() for part in back] == parts
    again = data.to_map(back, tmp_path / "again.json")
    assert again.read_bytes() == (tmp_path / "map.json").read_bytes()


def test_clients_with_names_keep_the_order_of_the_file() -> None:
    assert [p.tolist() for p in data.from_map({"zurich": [1], "basel": [0]}, samples=2)] == [[1], [0]]
    assert [p.tolist() for p in data.from_map({"10": [1], "9": [0]}, samples=2)] == [[0], [1]]
