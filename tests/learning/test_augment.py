"""Mini-batches of images that are moved and mirrored."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import undrift as ud

IMAGES = np.random.default_rng(0).uniform(1, 2, (64, 5, 6, 2)).astype(np.float32)


def seen(image: np.ndarray, dy: int, dx: int, mirrored: bool, fill: Any) -> np.ndarray:
    """The image moved by (dy, dx), written out pixel by pixel."""
    height, width, _ = image.shape
    moved = np.empty_like(image)
    for y in range(height):
        for x in range(width):
            inside = 0 <= y + dy < height and 0 <= x + dx < width
            moved[y, x] = image[y + dy, x + dx] if inside else fill
    return moved[:, ::-1] if mirrored else moved


@pytest.mark.parametrize("mirror", [False, True])
def test_every_image_is_moved_and_mirrored_in_a_way_of_its_own(mirror: bool) -> None:
    fill = (-1.0, -2.0)
    out = np.asarray(ud.problems.Augment(1, mirror, fill)(jax.random.key(3), IMAGES))
    ways = [(dy, dx, m) for dy in (-1, 0, 1) for dx in (-1, 0, 1) for m in ((False, True) if mirror else (False,))]
    found = []
    for image, result in zip(IMAGES, out, strict=True):
        (way,) = (way for way in ways if np.array_equal(result, seen(image, *way, fill)))
        found.append(way)
    assert set(found) == set(ways) if not mirror else len(set(found)) > 12  # 64 images, 9 or 18 ways
    assert np.array_equal(out, ud.problems.Augment(1, mirror, fill)(jax.random.key(3), IMAGES))


def problem(augment: ud.problems.Augment | None, cut: int | None = None) -> Any:
    digits = ud.data.load("digits")
    parts = np.split(np.arange(250), 5)  # of one size: message passing compiles for every size
    model = ud.models.softmax_regression(input=(8, 8, 1))
    return ud.problems.network(model, digits.train, parts, batch=10, cut=cut, augment=augment)


INDEPENDENT = ud.oracles.minibatch(10, replace=True)  # compiles faster than a walk through shuffled data


def test_only_mini_batches_vary() -> None:
    plain, varied = problem(None), problem(ud.problems.Augment(2))
    x = plain.initial(0)
    np.testing.assert_allclose(plain.gradient(x), varied.gradient(x), rtol=0, atol=1e-6)
    ran = [ud.run(ud.fedavg(eta=0.1), p, rounds=2, steps=3, oracle=INDEPENDENT) for p in (plain, varied, varied)]
    assert np.abs(ran[0].x - ran[1].x).max() > 1e-4
    assert np.array_equal(ran[1].x, ran[2].x)
    full = [ud.run(ud.fedavg(eta=0.1), p, rounds=1, steps=2, oracle=ud.oracles.full()).x for p in (plain, varied)]
    np.testing.assert_allclose(*full, rtol=0, atol=1e-6)


def test_nothing_moved_is_nothing_changed() -> None:
    still = ud.problems.Augment(shift=0, mirror=False)
    ran = [
        ud.run(ud.fedavg(eta=0.1), problem(augment), rounds=2, steps=3, oracle=INDEPENDENT).x
        for augment in (None, still)
    ]
    np.testing.assert_allclose(*ran, rtol=0, atol=1e-6)


@pytest.mark.slow
def test_split_learning_and_message_passing_see_the_same_images() -> None:
    augment = ud.problems.Augment(2)
    arguments: dict[str, Any] = {"rounds": 2, "steps": 3, "participation": ud.plan.uniform(3)}
    whole = ud.run(ud.sequential_fl(eta=0.2), problem(augment), **arguments)
    halves = ud.run(ud.ssl(eta=0.2), problem(augment, cut=1), **arguments)
    sent = ud.loopback(ud.sequential_fl(eta=0.2), problem(augment), **arguments)
    np.testing.assert_allclose(whole.x, halves.x, atol=1e-6)
    np.testing.assert_allclose(whole.x, sent.x, atol=1e-6)


@pytest.mark.slow
def test_the_centralised_baseline_varies_its_images_too() -> None:
    plain, varied = (
        ud.run(ud.sgd(eta=0.1), problem(augment), rounds=3, oracle=ud.oracles.minibatch(5)).x
        for augment in (None, ud.problems.Augment(2))
    )
    assert np.abs(plain - varied).max() > 1e-4


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ud.problems.Augment(shift=-1), "whole number of pixels ≥ 0"),
        (lambda: ud.problems.Augment(shift=0.5), "whole number of pixels ≥ 0"),  # type: ignore[arg-type]
        (lambda: problem(ud.problems.Augment(fill=(0.0, 1.0, 2.0))), "one per channel"),
        (
            lambda: ud.problems.network(
                ud.models.softmax_regression(input=(3,)),
                (np.zeros((4, 3), np.float32), np.arange(4)),
                [np.arange(4)],
                augment=ud.problems.Augment(),
            ),
            "only images",
        ),
    ],
)
def test_bad_input(make: Any, message: str) -> None:
    with pytest.raises(ud.InputError, match=message):
        make()
