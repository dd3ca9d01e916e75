"""Certificates: made, renewed, revoked; the command that does it and says what to copy where."""

from __future__ import annotations

import os
import shutil
import stat
import sys

import pytest

from undrift.cli import main
from undrift.deploy.certs import (
    AUTHORITY,
    CERTIFICATE,
    KEY,
    REVOKED,
    check_own,
    make_certificates,
    name_of,
    overview,
    read_certificate,
    read_files,
    read_revoked,
    renew,
    revoke,
)
from undrift.errors import InputError, StorageError


def test_each_end_gets_a_folder_that_serves_it(tmp_path):
    made = make_certificates(tmp_path, ["a", "b"], days=10)
    assert [path.name for path in made] == ["server", "a", "b"]
    for path in made:
        assert sorted(os.listdir(path)) == [AUTHORITY, CERTIFICATE, KEY]
        check_own(path, server=path.name == "server")
    assert name_of(read_certificate(tmp_path / "a" / CERTIFICATE)) == "a"
    assert len({(path / KEY).read_bytes() for path in made}) == 3


@pytest.mark.skipif(os.name != "posix", reason="rights of files as POSIX has them")
def test_keys_are_their_owners_alone(tmp_path):
    make_certificates(tmp_path, ["a"])
    renew(tmp_path, "a")
    keys = [tmp_path / "authority-key.pem", *tmp_path.glob(f"*/{KEY}")]
    assert len(keys) == 3
    assert {stat.S_IMODE(key.stat().st_mode) for key in keys} == {0o600}


def test_more_sites_later_are_of_the_same_authority(tmp_path):
    make_certificates(tmp_path, ["a"])
    assert [path.name for path in make_certificates(tmp_path, ["b"])] == ["b"]
    assert (tmp_path / "a" / AUTHORITY).read_bytes() == (tmp_path / "b" / AUTHORITY).read_bytes()


@pytest.mark.parametrize("name", ["server", "undrift-server", "issued", "../a", "a b", "", "a\n", "-a", "é", "a" * 64])
def test_names_that_are_none(tmp_path, name):
    with pytest.raises(InputError, match="a site's name has"):
        make_certificates(tmp_path, ["fine", name])
    assert os.listdir(tmp_path) == []


def test_nothing_is_made_where_something_is_wrong(tmp_path):
    make_certificates(tmp_path, ["b"])
    for sites, days, words in (
        (["a", "b"], 1, "is there already"),
        (["a", "a"], 1, "of its own"),
        (["a"], 0, "1 to 3650"),
    ):
        with pytest.raises(InputError, match=words):
            make_certificates(tmp_path, sites, days)
    assert not (tmp_path / "a").exists()


def test_what_a_kill_left_half_made_is_made_again(tmp_path):
    make_certificates(tmp_path, ["a"])
    for name in ("server", "a"):
        (tmp_path / name / AUTHORITY).unlink()  # written last
    assert [path.name for path in make_certificates(tmp_path, ["a"])] == ["server", "a"]
    check_own(tmp_path / "a")


def test_all_that_a_site_ever_got_is_revoked_and_a_new_one_is_not(tmp_path):
    make_certificates(tmp_path, ["a", "b"])
    serials = [read_certificate(tmp_path / "a" / CERTIFICATE).serial_number]
    serials.append(read_certificate(renew(tmp_path, "a") / CERTIFICATE).serial_number)
    revoke(tmp_path, "a")
    revoke(tmp_path, "a")  # again: nothing changes
    listed = read_revoked(tmp_path / "server" / REVOKED, read_certificate(tmp_path / AUTHORITY))
    assert sorted(entry.serial_number for entry in listed) == sorted(serials)
    assert [(name, revoked) for name, _, revoked in overview(tmp_path)] == [
        ("a", True),
        ("b", False),
        ("server", False),
    ]
    renew(tmp_path, "a")
    assert next((name, revoked) for name, _, revoked in overview(tmp_path)) == ("a", False)


def test_a_list_of_another_authority_is_refused(tmp_path):
    for place in ("one", "two"):
        make_certificates(tmp_path / place, ["a"])
        revoke(tmp_path / place, "a")
    with pytest.raises(InputError, match="was not signed by the authority"):
        read_revoked(tmp_path / "one" / "server" / REVOKED, read_certificate(tmp_path / "two" / AUTHORITY))


