"""A served study: it continues, it replays, and what does not fit is refused by name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest
from stage import SMALL, Stage

import undrift as ud
from undrift.deploy.book import CHECKPOINT, TRACE
from undrift.deploy.contract import Contract
from undrift.engine.loopback import pass_messages
from undrift.errors import CheckpointError, DivergenceError, InputError, Interrupted
from undrift.studies.agreement import Agreement
from undrift.studies.study import study_from


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def simulated(stage: Stage, absences: ud.plan.Absences | None = None) -> ud.Result:
    from undrift.engine.simulate import simulate

    return simulate(stage.agreement.simulated(stage.agreement.source.public, absences))


def stop_after(stage: Stage, round: int):
    """A check that stops the server once this round is in the trace."""

    def check() -> None:
        trace = stage.folder / "run" / TRACE
        if trace.exists() and trace.read_bytes().count(b"\n") > round:
            raise KeyboardInterrupt

    return check


def test_a_stopped_server_continues_where_it_was(stage: Stage) -> None:
    with pytest.raises(Interrupted, match="stopped after 2 of 4 rounds") as stopped:
        stage.play(stop_after(stage, 2))
    assert stopped.value.result.rounds == 2
    result = stage.play()
    assert all(stage.ended[site] is None for site in stage.sites), stage.ended
    expected = simulated(stage)
    np.testing.assert_allclose(result.x, expected.x, rtol=0, atol=1e-12)
    for name, column in expected.history.items():
        np.testing.assert_allclose(result.history[name], column, rtol=1e-9, atol=1e-12, err_msg=name)
    trace = ud.plan.trace(stage.folder / "run" / TRACE)
    assert sorted(trace.rounds) == [1, 2, 3, 4]
    np.testing.assert_allclose(simulated(stage, trace).x, result.x, rtol=0, atol=1e-12)


def test_a_lost_state_directory_is_refused_until_reset(stage: Stage) -> None:
    with pytest.raises(Interrupted):
        stage.play(stop_after(stage, 2))
    shutil.rmtree(stage.folder / "state-site-1")
    refused = []

    def until_refused() -> None:
        refused[:] = [what for site, what in stage.watched if site == "site-1" and "lost its memory" in what]
        if refused:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        stage.play(until_refused)
    assert "--reset" in str(stage.ended["site-1"])
    result = stage.play(**{"site-1": {"reset": True}})
    assert result.rounds == 4
    rows = [json.loads(line) for line in (stage.folder / "run" / TRACE).read_text().splitlines()[1:]]
    assert [row["resets"] for row in rows] == [[], [], [1], []]
    trace = ud.plan.trace(stage.folder / "run" / TRACE)
    assert trace.resets == {3: (1,)}
    played = pass_messages(stage.agreement.simulated(stage.agreement.source.public, trace))
    np.testing.assert_allclose(result.x, played.x, rtol=0, atol=1e-12)  # the replay begins without it too
    assert not np.allclose(result.x, simulated(stage).x, rtol=0, atol=1e-12)  # SCAFFOLD has lost a control variate


def test_a_state_directory_belongs_to_one_run(stage: Stage, tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        stage.play(stop_after(stage, 1))
    (tmp_path / "other").mkdir()
    other = Stage(tmp_path / "other", {**SMALL, "run": {"rounds": 5, "steps": 2}})

    def until_ended() -> None:
        if "site-0" in other.ended:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        other.play(until_ended, **{"site-0": {"state": stage.folder / "state-site-0"}})
    assert isinstance(other.ended["site-0"], CheckpointError)
    assert "give every run a state directory of its own" in str(other.ended["site-0"])


def test_nothing_is_sent_where_the_contract_is_not_accepted(stage: Stage) -> None:
    def until_ended() -> None:
        if "site-0" in stage.ended:
            raise KeyboardInterrupt

    asked = []
    with pytest.raises(KeyboardInterrupt):
        stage.play(until_ended, **{"site-0": {"accept": lambda agreement: asked.append(agreement) or False}})
    assert asked[0].contract.hash == stage.agreement.contract.hash
    assert "was not accepted at this site: nothing was sent" in str(stage.ended["site-0"])
    assert not (stage.folder / "run" / CHECKPOINT).exists()


def test_a_damaged_checkpoint_is_an_error_and_touches_nothing(stage: Stage) -> None:
    with pytest.raises(Interrupted):
        stage.play(stop_after(stage, 2))
    file = stage.folder / "run" / CHECKPOINT
    content = file.read_bytes()
    file.write_bytes(content[:-20])
    trace = (stage.folder / "run" / TRACE).read_bytes()
    with stage.carrier() as carrier, pytest.raises(CheckpointError, match="corrupt"):
        stage.serve(carrier)
    assert (stage.folder / "run" / TRACE).read_bytes() == trace
    file.write_bytes(content)
    assert stage.play().rounds == 4


def test_an_old_checkpoint_of_the_server_is_noticed_by_its_sites(stage: Stage) -> None:
    with pytest.raises(Interrupted):
        stage.play(stop_after(stage, 1))
    file = stage.folder / "run" / CHECKPOINT
    old = file.read_bytes()
    with pytest.raises(Interrupted):
        stage.play(stop_after(stage, 3))
    newer, trace = file.read_bytes(), (stage.folder / "run" / TRACE).read_bytes()
    file.write_bytes(old)

    def until_both_ended() -> None:
        if len(stage.ended) == 2:
            raise KeyboardInterrupt

    stage.ended.clear()
    with pytest.raises((Interrupted, KeyboardInterrupt)):
        stage.play(until_both_ended)
    for error in stage.ended.values():
        assert isinstance(error, CheckpointError)
        assert "the server has begun from an old checkpoint" in str(error)
    file.write_bytes(newer)
    (stage.folder / "run" / TRACE).write_bytes(trace)
    np.testing.assert_allclose(stage.play().x, simulated(stage).x, rtol=0, atol=1e-12)


def test_a_server_that_begins_anew_does_not_take_its_sites_along(stage: Stage) -> None:
    """The same contract in another directory (--out was forgotten): nothing of the real run is overwritten."""
    with pytest.raises(Interrupted):
        stage.play(stop_after(stage, 2))
    (stage.folder / "run").rename(stage.folder / "real")
    (stage.folder / "run").mkdir()
    stage.ended.clear()

    def until_both_ended() -> None:
        if len(stage.ended) == 2:
            raise KeyboardInterrupt

    with pytest.raises((Interrupted, KeyboardInterrupt)):
        stage.play(until_both_ended)
    assert all("the server has begun from an old checkpoint" in str(error) for error in stage.ended.values())
    shutil.rmtree(stage.folder / "run")
    (stage.folder / "real").rename(stage.folder / "run")
    np.testing.assert_allclose(stage.play().x, simulated(stage).x, rtol=0, atol=1e-12)


def test_a_lost_checkpoint_is_no_reason_to_begin_anew(stage: Stage) -> None:
    with pytest.raises(Interrupted):
        stage.play(stop_after(stage, 2))
    (stage.folder / "run" / CHECKPOINT).unlink()
    with stage.carrier() as carrier, pytest.raises(CheckpointError, match="holds 2 rounds, but checkpoint"):
        stage.serve(carrier)


def test_another_study_does_not_continue_a_run(stage: Stage) -> None:
    with pytest.raises(Interrupted):
        stage.play(stop_after(stage, 1))
    stage.agreement = Agreement.of(study_from({**SMALL, "run": {"rounds": 9, "steps": 2}}, "test"))
    with stage.carrier() as carrier, pytest.raises(CheckpointError, match="belongs to the contract"):
        stage.serve(carrier)


@pytest.mark.parametrize("problem", [{"name": "npz", "path": "/etc/x.npz"}, {"name": "sites", "folder": "/srv"}])
def test_a_server_cannot_name_files_of_a_site(problem: dict) -> None:
    contract = Agreement.of(study_from(SMALL, "test")).contract
    forged = msgspec.structs.replace(contract, study={**contract.study, "problem": problem})
    with pytest.raises(InputError, match="names a file of one machine"):
        Agreement.accepted(Contract.read(forged.document()))


def test_sites_hear_of_a_divergence(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {**SMALL, "run": {"rounds": 400, "steps": 5}, "method": [{"name": "fedsgd", "eta": 10.0}]})
    with pytest.raises(DivergenceError):
        stage.play()
    assert stage.ended == {"site-0": None, "site-1": None}


@pytest.mark.slow
def test_a_hundred_sites_over_real_streams(tmp_path: Path) -> None:
    stage = Stage(
        tmp_path,
        {
            "problem": {"name": "least_squares", "clients": 100, "samples": 3, "dim": 2},
            "run": {"rounds": 3, "steps": 1},
            "method": [{"name": "fedsgd", "eta": 0.01}],
        },
    )

    def nobody_failed() -> None:
        assert all(error is None for error in stage.ended.values()), stage.ended

    result = stage.play(nobody_failed)
    nobody_failed()
    np.testing.assert_allclose(result.x, simulated(stage).x, rtol=0, atol=1e-12)


METHOD = """import undrift as ud


