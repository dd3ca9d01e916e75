"""Strangers at the door: each is turned away with a line in the log, while an honest site goes on talking undisturbed."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import logging
import random
import shutil
import socket
import threading
import time
from types import SimpleNamespace

import grpc
import hypothesis.strategies as st
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import HealthCheck, given, settings
from net_helpers import HELLO, LIMIT, PATIENCE, PATIENT, Desk, carrier, raw_call, refused, talker

from undrift.deploy.certs import AUTHORITY, CERTIFICATE, KEY, REVOKED, make_certificates, read_certificate, revoke
from undrift.deploy.chunks import HEAD, chunks
from undrift.deploy.contract import Contract
from undrift.deploy.conversation import Conversation
from undrift.deploy.doorkeeper import Doorkeeper, Stranger
from undrift.deploy.frames import FACTS, HEADROOM, PROTOCOL, Hello, Refused, Terms, Welcome, write
from undrift.deploy.grpc_site import stay_connected
from undrift.deploy.reception import Reception
from undrift.errors import InputError, UndriftError

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)
SOON = 0.3  # seconds that strangers are given


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pki")
    make_certificates(folder, ["site-1", "site-2", "revoked", "unknown"])
    issue(folder, "expired", "site-2", until=NOW - DAY)
    issue(folder, "lines", "site-2\nfine: all is well")
    issue(folder, "site-9", "site-9")
    return folder


def issue(pki, folder, name, until=NOW + DAY):
    """A certificate that `undrift certs` would not make, of the right authority."""
    authority = read_certificate(pki / AUTHORITY)
    signer = serialization.load_pem_private_key((pki / "authority-key.pem").read_bytes(), None)
    key = ec.generate_private_key(ec.SECP256R1())
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - 9 * DAY)
        .not_valid_after(until)
        .sign(signer, hashes.SHA256())
    )
    (pki / folder).mkdir()
    (pki / folder / CERTIFICATE).write_bytes(made.public_bytes(serialization.Encoding.PEM))
    shutil.copy(pki / AUTHORITY, pki / folder / AUTHORITY)
    secret = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (pki / folder / KEY).write_bytes(key.private_bytes(serialization.Encoding.PEM, *secret))


@pytest.fixture
def door(pki, caplog):
    """A server with an honest site, which must be as content in the end as in the beginning."""
    with (
        caplog.at_level(logging.INFO, "undrift.deploy"),
        carrier(pki) as server,
        talker(server, pki / "site-1") as site,
    ):
        desk = Desk(server)
        desk.greeted("site-1")
        desk.exchange("site-1")
        yield SimpleNamespace(server=server, desk=desk, site=site, pki=pki, log=caplog)
        desk.exchange("site-1", b"still here")
        assert site.greetings == desk.connections("site-1") == 1


def lines(door, words):
    """How many lines of the log hold these words; each is one line."""
    said = [record.getMessage() for record in door.log.records]
    assert all("\n" not in line for line in said)
    return sum(words in line for line in said)


# ----- TLS turns them away; gRPC itself says so on standard error
def turned_away_by_tls(door, capfd, credentials, words):
    override = [("grpc.ssl_target_name_override", "undrift-server"), ("grpc.use_local_subchannel_pool", 1)]
    with grpc.secure_channel(f"127.0.0.1:{door.server.port}", credentials, override) as channel:
        with pytest.raises(grpc.RpcError) as refusal:
            list(channel.stream_stream("/undrift.Run/Talk")(iter(chunks(write(HELLO)))))
        assert refusal.value.code() == grpc.StatusCode.UNAVAILABLE
    said, deadline = "", time.monotonic() + PATIENCE
    while words not in said and time.monotonic() < deadline:
        said += capfd.readouterr().err
        time.sleep(0.02)
    assert "Handshake failed" in said
    assert words in said


def test_no_certificate(door, capfd):
    credentials = grpc.ssl_channel_credentials((door.pki / AUTHORITY).read_bytes())
    turned_away_by_tls(door, capfd, credentials, "PEER_DID_NOT_RETURN_A_CERTIFICATE")


def test_a_certificate_of_another_authority(door, capfd, tmp_path):
    make_certificates(tmp_path, ["site-2"])  # the right name
    own = [(tmp_path / "site-2" / name).read_bytes() for name in (KEY, CERTIFICATE)]
    credentials = grpc.ssl_channel_credentials((door.pki / AUTHORITY).read_bytes(), *own)
    turned_away_by_tls(door, capfd, credentials, "CERTIFICATE_VERIFY_FAILED")


def test_an_expired_certificate(door, capfd):
    own = [(door.pki / "expired" / name).read_bytes() for name in (KEY, CERTIFICATE)]
    credentials = grpc.ssl_channel_credentials((door.pki / AUTHORITY).read_bytes(), *own)
    turned_away_by_tls(door, capfd, credentials, "certificate has expired")


def test_an_expired_certificate_is_not_even_tried_by_its_site(pki):
    with pytest.raises(InputError, match=r"is not valid now .* renew it"):
        stay_connected("127.0.0.1:1", pki / "expired", lambda send, frames: True, limit=1)


def test_plain_tcp(door, capfd):
    with socket.create_connection(("127.0.0.1", door.server.port)) as stranger:
        stranger.settimeout(PATIENCE)
        stranger.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert stranger.recv(1000) == b""


def test_somebody_who_connects_and_says_nothing_at_all(pki):
    """Not even TLS: the connection is closed after a while, and who has come before is not disturbed."""
    hasty = dataclasses.replace(PATIENT, hello=1.0)  # it holds for handshakes too, those of honest sites among them
    with carrier(pki, times=hasty) as server, talker(server, pki / "site-1") as site:
        desk = Desk(server)
        desk.greeted("site-1")
        desk.exchange("site-1")
        before = site.greetings
        with socket.create_connection(("127.0.0.1", server.port)) as stranger:
            stranger.settimeout(PATIENCE)
            assert stranger.recv(1) == b""
        desk.exchange("site-1", b"still here")
        assert site.greetings == before


# ----- their certificates are good, they are not
def test_a_revoked_certificate(door):
    revoke(door.pki, "revoked")
    try:
        error = refused(door.server.port, door.pki / "revoked", list(chunks(write(HELLO))))
    finally:
        (door.pki / "server" / REVOKED).unlink()
    assert error.code() == grpc.StatusCode.PERMISSION_DENIED
    assert lines(door, "refused: the certificate of revoked was revoked") == 1


def test_a_certificate_that_is_revoked_while_its_site_is_connected(door):
    with talker(door.server, door.pki / "site-9") as site:
        door.desk.greeted("site-9")
        # What `revoke` writes for a site in whose folder this certificate lies:
        (door.pki / "issued" / "9.pem").write_bytes((door.pki / "site-9" / CERTIFICATE).read_bytes())
        revoke(door.pki, "site-9")
        try:
            assert door.desk.lost("site-9").why == "the certificate of site-9 was revoked"
            site.join()
        finally:
            (door.pki / "server" / REVOKED).unlink()
    assert "was revoked" in str(site.error)
    assert lines(door, "the connection of site-9 is ended: the certificate of site-9 was revoked") == 1


def test_a_list_that_cannot_be_read_lets_nobody_new_in(door):
    (door.pki / "server" / REVOKED).write_text("nonsense")
    try:
        error = refused(door.server.port, door.pki / "site-2", list(chunks(write(HELLO))))
    finally:
        (door.pki / "server" / REVOKED).unlink()
    assert error.code() == grpc.StatusCode.UNAVAILABLE  # the site tries again
    assert lines(door, "whether site-2 is revoked cannot be told") == 1
    with talker(door.server, door.pki / "site-2"):
        door.desk.greeted("site-2")


def test_a_certificate_that_expires_is_known(pki):
    keeper = Doorkeeper(pki / "server", lambda name: None)
    expired, good = (read_certificate(pki / name / CERTIFICATE) for name in ("expired", "site-1"))
    assert keeper.no_longer_valid(expired, frozenset()) == "has expired"
    assert keeper.no_longer_valid(good, frozenset()) is None
    context = SimpleNamespace(auth_context=dict)
    with pytest.raises(Stranger, match="no certificate"):
        keeper.let_in(context)


def test_a_site_of_another_run(door):
    error = refused(door.server.port, door.pki / "unknown", list(chunks(write(HELLO))))
    assert error.code() == grpc.StatusCode.PERMISSION_DENIED
    assert lines(door, "refused: unknown does not belong to this run") == 1


def test_the_server_s_own_certificate_is_no_site_s(door, capfd):
    error = refused(door.server.port, door.pki / "server", list(chunks(write(HELLO))))
    assert error.code() in (
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.PERMISSION_DENIED,
    )  # TLS knows it is for servers
    assert door.desk.connections("undrift-server") == 0


def test_a_name_that_would_write_lines_of_its_own(door):
    error = refused(door.server.port, door.pki / "lines", list(chunks(write(HELLO))))
    assert error.code() == grpc.StatusCode.PERMISSION_DENIED
    assert lines(door, "its certificate does not have one name") == 1
    assert lines(door, "all is well") == 0


def test_a_site_that_poses_as_another_is_still_itself(door):
    """It says hello with site-1's state, contract and facts: whatever it says, its certificate says site-2."""
    posing = write(Hello(PROTOCOL, "0.1.0", "the contract", "the state directory of site-1", False, b"site-1"))
    release = threading.Event()

    def outgoing():
        yield from chunks(posing)
        release.wait(PATIENCE)

    channel, _ = raw_call(door.server.port, door.pki / "site-2", outgoing())
    try:
        event = door.desk.until(lambda e: getattr(e, "content", None) == posing)
        assert event.site == "site-2"
    finally:
        release.set()
        channel.close()


