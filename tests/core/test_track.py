"""Trackers: real packages write to disk, and what they wrote is read back."""

from __future__ import annotations

import struct
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import undrift as ud
from undrift.engine import simulate
from undrift.track.tracker import recall

METHOD = ud.fedlin(eta=0.3)
LONG = {"rounds": 40, "steps": 2}


def problem():
    return ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))


@pytest.fixture(scope="module")
def whole():
    return ud.run(METHOD, problem(), **LONG)


@pytest.fixture
def small_chunks(monkeypatch):
    """After the first chunk, one round at a time."""
    monkeypatch.setattr(simulate, "CHUNK_SECONDS", 0.0)


class Written(ud.track.Tracker):
    """A tracker that keeps everything in memory."""

    kind, word = "written", "written"

    def __init__(self, fails: str = "", kept: dict | None = None) -> None:
        super().__init__()
        self.fails, self.rows, self.kept, self.calls = fails, [], {} if kept is None else kept, []

    def _do(self, what: str) -> None:
        self.calls.append(what)
        if self.fails == what:
            raise OSError(28, "No space left on device")

    def open(self, name, setting, first):
        self._do("open")
        self.begun = name, dict(setting), first

    def log(self, rows):
        self._do("log")
        self.rows += rows

    def close(self, status, final):
        self._do("close")
        self.ended = status, dict(final)


def complete(rows, whole) -> None:
    """Every round once, every finite value of it."""
    assert [t for t, _ in rows] == list(range(whole.rounds + 1))
    for t, values in rows:
        expected = {name: float(column[t]) for name, column in whole.history.items() if np.isfinite(column[t])}
        assert values == expected


# ----- what all of them do
def test_a_tracker_is_handed_every_round_once_the_setting_and_the_end(small_chunks):
    for play in (ud.run, ud.loopback):
        tracker = Written()
        complete_run = play(METHOD, problem(), observe=tracker, **LONG)
        complete(tracker.rows, complete_run)
        name, setting, first = tracker.begun
        assert (name, first) == ("fedlin", 0)
        assert setting["eta"] == 0.3
        assert setting["rounds"] == 40
        assert tracker.ended == ("finished", tracker.rows[-1][1])


def test_rounds_that_were_not_evaluated_have_costs_alone():
    tracker = Written()
    ud.run(METHOD, problem(), observe=tracker, record_every=8, **LONG)
    assert [t for t, values in tracker.rows if "loss" in values] == list(range(0, 41, 8))
    assert "bytes_up" in tracker.rows[1][1]


def test_several_observers_are_all_asked(whole, small_chunks):
    tracker, heard = Written(), []

    def stops(history):
        heard.append(history.length)
        return history.length >= 4

    r = ud.run(METHOD, problem(), observe=[tracker, stops, lambda h: heard.append(h.length)], **LONG)
    assert r.rounds == 3
    assert r.stopped.startswith("the observer asked for it")
    assert heard == sorted(heard * 1)
    assert [t for t, _ in tracker.rows] == [0, 1, 2, 3]


def test_divergence_and_interruption_are_ends(small_chunks):
    steep = ud.problems.quadratic(np.full((2, 1, 1), 1e30), np.ones((2, 1)))
    tracker = Written()
    with pytest.raises(ud.DivergenceError):
        ud.run(ud.fedsgd(eta=1.0), steep, rounds=30, x0=[1.0], observe=tracker)
    assert tracker.ended[0] == "diverged"

    def strike(history):
        raise KeyboardInterrupt

    tracker = Written()
    with pytest.raises(ud.Interrupted):
        ud.run(METHOD, problem(), observe=[tracker, strike], **LONG)
    assert tracker.ended[0] == "interrupted"
    assert len(tracker.rows) >= 2


@pytest.mark.parametrize("fails", ["open", "log", "close"])
def test_a_tracker_that_fails_is_heard_of_once_and_the_run_goes_on(fails, whole, small_chunks):
    tracker = Written(fails)
    with pytest.warns(RuntimeWarning, match="No space left on device.*the run goes on") as told:
        r = ud.run(METHOD, problem(), observe=tracker, **LONG)
    assert len(told) == 1
    assert tracker.calls.count(fails) == 1
    np.testing.assert_array_equal(r.x, whole.x)
    np.testing.assert_array_equal(r.history["loss"], whole.history["loss"])