def mine() -> ud.Algorithm:
    return ud.fedsgd(eta=0.01).build()
"""


def test_a_method_of_ones_own_must_be_installed_with_the_same_content(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(METHOD)
    words = {**SMALL, "method": [{"name": "mine.py:mine"}]}
    contract = Agreement.of(study_from(words, "test", tmp_path).trusted()).contract
    assert contract.study["method"]["name"] == "mine.py:mine"  # no path of this machine
    assert str(tmp_path) not in contract.document().decode()
    other = tmp_path / "elsewhere.py"
    other.write_text(METHOD + "\n")
    for files in ((), (other,)):
        with pytest.raises(InputError, match="--method-file"):
            Agreement.accepted(contract, files)
    other.write_text(METHOD)
    made = Agreement.accepted(Contract.read(contract.document()), (other,))
    assert made.run(made.source.preview(2)).method.name == "mine"


@pytest.mark.parametrize(
    ("tables", "complaint"),
    [
        ({"method": [{"name": "gd", "eta": 0.1}]}, "needs all data in one place"),
        ({"problem": {"name": "npz", "path": "a.npz"}}, "names a file of one machine"),
        (
            {"problem": {"name": "network", "data": "digits", "partition": "from_map:a.json"}},
            "names a file of one machine",
        ),
        ({"method": []}, "a deployed run has one method, the study has 0"),
        ({"run": {"rounds": 2, "failures": 0.5}}, "failures is for simulations"),
        ({"run": {"rounds": 2, "keep_iterates": True}}, "keep_iterates is for simulations"),
        ({"deploy": {"sites": ["a"]}}, "the problem has 2 clients, the table \\[deploy\\] 1 sites"),
        ({"deploy": {"sites": ["a", "a"]}}, "sites have different names"),
        ({"deploy": {"sites": ["a", "../b"]}}, "sites must be a list of"),
        ({"deploy": {"deadline": 0}}, "deadline must be a number > 0"),
        ({"problem": {"name": "sites", "kind": "logistic", "features": 3}}, "which sites\\? Name them"),
        (
            {"problem": {"name": "sites", "kind": "logistic", "features": 3}, "method": [{"name": "fedlin"}],
             "deploy": {"sites": ["a"]}},
            "fedlin needs eta, and the data from which a theorem or a certificate would choose are at the sites",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_deployed_is_refused_by_name(tables: dict, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        Agreement.of(study_from({**SMALL, **tables}, "test"))