# ----- what they say is not what sites say
def hurry(door, **times):
    """Who connects from now on has less time than the honest site."""
    door.server.times = dataclasses.replace(PATIENT, **times)


def test_a_site_that_never_says_hello(door):
    hurry(door, hello=SOON)
    error = refused(door.server.port, door.pki / "site-2", [])
    assert error.code() == grpc.StatusCode.ABORTED
    assert lines(door, f"the connection of site-2 is ended: it did not say hello within {SOON:g} s") == 1


def test_a_hello_that_dribbles(door):
    """A byte now and then, for ever: the time is that of the whole frame."""
    release = threading.Event()
    hurry(door, hello=SOON)

    def outgoing():
        yield (1000).to_bytes(HEAD) + b"x"
        for _ in range(900):
            if release.wait(0.02):
                return
            yield b"x"

    channel, call = raw_call(door.server.port, door.pki / "site-2", outgoing())
    try:
        with pytest.raises(grpc.RpcError) as refusal:
            list(call)
    finally:
        release.set()
        channel.close()
    assert refusal.value.code() == grpc.StatusCode.ABORTED
    assert lines(door, f"did not say hello within {SOON:g} s") == 1


def test_a_frame_that_stops_in_the_middle(door):
    hurry(door, stall=SOON)
    pieces = [*chunks(write(HELLO)), (1000).to_bytes(HEAD) + b"x"]
    assert refused(door.server.port, door.pki / "site-2", pieces).code() == grpc.StatusCode.ABORTED
    assert lines(door, f"a frame of its did not go on for {SOON:g} s") == 1


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        ([b"nonsense"], "no valid head"),
        ([b""], "no valid head"),
        ([(LIMIT + 1).to_bytes(HEAD) + b"x"], f"longer than the {FACTS + HEADROOM} "),  # nothing long before hello
        ([*chunks(write(HELLO)), (LIMIT + 1).to_bytes(HEAD) + b"x"], f"longer than the {LIMIT}"),
        ([(5).to_bytes(HEAD) + b"x", b"yyyyyyy"], "another length than announced"),
    ],
)
def test_pieces_that_are_none(door, pieces, words):
    assert refused(door.server.port, door.pki / "site-2", pieces).code() == grpc.StatusCode.ABORTED
    assert lines(door, "the connection of site-2 is ended: ") == lines(door, words) == 1