def test_folders_that_do_not_fit_together(tmp_path):
    make_certificates(tmp_path / "one", ["a", "b"])
    make_certificates(tmp_path / "two", ["a"])
    mixed = tmp_path / "mixed"
    shutil.copytree(tmp_path / "one" / "a", mixed)
    shutil.copy(tmp_path / "one" / "b" / KEY, mixed / KEY)
    with pytest.raises(InputError, match="does not belong to the certificate"):
        check_own(mixed)
    shutil.copy(tmp_path / "two" / "a" / CERTIFICATE, mixed / CERTIFICATE)
    with pytest.raises(InputError, match="was not made by the authority"):
        check_own(mixed)
    (mixed / CERTIFICATE).write_text("nonsense")
    with pytest.raises(InputError, match="is not a certificate in PEM"):
        check_own(mixed)
    (mixed / CERTIFICATE).unlink()
    with pytest.raises(InputError, match=r"lacks certificate\.pem"):
        read_files(mixed)


def test_a_lost_key_of_the_authority(tmp_path):
    make_certificates(tmp_path, ["a"])
    (tmp_path / "authority-key.pem").write_text("nonsense")
    with pytest.raises(InputError, match="is not a private key"):
        renew(tmp_path, "a")
    (tmp_path / "authority-key.pem").unlink()
    with pytest.raises(InputError, match="bring it back"):
        make_certificates(tmp_path, ["b"])


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError):
        make_certificates(tmp_path / "file", ["a"])


def test_the_command_says_what_to_copy_where(tmp_path, capsys):
    place = str(tmp_path / "pki")
    assert main(["certs", "--sites", "a", "b", "--out", place, "--days", "30"]) == 0
    said = capsys.readouterr().out
    assert f"copy {place}/server to the server" in said
    assert f"copy {place}/b to site b, and nowhere else" in said
    assert f"keep {place}/authority-key.pem here" in said
    assert main(["certs", "--renew", "a", "--out", place]) == 0
    assert f"copy {place}/a to site a" in capsys.readouterr().out
    assert main(["certs", "--revoke", "b", "--out", place]) == 0
    assert f"copy {place}/server/{REVOKED} into the server's folder" in capsys.readouterr().out
    assert main(["certs", "--out", place]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "b: revoked"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--sites", "a"], "--out"),
        (["--out", "pki"], "holds no certificates yet: make them with --sites"),
        (["--renew", "a", "--out", "pki"], "holds no certificates yet"),
        (["--sites", "a/b", "--out", "pki"], "a site's name has letters"),
        (["--sites", "a", "--revoke", "a", "--out", "pki"], "not allowed with"),
        (["--sites", "a", "--days", "-3", "--out", "pki"], "--days must be a whole number"),
        (["--sites", "a", "--days", "4000", "--out", "pki"], "1 to 3650 days"),
    ],
)
def test_what_the_command_refuses(tmp_path, monkeypatch, capsys, words, complaint):
    monkeypatch.chdir(tmp_path)
    assert main(["certs", *words]) == 2
    assert complaint in capsys.readouterr().err
    assert os.listdir(tmp_path) == []


def test_sites_that_have_none_and_the_server_are_not_revoked(tmp_path, capsys):
    make_certificates(tmp_path, ["a"])
    assert main(["certs", "--revoke", "b", "--out", str(tmp_path)]) == 2
    assert "there is no certificate of 'b'" in capsys.readouterr().err
    assert main(["certs", "--revoke", "server", "--out", str(tmp_path)]) == 2
    assert "needs a new authority" in capsys.readouterr().err


def test_without_the_library_the_command_says_what_to_install(tmp_path, monkeypatch, capsys):
    for name in [name for name in sys.modules if name == "undrift.deploy.certs"]:
        monkeypatch.delitem(sys.modules, name)
        monkeypatch.delattr("undrift.deploy.certs", raising=False)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    assert main(["certs", "--sites", "a", "--out", str(tmp_path)]) == 2
    assert "pip install 'undrift[grpc]'" in capsys.readouterr().err
