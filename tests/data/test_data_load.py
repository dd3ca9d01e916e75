"""Loading: the embedded set, and files of every published format in the user's directory."""

from __future__ import annotations

import io
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest
from data_helpers import idx_bytes, leaf_json, small_images

from undrift import data


def test_digits_need_nothing() -> None:
    d, again = data.load("digits"), data.load()
    assert (d.name, d.classes, d.train.group) == ("digits", 10, None)
    assert d.train.x.shape == (1438, 8, 8, 1)
    assert d.test.x.shape == (359, 8, 8, 1)
    assert d.train.x.dtype == np.float32
    assert d.train.y.dtype == np.int32
    assert (d.train.x.min(), d.train.x.max()) == (0.0, 1.0)
    assert np.array_equal(d.test.x, again.test.x)
    # Stratified: every class has a fifth of its samples in the test split.
    share = np.bincount(d.test.y) / (np.bincount(d.test.y) + np.bincount(d.train.y))
    assert share == pytest.approx(0.2, abs=0.003)
    assert data.verify("digits").genuine is True


def write_npz(folder: Path, images: dict[str, np.ndarray], name: str = "mnist") -> None:
    np.savez(folder / f"{name}.npz", **images)


def test_npz(tmp_path: Path, images: dict[str, np.ndarray]) -> None:
    write_npz(tmp_path, images)
    d = data.load("mnist", data_dir=tmp_path)
    assert d.train.x.shape == (12, 28, 28, 1)
    assert d.train.x.dtype == np.float32
    assert np.array_equal(d.train.x[..., 0], images["x_train"].astype(np.float32) / np.float32(255))
    assert np.array_equal(d.train.y, images["y_train"])
    raw = data.load("mnist", data_dir=tmp_path, raw=True)
    assert raw.train.x.dtype == np.uint8
    assert np.array_equal(raw.test.x[..., 0], images["x_test"])
    report = data.verify("mnist", data_dir=tmp_path)
    assert report.genuine is False  # well formed, but not the published digits
    assert (report.train, report.test, report.origin.where) == (12, 5, "directory")


