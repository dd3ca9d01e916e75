"""Data that stay in their files: problems read what they need of them, and give the numbers of arrays in memory."""

from __future__ import annotations

import numpy as np
import pytest

import undrift as ud
from everyday import only
from undrift.problems import network_disk, streamed

CLIENTS, SAMPLES, DIM = 9, 4, 5
ARGUMENTS = {"rounds": 7, "steps": 2, "record_every": 3, "participation": ud.plan.uniform(3)}


@pytest.fixture
def linear():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(CLIENTS, SAMPLES, DIM))
    return A, np.where(A[:, :, 0] + rng.normal(size=(CLIENTS, SAMPLES)) > 0, 1.0, -1.0)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(streamed, "BLOCK_BYTES", 700)
    monkeypatch.setattr(network_disk, "BLOCK_BYTES", 300)


def on_disk(folder, array, within_npz=True):
    if within_npz:  # at a place that is not aligned
        np.savez(folder / "data.npz", before=np.zeros(3, np.int8), A=array)
        return ud.data.mapped(folder / "data.npz")["A"]
    np.save(folder / "data.npy", array)
    return ud.data.mapped(folder / "data.npy")


# Each kind with one method every day.
@pytest.mark.parametrize("name", only(["scaffold", "fedlin"], {"scaffold"}))
@pytest.mark.parametrize("kind", only(["least_squares", "logistic", "custom"], {"logistic"}))
def test_runs_on_mapped_data_are_those_on_arrays(kind, name, linear, tmp_path):
    A, y = linear
    make = {
        "least_squares": lambda A: ud.problems.least_squares(A, y, weights=np.arange(1, CLIENTS + 1)),
        "logistic": lambda A: ud.problems.logistic(A, y, l2=0.1),
        "custom": lambda A: ud.problems.custom(lambda x, a: ((a @ x - 1) ** 2).sum(), A, DIM),
    }[kind]
    loaded, mapped = make(A), make(on_disk(tmp_path, A, kind != "custom"))
    assert (loaded.is_on_disk, mapped.is_on_disk) == (False, True)
    assert loaded.value(np.ones(DIM)) == pytest.approx(mapped.value(np.ones(DIM)), rel=1e-13)
    one, other = (ud.run(ud.METHODS[name](eta=0.01), p, **ARGUMENTS) for p in (loaded, mapped))
    np.testing.assert_allclose(other.x, one.x, rtol=1e-12)
    for column in other.history:
        np.testing.assert_allclose(other.history[column], one.history[column], rtol=1e-11, atol=1e-13, err_msg=column)


@pytest.mark.parametrize("sample", only([10, None], {10}))
def test_networks_read_the_samples_of_those_that_take_part(sample, tmp_path):
    rng = np.random.default_rng(0)
    pixels, labels = rng.integers(0, 256, (80, 6)).astype(np.uint8), rng.integers(0, 3, 80)
    parts = [rng.choice(80, size, replace=False) for size in (3, 9, 5, 4, 8, 6)]

    def make(inputs):
        model = ud.models.mlp((4,), classes=3, input=(6,))
        return ud.problems.network(model, (inputs, labels), parts, test=(pixels, labels), batch=2, train_sample=sample)

    loaded, mapped = make(pixels), make(on_disk(tmp_path, pixels, within_npz=False))
    one, other = (ud.run(ud.scaffold(eta=1e-4), p, **ARGUMENTS, per_client=True) for p in (loaded, mapped))
    np.testing.assert_allclose(other.x, one.x, rtol=1e-5, atol=1e-6)
    for name in one.history:
        np.testing.assert_allclose(other.history[name], one.history[name], rtol=1e-4, err_msg=name)
    for name in one.clients:
        np.testing.assert_allclose(other.clients[name], one.clients[name], rtol=1e-4, err_msg=name)
    assert loaded.only(2).value(one.x) == pytest.approx(mapped.only(2).value(one.x), rel=1e-5)


def test_what_is_wrong_is_found_and_named(linear, tmp_path):
    A, y = linear
    broken = A.copy()
    broken[6, 2, 1] = np.nan
    with pytest.raises(ud.InputError, match=r"A must be finite, but its entry \[6, 2, 1\]"):
        ud.problems.logistic(on_disk(tmp_path, broken), y)
    with pytest.raises(ud.InputError, match="memory-mapped with numbers of int64"):
        ud.problems.least_squares(on_disk(tmp_path, A.astype(np.int64)), y)
    with pytest.raises(ud.InputError, match="a sweep brings all data to memory"):
        ud.sweep(ud.fedavg, ud.problems.logistic(on_disk(tmp_path, A), y), grid={"eta": [0.1]}, rounds=1)


def test_files_that_cannot_be_mapped(tmp_path):
    np.savez_compressed(tmp_path / "packed.npz", A=np.zeros(4))
    with pytest.raises(ud.data.DataError, match=r"np\.savez, not np\.savez_compressed"):
        ud.data.mapped(tmp_path / "packed.npz")
    np.save(tmp_path / "cut.npy", np.zeros(40))
    (tmp_path / "cut.npy").write_bytes((tmp_path / "cut.npy").read_bytes()[:-8])
    with pytest.raises(ud.data.DataError, match="declares an array of 320 bytes and holds 312"):
        ud.data.mapped(tmp_path / "cut.npy")
    with pytest.raises(ud.data.DataError, match=r"an \.npy or an \.npz file"):
        ud.data.mapped(tmp_path / "data.csv")