def test_a_resumed_run_is_tracked_where_it_was_left(whole, tmp_path, small_chunks):
    given = {"checkpoint": tmp_path, "resume": True, **LONG}
    early, late = Written(), Written()
    ud.run(METHOD, problem(), observe=[early, lambda h: h.length >= 4], **given)
    ud.run(METHOD, problem(), observe=late, **given)
    complete([*early.rows, *late.rows], whole)
    assert late.id == early.id
    assert late.begun[2] == 4


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"word": "", "id": "../../x", "next": 3}', '{"next": -1}', "9" * 200_000]
)
def test_what_is_remembered_is_checked(text, tmp_path):
    (tmp_path / "tracked-x.json").write_text(text)
    assert recall(tmp_path / "tracked-x.json") is None
    assert ud.track.remembered(tmp_path) == []


@pytest.mark.parametrize(
    ("word", "text"),
    [("tensorbord", "did you mean 'tensorboard'"), ("tensorboard:", "follows the colon"), ("", "unknown tracker ''")],
)
def test_words_that_name_no_tracker(word, text):
    with pytest.raises(ud.InputError, match=text):
        ud.track.tracker_from(word, ["run"])


def test_a_package_that_is_not_there_is_named_with_what_to_do(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for make in (lambda: ud.track.tensorboard("d"), ud.track.mlflow, ud.track.wandb, ud.track.trackio):
        with pytest.raises(ud.InputError, match=r"pip install 'undrift\[(tensorboard|mlflow|wandb|trackio)\]'"):
            make()


def test_what_cannot_be_called_observes_nothing():
    with pytest.raises(ud.InputError, match="list of such functions"):
        ud.run(METHOD, problem(), observe=[3], **LONG)


# ----- TensorBoard
def events(folder: Path):
    """All events below a directory, as TensorBoard would read them: length, check sum, content, check sum."""
    from tensorboardX.proto.event_pb2 import Event

    for path in sorted(folder.rglob("events*")):
        content, at = path.read_bytes(), 0
        while at < len(content):
            (size,) = struct.unpack("<Q", content[at : at + 8])
            yield Event.FromString(content[at + 12 : at + 12 + size])
            at += 16 + size


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    found: dict[str, list[tuple[int, float]]] = {}
    for event in events(folder):
        for value in event.summary.value:
            if value.HasField("simple_value"):
                found.setdefault(value.tag, []).append((event.step, value.simple_value))
    return found


def test_tensorboard(whole, tmp_path, small_chunks):
    given = {"checkpoint": tmp_path / "c", "resume": True, **LONG}
    early = [ud.track.tensorboard(tmp_path / "tb"), lambda h: h.length >= 4]
    ud.run(METHOD, problem(), observe=early, **given)
    ud.run(METHOD, problem(), observe=ud.track.tensorboard(tmp_path / "tb"), **given)
    found = scalars(tmp_path / "tb")
    assert set(found) == set(whole.history)
    assert [t for t, _ in found["gap"]] == list(range(41))
    np.testing.assert_allclose([value for _, value in found["gap"]], whole.history["gap"], rtol=1e-6)
    tags = {value.tag for event in events(tmp_path / "tb") for value in event.summary.value}
    assert "_hparams_/session_start_info" in tags
    assert "_hparams_/session_end_info" in tags
    purged = [event.step for event in events(tmp_path / "tb") if event.HasField("session_log")]
    assert 4 in purged  # what a killed process logged beyond its memory is dropped by readers


def test_tensorboard_without_a_place_to_write(whole, tmp_path):
    (tmp_path / "tb").write_text("a file")
    with pytest.warns(RuntimeWarning, match="tensorboard does not track this run any more"):
        r = ud.run(METHOD, problem(), observe=ud.track.tensorboard(tmp_path / "tb"), **LONG)
    np.testing.assert_array_equal(r.x, whole.x)


# ----- MLflow
def store(kind: str, folder: Path) -> str:
    return f"sqlite:///{folder / 'mlflow.db'}" if kind == "sqlite" else (folder / "mlruns").as_uri()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of SQLAlchemy, which MLflow calls as it was done before 2.1
@pytest.mark.parametrize("kind", ["files", pytest.param("sqlite", marks=pytest.mark.slow)])
def test_mlflow(kind, whole, tmp_path, small_chunks, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.chdir(tmp_path)
    uri, given = store(kind, tmp_path), {"checkpoint": tmp_path / "c", "resume": True, **LONG}
    early = [ud.track.mlflow(uri), lambda h: h.length >= 4]
    ud.run(METHOD, problem(), observe=early, **given)
    memory = next((tmp_path / "c").glob("tracked-mlflow-*.json"))
    memory.write_text(
        memory.read_text().replace('"next":4', '"next":2')
    )  # killed before it was written: the store knows better
    ud.run(METHOD, problem(), observe=ud.track.mlflow(uri), **given)
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    (run,) = client.search_runs([client.get_experiment_by_name("undrift").experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.params["eta"] == "0.3"
    assert run.data.params["method"].startswith("fedlin")
    for name in ("gap", "bytes_up"):
        measured = sorted((m.step, m.value) for m in client.get_metric_history(run.info.run_id, name))
        assert measured == [(t, float(value)) for t, value in enumerate(whole.history[name])]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_mlflow_whose_server_is_away(whole, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", RuntimeWarning)
        r = ud.run(METHOD, problem(), observe=ud.track.mlflow("http://127.0.0.1:9"), **LONG)
    assert sum("mlflow does not track this run any more" in str(one.message) for one in told) == 1
    np.testing.assert_array_equal(r.x, whole.x)


# ----- Weights & Biases, Trackio: heavy packages, so they are not of the development extra
def test_wandb(whole, tmp_path, small_chunks, monkeypatch):
    pytest.importorskip("wandb", reason="wandb is not installed: pip install 'undrift[wandb]' runs this test")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    given = {"checkpoint": tmp_path / "c", "resume": True, **LONG}
    (tmp_path / "w").mkdir()
    ud.run(METHOD, problem(), observe=[ud.track.wandb("u", tmp_path / "w"), lambda h: h.length >= 4], **given)
    ud.run(METHOD, problem(), observe=ud.track.wandb("u", tmp_path / "w"), **given)
    files = sorted((tmp_path / "w").glob("wandb/offline-run-*/*.wandb"))
    assert len(files) == 2
    assert len({path.name for path in files}) == 1  # one run, in two parts
    rows = sorted(row for path in files for row in wandb_rows(path))
    assert rows == [(t, float(value)) for t, value in enumerate(whole.history["gap"])]


def wandb_rows(path: Path) -> list[tuple[int, float]]:
    """The gaps in a file that another process may still be writing: its last record says that it is whole."""
    from wandb.proto.wandb_internal_pb2 import Record
    from wandb.sdk.internal.datastore import DataStore

    for _ in range(600):
        data, records = DataStore(), []
        data.open_for_scan(str(path))
        while (content := data.scan_data()) is not None:
            records.append(Record.FromString(content))
        data.close()
        if any(record.WhichOneof("record_type") == "exit" for record in records):
            break
        time.sleep(0.1)
    found = [{item.key or ".".join(item.nested_key): item.value_json for item in one.history.item} for one in records]
    return [(int(items["_step"]), float(items["gap"])) for items in found if "gap" in items]


def test_trackio(whole, tmp_path, small_chunks, monkeypatch, capfd):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "t"))
    pytest.importorskip("trackio", reason="trackio is not installed: pip install 'undrift[trackio]' runs this test")
    storage = pytest.importorskip("trackio.sqlite_storage")
    monkeypatch.setattr(storage, "TRACKIO_DIR", tmp_path / "t", raising=False)
    given = {"checkpoint": tmp_path / "c", "resume": True, **LONG}
    ud.run(METHOD, problem(), observe=[ud.track.trackio("u"), lambda h: h.length >= 4], **given)
    ud.run(METHOD, problem(), observe=ud.track.trackio("u"), **given)
    assert capfd.readouterr().out == ""
    (name,) = storage.SQLiteStorage.get_runs("u")
    rows = sorted((row["step"], row["gap"]) for row in storage.SQLiteStorage.get_logs("u", name))
    assert rows == [(t, float(value)) for t, value in enumerate(whole.history["gap"])]
