"""EF21 against its theorem, and the recursion that the adviser plays."""

from __future__ import annotations

import numpy as np
import pytest

import undrift as ud
from everyday import only
from undrift.theory import ef21

ROUNDS = 120


def hostile(seed: int, clients: int = 5, dim: int = 6):
    """Ill-conditioned clients whose minimisers are far apart; weights of their own."""
    rng = np.random.default_rng(seed)
    bases = np.linalg.qr(rng.standard_normal((clients, dim, dim)))[0]
    spectra = 10 ** rng.uniform(-rng.uniform(0.3, 2), 0, (clients, dim))
    H = np.einsum("mij,mj,mkj->mik", bases, spectra, bases)
    b = 10 ** rng.uniform(-1, 2) * rng.standard_normal((clients, dim))
    return ud.problems.quadratic(H, b, weights=rng.uniform(0.2, 2, clients))


@pytest.mark.parametrize("k", only([1, 2, 5], {2}))
def test_no_run_is_above_the_promise(k):
    for seed in range(12):
        p = hostile(seed)
        bound = ef21.pl(ud.theory.constants(p), delta=6 / k)
        run = ud.run(ud.ef21(up=ud.top_k(k), **bound.numbers), p, rounds=ROUNDS)
        verdict = ud.theory.check(run, bound)
        assert verdict.holds, (seed, verdict)
        assert run.history["gap"][-1] < run.history["gap"][0]


def test_the_theorem_is_chosen_by_name_and_its_step_is_its_own():
    p = hostile(3)
    run = ud.run(ud.ef21(eta="theorem", up=ud.top_k(2)), p, rounds=2)
    assert "EF21" in run.setting["theorem"]
    c = ud.theory.constants(p)
    assert f"{ef21.step_size(float(c.L), float(c.pl), 3.0):g}" in run.setting["method"]


def test_without_compression_it_is_gradient_descent():
    assert ef21.decay(1.0) == (1.0, 0.0)
    p = hostile(4)
    whole = ud.run(ud.ef21(eta=0.3, up=ud.top_k(6)), p, rounds=20)
    np.testing.assert_allclose(whole.x, ud.run(ud.fedsgd(eta=0.3), p, rounds=20).x, rtol=1e-10)


def test_with_everyone_it_is_fedsgd_with_differences():
    p = hostile(5)
    link = ud.random_k(2, memory="difference")
    around = ud.compressed(ud.fedsgd(eta=0.1), up=ud.top_k(2, memory="difference"))
    own = ud.ef21(eta=0.1, up=ud.top_k(2))
    one, other = (ud.run(m, p, rounds=30) for m in (own, around))
    np.testing.assert_allclose(one.x, other.x, rtol=1e-9)
    np.testing.assert_array_equal(one.history["bytes_up"], other.history["bytes_up"])
    assert ef21.decay(link.contraction(6))[0] == ef21.decay(3.0)[0]


def test_a_compressor_that_is_no_contraction_is_refused_by_the_theorem():
    with pytest.raises(ud.InputError, match="contraction"):
        ef21.decay(float("inf"))
    with pytest.raises(ud.InputError, match="up must be a compressor"):
        ud.ef21(eta=0.1, up=None)
    with pytest.raises(ud.InputError, match="'up'"):
        ud.ef21(eta=0.1)