def test_environment_names_the_directory(
    tmp_path: Path, images: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_npz(tmp_path, images, "fmnist")
    monkeypatch.setenv("UNDRIFT_DATA", str(tmp_path))
    assert data.load("fmnist").class_names[9] == "ankle boot"
    assert data.status("fmnist").path == tmp_path / "fmnist.npz"


@pytest.mark.parametrize("folder", ["mnist", "MNIST/raw"])
@pytest.mark.parametrize("packed", [True, False])
def test_idx_files(
    tmp_path: Path, idx_files: dict[str, bytes], images: dict[str, np.ndarray], folder: str, packed: bool
) -> None:
    (tmp_path / folder).mkdir(parents=True)
    for (name, content), array in zip(idx_files.items(), images.values(), strict=True):
        target = tmp_path / folder / (name if packed else name.removesuffix(".gz"))
        target.write_bytes(content if packed else idx_bytes(array))
    d = data.load("mnist", data_dir=tmp_path, raw=True)
    assert np.array_equal(d.train.x[..., 0], images["x_train"])
    assert np.array_equal(d.test.y, images["y_test"])


def cifar_batches(samples: int = 4) -> dict[str, bytes]:
    rng = np.random.default_rng(0)
    return {
        name: pickle.dumps(
            {b"data": rng.integers(0, 256, (samples, 3072), dtype=np.uint8), b"labels": list(range(samples))},
            protocol=2,
        )
        for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
    }


def write_tar(path: Path, batches: dict[str, bytes]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in batches.items():
            info = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def test_cifar_archive_and_folder(tmp_path: Path) -> None:
    batches = cifar_batches()
    (tmp_path / "a").mkdir()
    write_tar(tmp_path / "a" / "cifar-10-python.tar.gz", batches)
    folder = tmp_path / "b" / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    for name, content in batches.items():
        (folder / name).write_bytes(content)
    one, two = (data.load("cifar10", data_dir=tmp_path / x, raw=True) for x in "ab")
    assert one.train.x.shape == (20, 32, 32, 3)
    assert np.array_equal(one.train.x, two.train.x)
    # Channel 1 of pixel (0, 5) of the first image is value 1024 + 5 of its row.
    first = pickle.loads(batches["data_batch_1"])[b"data"][0]
    assert one.train.x[0, 0, 5, 1] == first[1024 + 5]


def test_a_pickle_cannot_run_code(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for name in cifar_batches():
        (folder / name).write_bytes(pickle.dumps({b"data": print, b"labels": []}, protocol=2))
    with pytest.raises(data.DataError, match=r"refused to load __builtin__.print"):
        data.load("cifar10", data_dir=tmp_path)


def leaf_folder(root: Path, pixel: float = 1.0, label: int = 61) -> None:
    white = [1.0] * 783
    for part, first in (("train", "f0001_01"), ("test", "f0002_07")):
        (root / "femnist" / part).mkdir(parents=True)
        users = {first: ([[pixel, *white], [0.5, *white]], [label, 10]), "f0003_11": ([[0.0, *white]], [0])}
        (root / "femnist" / part / "all_data_0_niid_0_keep_0.json").write_text(leaf_json(users))
        (root / "femnist" / part / "all_data_1_niid_0_keep_0.json").write_text(
            leaf_json({"f0001_01": ([[*white, 0.0]], [3])})
        )


def test_leaf(tmp_path: Path) -> None:
    leaf_folder(tmp_path)
    d = data.load("femnist", data_dir=tmp_path)
    assert d.classes == 62
    assert d.train.x.shape == (4, 28, 28, 1)
    assert d.group_names == ("f0001_01", "f0002_07", "f0003_11")
    assert d.train.group is not None
    assert d.train.group.tolist() == [0, 0, 2, 0]
    assert d.test.group is not None
    assert d.test.group.tolist() == [1, 1, 2, 0]
    assert d.class_names[d.train.y[0]] == "z"
    assert [len(p) for p in data.by_group(d.train.group)] == [3, 1]
    raw = data.load("femnist", data_dir=tmp_path, raw=True)
    assert raw.train.x.dtype == np.uint8
    assert raw.train.x[1, 0, 0, 0] == 128
    assert data.verify("femnist", data_dir=tmp_path).genuine is None


def qmnist_labels(digits: np.ndarray, writers: np.ndarray) -> np.ndarray:
    table = np.zeros((len(digits), 8), dtype=np.int32)
    table[:, 0], table[:, 2] = digits, writers
    return table


def test_writers_from_npz_and_from_qmnist(tmp_path: Path, images: dict[str, np.ndarray]) -> None:
    write_npz(tmp_path, images)
    writers = np.arange(12, dtype=np.int16) // 3 + 100, np.array([7, 7, 8, 8, 9], dtype=np.int16)
    (tmp_path / "qmnist").mkdir()
    for part, digits, column in zip(("train", "test"), (images["y_train"], images["y_test"]), writers, strict=True):
        path = tmp_path / "qmnist" / f"qmnist-{part}-labels-idx2-int.gz"
        path.write_bytes(idx_bytes(qmnist_labels(digits, column)))
    from_qmnist = data.load("mnist-writers", data_dir=tmp_path)
    np.savez(tmp_path / "mnist_writers.npz", writer_train=writers[0], writer_test=writers[1])
    from_npz = data.load("mnist-writers", data_dir=tmp_path)
    for d in (from_qmnist, from_npz):
        assert d.train.group is not None
        assert d.train.group.tolist() == writers[0].tolist()
        assert np.array_equal(d.train.y, images["y_train"])
    (tmp_path / "mnist_writers.npz").unlink()
    write_npz(tmp_path, small_images() | {"y_train": np.zeros(12, np.uint8)})
    with pytest.raises(data.DataError, match="digits of MNIST in the same order, but they differ"):
        data.load("mnist-writers", data_dir=tmp_path)


def heart_table(patients: int = 80) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(50.0, 9.0, (patients, 13)).round(1).astype(np.float32)
    x[rng.random(x.shape) < 0.2] = np.nan
    return {"x": x, "y": (np.arange(patients) % 5).astype(np.uint8), "center": np.sort(np.arange(patients) % 4)}


def test_heart_is_filled_and_scaled_with_training_statistics(tmp_path: Path) -> None:
    np.savez(tmp_path / "heart_disease.npz", **heart_table())
    d = data.load("heart", data_dir=tmp_path)
    assert (d.classes, d.group_names) == (2, ("cleveland", "hungarian", "switzerland", "va"))
    assert d.train.x.dtype == np.float32
    assert np.isfinite(d.train.x).all()
    assert np.isfinite(d.test.x).all()
    assert d.train.x.mean(axis=0) == pytest.approx(np.zeros(13), abs=1e-5)
    assert d.train.x.std(axis=0) == pytest.approx(np.ones(13), abs=1e-5)
    assert set(d.train.y.tolist()) == {0, 1}
    raw = data.load("heart", data_dir=tmp_path, raw=True)
    filled = data.load("heart", data_dir=tmp_path, standardise=False)
    mean = np.nanmean(raw.train.x.astype(float), axis=0)
    assert filled.test.x == pytest.approx(np.where(np.isnan(raw.test.x), mean, raw.test.x), rel=1e-6)
    kept = data.load("heart", data_dir=tmp_path, impute=None)
    assert np.array_equal(np.isnan(kept.test.x), np.isnan(raw.test.x))


def test_heart_as_published_equals_npz(tmp_path: Path) -> None:
    table = heart_table()
    np.savez(tmp_path / "heart_disease.npz", **table)
    one = data.load("heart", data_dir=tmp_path, raw=True)
    (tmp_path / "heart_disease.npz").unlink()
    (tmp_path / "heart").mkdir()
    for h, hospital in enumerate(("cleveland", "hungarian", "switzerland", "va")):
        rows = np.flatnonzero(table["center"] == h)
        lines = [",".join([*("?" if np.isnan(v) else str(v) for v in table["x"][r]), str(table["y"][r])]) for r in rows]
        (tmp_path / "heart" / f"processed.{hospital}.data").write_text("\n".join(lines) + "\n")
    two = data.load("heart", data_dir=tmp_path, raw=True)
    assert np.array_equal(one.train.x, two.train.x, equal_nan=True)
    assert np.array_equal(one.test.y, two.test.y)
    assert one.train.group is not None
    assert two.train.group is not None
    assert np.array_equal(one.train.group, two.train.group)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x_train": np.zeros((12, 27, 28), np.uint8)}, r"shape \(28, 28, 1\), got \(27, 28, 1\): reshape or replace"),
        ({"y_train": np.zeros(11, np.uint8)}, "every sample needs one label .* got 12 samples"),
        ({"y_train": np.full(12, 10, np.uint8)}, r"lie in 0..9, but sample 0 has label 10 .12 such samples."),
        ({"y_train": np.zeros(12)}, r"must be integers, got \['float64'\]"),
        ({"x_train": np.zeros((12, 28, 28), np.int32)}, "uint8 or floating point, got int32"),
        ({"x_train": np.full((12, 28, 28), 200.0)}, r"lie in \[0, 1\], got 200 to 200: divide by 255"),
    ],
)
def test_malformed_npz(
    tmp_path: Path, images: dict[str, np.ndarray], change: dict[str, np.ndarray], message: str
) -> None:
    write_npz(tmp_path, images | change)
    for call in (data.load, data.verify):
        with pytest.raises(data.DataError, match=f"mnist, training split: .*{message}"):
            call("mnist", data_dir=tmp_path)


def test_nan_pixels(tmp_path: Path, images: dict[str, np.ndarray]) -> None:
    x = images["x_test"] / 255.0
    x[2, 3, 4] = np.nan
    write_npz(tmp_path, images | {"x_test": x})
    with pytest.raises(data.DataError, match=r"test split: pixels must be numbers, but sample 2 holds NaN .1 such"):
        data.load("mnist", data_dir=tmp_path)
    leaf_folder(tmp_path, pixel=float("nan"))
    with pytest.raises(data.DataError, match="femnist, training split: pixels must be numbers, but sample 0 holds NaN"):
        data.load("femnist", data_dir=tmp_path)


def test_labels_outside_in_leaf_and_heart(tmp_path: Path) -> None:
    leaf_folder(tmp_path, label=62)
    with pytest.raises(data.DataError, match=r"labels must lie in 0..61, but sample 0 has label 62"):
        data.load("femnist", data_dir=tmp_path)
    np.savez(tmp_path / "heart_disease.npz", **heart_table() | {"center": np.full(80, 4)})
    with pytest.raises(data.DataError, match=r"a hospital must be a whole number in 0..3, but patient 0 has 4"):
        data.load("heart", data_dir=tmp_path)
    np.savez(tmp_path / "heart_disease.npz", **heart_table() | {"y": np.full(80, 7)})
    with pytest.raises(data.DataError, match=r"a diagnosis must be a whole number in 0..4, but patient 0 has 7"):
        data.load("heart", data_dir=tmp_path)


def test_damaged_files_are_named(tmp_path: Path, idx_files: dict[str, bytes]) -> None:
    (tmp_path / "mnist").mkdir()
    for name, content in idx_files.items():
        (tmp_path / "mnist" / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(data.DataError, match=r"train-images-idx3-ubyte.gz must be an IDX file, but reading it failed"):
        data.load("mnist", data_dir=tmp_path)
    (tmp_path / "mnist.npz").write_bytes(b"not a zip file")
    with pytest.raises(data.DataError, match=r"mnist.npz must be an npz file, but reading it failed"):
        data.load("mnist", data_dir=tmp_path)
    np.savez(tmp_path / "mnist.npz", x_train=np.zeros(3))
    with pytest.raises(data.DataError, match="it lacks y_train, x_test, y_test and has x_train: rename or add"):
        data.load("mnist", data_dir=tmp_path)
    (tmp_path / "cifar-10-python.tar.gz").write_bytes(b"\x1f\x8b broken")
    with pytest.raises(data.DataError, match="must be CIFAR-10 for Python"):
        data.load("cifar10", data_dir=tmp_path)


def test_incomplete_folder(tmp_path: Path, idx_files: dict[str, bytes]) -> None:
    (tmp_path / "mnist").mkdir()
    name, content = next(iter(idx_files.items()))
    (tmp_path / "mnist" / name).write_bytes(content)
    with pytest.raises(FileNotFoundError, match=r"must hold train-labels-idx1-ubyte.gz, packed or unpacked"):
        data.load("mnist", data_dir=tmp_path)


def test_nothing_found_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"femnist was not found: .* has none of femnist, .*LEAF publishes.*preprocess.sh"
    ):
        data.load("femnist", data_dir=tmp_path)
    with pytest.raises(FileNotFoundError, match=r"UNDRIFT_DATA is not set.*switched off. To obtain it: put mnist.npz"):
        data.load("mnist", download=False)
    with pytest.raises(FileNotFoundError, match=r"data directory must exist, but .*nowhere does not: create it"):
        data.load("mnist", data_dir=tmp_path / "nowhere")


def test_status_of_every_entry(tmp_path: Path, images: dict[str, np.ndarray]) -> None:
    write_npz(tmp_path, images)
    found = {e.name: data.status(e.name, data_dir=tmp_path) for e in data.catalogue()}
    assert {name for name, s in found.items() if s.where != "absent"} == {"digits", "diabetes", "heart", "mnist"}
    assert "fetch it, or put" in found["fmnist"].advice
    assert "preprocess.sh" in found["femnist"].advice
    assert all(s.advice for s in found.values() if s.where == "absent")


@pytest.mark.parametrize("name", ["mnist", "fmnist", "cifar10", "mnist-writers", "heart"])
def test_real_copies_are_genuine(real_data: Path, name: str) -> None:
    if data.status(name, data_dir=real_data).where == "absent":
        pytest.skip(f"the directory that UNDRIFT_DATA names has no {name}")
    report = data.verify(name, data_dir=real_data)
    assert report.genuine is True
    assert (report.train, report.test) == data.entry(name).sizes


def test_real_writers_are_a_partition(real_data: Path) -> None:
    if data.status("mnist-writers", data_dir=real_data).where == "absent":
        pytest.skip("the directory that UNDRIFT_DATA names has no mnist-writers")
    d = data.load("mnist-writers", data_dir=real_data, raw=True)
    assert d.train.group is not None
    parts = data.by_group(d.train.group)
    data.check_cover(parts, 60_000)
    assert len(parts) == 539
