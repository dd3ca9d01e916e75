"""What the commands of a deployment refuse before anything is opened, and what they say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from undrift.cli import main
from undrift.deploy.certs import make_certificates

STUDY = """
[problem]
name = "least_squares"
clients = 2
samples = 4
dim = 3
[run]
rounds = 2
steps = 1
[[method]]
name = "fedsgd"
eta = 0.01
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(STUDY)
    make_certificates(tmp_path / "pki", ["site-0", "site-1"])
    return tmp_path


SERVE = ["serve", "study.toml", "--certs", "pki/server", "--out", "out"]
JOIN = ["join", "localhost:1", "--certs", "pki/site-0", "--state", "state"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([*SERVE, "--port", "70000"], "≤ 65535"),
        (["serve", "study.toml", "--certs", "pki/site-0", "--port", "0", "--out", "out"], "is the folder of a site"),
        (["serve", "study.toml", "--certs", "nowhere", "--port", "0", "--out", "out"], "nowhere"),
        (["serve", "--certs", "pki/server", "--port", "0"], "which study?"),
        (["serve", "missing.toml", "--certs", "pki/server"], "missing.toml cannot be read"),
        ([*SERVE, "--method", "fedlin", "--port", "0"], "has 0 methods called 'fedlin'"),
        (["join", "localhost", *JOIN[2:]], "HOST:PORT"),
        (["join", "localhost:1", "--certs", "pki/server", "--state", "state"], "is the folder of the server"),
        (["replay", "."], "is no deployed run"),
        (["replay", "nowhere"], "nowhere"),
        (["rehearse", "missing.toml"], "missing.toml cannot be read"),
        (["rehearse", "study.toml", "--out", "pki"], "already holds files"),
        (["rehearse", "study.toml", "--method", "fedlin"], "has 0 methods called 'fedlin'"),
        (["explain", "--deployed", "missing.toml"], "missing.toml cannot be read"),
    ],
)
def test_refused(words: list[str], says: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) in (2, 7)
    said = capsys.readouterr().err
    assert says in said
    assert "Traceback" not in said
    assert not (place / "out").exists()


def test_the_contract_is_shown_before_anything_is_sent(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--deployed", "study.toml"]) == 0
    shown = capsys.readouterr().out
    assert main(["explain", "--deployed", "study.toml", "--json"]) == 0
    contract = json.loads(capsys.readouterr().out)
    assert f"Contract {contract['hash']}" in shown
    assert contract["sites"] == ["site-0", "site-1"]
    for words in ("fedsgd(eta=0.01), 2 rounds", "every round", "24 B", "What the server can learn"):
        assert words in shown
    assert str(place) not in json.dumps(contract)