def test_a_message_that_is_too_long_for_the_stream(door):
    """gRPC itself refuses it, by its length, before it is read."""
    error = refused(door.server.port, door.pki / "site-2", [bytes(8 * LIMIT)])
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert door.desk.lost("site-2").connection == 1


def test_fuzzed_pieces(door):
    """Random bytes, true pieces with bytes changed, and true frames with bytes changed, one connection after the other."""
    rng = random.Random(0)
    true = list(chunks(write(Hello(1, "0.1.0", "", "state", False, bytes(300))), piece=100))
    for case in range(30):
        pieces = list(true)
        if case % 3 == 0:
            pieces = [rng.randbytes(rng.randrange(40)) for _ in range(5)]
        else:
            place = rng.randrange(len(pieces))
            at = rng.randrange(len(pieces[place]) if case % 3 == 1 else HEAD)
            pieces[place] = pieces[place][:at] + rng.randbytes(1) + pieces[place][at + 1 :]
        channel, call = raw_call(door.server.port, door.pki / "site-2", iter(pieces))
        with contextlib.suppress(grpc.RpcError):
            list(call)
        channel.close()
        assert door.desk.lost("site-2").connection == case + 1
        if case % 10 == 0:
            door.desk.exchange("site-1")


@given(content=st.one_of(st.binary(max_size=60), st.binary(max_size=20).map(lambda b: write(HELLO) + b)))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_conversation_survives_whatever_bytes_a_site_sends(content):
    """Frames that came whole and are none: the site is dropped, once, and nothing else happens."""
    from undrift.deploy.carrier import Connected, Heard

    dropped = []
    fake = SimpleNamespace(send=lambda site, content: None, drop=lambda site, why: dropped.append(site))
    talk = Conversation(fake, ["a"], lambda site, hello: (Refused("no"), False))
    talk._take(Connected("a", 1))
    talk._take(Heard("a", 1, content))
    assert dropped in ([], ["a"])
    assert talk.present == {}


# ----- the reception: they are who they are, and do not fit
@pytest.fixture
def reception():
    study = {"problem": {"name": "digits"}}
    contract = Contract(PROTOCOL, "0.1.0", study, ["a", "b"], absences=False, code={})

    def check(site, facts):
        if facts != b"good":
            raise InputError(f"the data of {site} do not fit")

    return Reception(contract, check, population=b"everybody")


def hello(reception, **changed):
    given = {
        "protocol": PROTOCOL,
        "undrift": "0.1.0",
        "contract": reception.contract.hash,
        "state": "s",
        "reset": False,
    }
    return Hello(**{**given, "facts": b"good", **changed})


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"protocol": PROTOCOL + 1}, "install the same version on both sides"),
        ({"undrift": "0.0.9"}, "the server runs undrift 0.1.0"),
        ({"contract": "0" * 64}, "the site accepted the contract 0000000000000000…"),
        ({"facts": b"bad"}, "the data of a do not fit"),
    ],
)
def test_who_does_not_fit_is_told_why(reception, changed, words):
    answer, taken = reception.greet("a", hello(reception, **changed))
    assert isinstance(answer, Refused)
    assert words in answer.reason
    assert not taken


def test_who_fits_takes_part_and_who_asks_sees_the_contract(reception):
    assert reception.greet("b", hello(reception)) == (Welcome(1, False, b"everybody"), True)
    answer, taken = reception.greet("a", hello(reception, contract=""))
    assert isinstance(answer, Terms)
    assert not taken


def test_lost_memory_is_refused_until_the_operator_says_reset(reception):
    reception.greet("a", hello(reception))
    reception.with_memory.add("a")
    answer, taken = reception.greet("a", hello(reception, state="another"))
    assert isinstance(answer, Refused)
    assert "has lost its memory" in answer.reason
    assert not taken
    assert reception.greet("a", hello(reception, state="another", reset=True)) == (Welcome(0, True, b"everybody"), True)


def test_a_doorkeeper_needs_its_authority(tmp_path):
    with pytest.raises(UndriftError):
        Doorkeeper(tmp_path, lambda name: None)
