"""Certificates of a federation: an authority of its own, one certificate for the server and one for each site.

Keys are on the curve P-256, made and signed by the library `cryptography`; TLS is gRPC's. The authority's key stays where
the certificates were made. A site is known by the common name in its certificate; the server by one name, whatever machine it
runs on, so that no address is baked in.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ..errors import InputError
from ..files import storage, write_bytes

SERVER = "undrift-server"  # the name that sites expect
AUTHORITY, CERTIFICATE, KEY, REVOKED = "authority.pem", "certificate.pem", "key.pem", "revoked.pem"
AUTHORITY_KEY, ISSUED = "authority-key.pem", "issued"
RESERVED = {"server", SERVER, ISSUED, AUTHORITY, AUTHORITY_KEY}
AUTHORITY_DAYS = 3650
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
DAY = datetime.timedelta(days=1)


def make_certificates(folder: Path, sites: Sequence[str], days: int = 365) -> list[Path]:
    """Certificates for these sites (and the server, and the authority, where they are not there yet); what was made.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in make_certificates(Path(folder), ["a", "b"])]
    ['server', 'a', 'b']
    """
    for site in sites:
        _check_name(site)
        if is_there(folder, site):
            raise InputError(f"{folder / site} is there already: renew it with --renew {site}, or choose another name")
    if len(set(sites)) < len(sites):
        raise InputError(f"every site has a name of its own, got {', '.join(sites)}")
    _check_days(days)
    key, authority = _authority(folder)
    names = [*([] if is_there(folder, "server") else ["server"]), *sites]
    return [_issue(folder, name, key, authority, days) for name in names]


def renew(folder: Path, name: str, days: int = 365) -> Path:
    """A new key and certificate for a site, or for the server, in place of the old ones (which stay valid unless revoked)."""
    _check_there(folder, name)
    _check_days(days)
    return _issue(folder, name, *_authority(folder), days)


def revoke(folder: Path, name: str) -> Path:
    """Put all certificates that the site ever got on the list that the server reads; the list's path."""
    if name == "server":
        raise InputError(
            "sites do not read the list of revoked certificates: a server's leaked key needs a new authority"
        )
    _check_there(folder, name)
    key, authority = _authority(folder)
    listed = folder / "server" / REVOKED
    old = read_revoked(listed, authority) if listed.exists() else []
    known = {entry.serial_number for entry in old}
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateRevocationListBuilder().issuer_name(authority.subject).last_update(now)
    builder = builder.next_update(now + AUTHORITY_DAYS * DAY)
    for entry in old:
        builder = builder.add_revoked_certificate(entry)
    for serial in {made.serial_number for made in _issued(folder) if name_of(made) == name} - known:
        one = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now).build()
        builder = builder.add_revoked_certificate(one)
    write_bytes(listed, builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    return listed


def is_there(folder: Path, name: str) -> bool:
    """Whether the server, or a site of this name, has a folder that was finished."""
    return (folder / name / AUTHORITY).exists()  # written last


def overview(folder: Path) -> list[tuple[str, datetime.datetime, bool]]:
    """(name, valid until, revoked) of every certificate in use."""
    authority = read_certificate(folder / AUTHORITY)
    listed = folder / "server" / REVOKED
    revoked = {entry.serial_number for entry in read_revoked(listed, authority)} if listed.exists() else set()
    names = sorted(path.parent.name for path in folder.glob(f"*/{AUTHORITY}"))
    current = [(name, read_certificate(folder / name / CERTIFICATE)) for name in names]
    return [(name, made.not_valid_after_utc, made.serial_number in revoked) for name, made in current]


def name_of(certificate: x509.Certificate) -> str:
    """The one common name in a certificate, if it may be a site's or the server's; else nothing."""
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    name = str(names[0].value) if len(names) == 1 else ""
    return name if NAME.fullmatch(name) else ""


def read_certificate(file: Path) -> x509.Certificate:
    """A certificate, or an error that says what the file is not."""
    with storage(file):
        content = file.read_bytes()
    try:
        return x509.load_pem_x509_certificate(content)
    except ValueError as error:
        raise InputError(f"{file} is not a certificate in PEM: {error}") from error


def read_revoked(file: Path, authority: x509.Certificate) -> list[x509.RevokedCertificate]:
    """The certificates that the authority has taken back."""
    with storage(file):
        content = file.read_bytes()
    try:
        listed = x509.load_pem_x509_crl(content)
    except ValueError as error:
        raise InputError(f"{file} is not a list of revoked certificates: {error}") from error
    if not listed.is_signature_valid(authority.public_key()):  # type: ignore[arg-type]
        raise InputError(f"{file} was not signed by the authority: make it again with `undrift certs --revoke`")
    return list(listed)


def read_files(folder: Path) -> tuple[bytes, bytes, bytes]:
    """(authority, certificate, key) of one end, for TLS."""
    missing = [name for name in (AUTHORITY, CERTIFICATE, KEY) if not (folder / name).is_file()]
    if missing:
        raise InputError(
            f"{folder} lacks {', '.join(missing)}: give --certs a directory that `undrift certs` made, such as pki/server"
        )
    with storage(folder):
        content = tuple((folder / name).read_bytes() for name in (AUTHORITY, CERTIFICATE, KEY))
    return content[0], content[1], content[2]


def check_own(folder: Path, server: bool = False) -> None:
    """That a certificate can be accepted at all: of the right role, in time, of the authority and for the key beside it."""
    authority, certificate = read_certificate(folder / AUTHORITY), read_certificate(folder / CERTIFICATE)
    names = [str(one.value) for one in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if (names == [SERVER]) != server:
        whose, wanted = ("a site", "the server") if server else ("the server", "this site")
        raise InputError(f"{folder} is the folder of {whose}: give --certs that of {wanted}")
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature) as error:
        raise InputError(
            f"{folder / CERTIFICATE} was not made by the authority beside it: copy the whole folder that `undrift certs` made"
        ) from error
    with storage(folder / KEY):
        secret = (folder / KEY).read_bytes()
    if _private(folder / KEY, secret).public_key() != certificate.public_key():
        raise InputError(f"{folder / KEY} does not belong to the certificate beside it: copy the whole folder again")
    now, until = datetime.datetime.now(datetime.UTC), certificate.not_valid_after_utc
    if not certificate.not_valid_before_utc <= now <= until:
        raise InputError(
            f"{folder / CERTIFICATE} is not valid now ({now:%Y-%m-%d}), but from {certificate.not_valid_before_utc:%Y-%m-%d} "
            f"to {until:%Y-%m-%d}: set the clock, or renew it with `undrift certs --renew`"
        )


def _authority(folder: Path) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    certificate, secret = folder / AUTHORITY, folder / AUTHORITY_KEY
    if certificate.exists():
        if not secret.exists():
            raise InputError(f"{folder} has the authority's certificate but not its key {AUTHORITY_KEY}: bring it back")
        with storage(secret):
            content = secret.read_bytes()
        return _private(secret, content), read_certificate(certificate)
    with storage(folder):
        folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "undrift federation")])
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    made = (
        _blank(name, name, key.public_key(), key.public_key(), AUTHORITY_DAYS + 1)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    _write_secret(secret, key)
    write_bytes(certificate, made.public_bytes(serialization.Encoding.PEM))
    return key, made


def _issue(folder: Path, name: str, key: ec.EllipticCurvePrivateKey, authority: x509.Certificate, days: int) -> Path:
    place, common = folder / name, SERVER if name == "server" else name
    left = (authority.not_valid_after_utc - datetime.datetime.now(datetime.UTC)).days
    if days > left:
        raise InputError(f"the authority in {folder} is itself valid for {left} more days only, got --days {days}")
    own = ec.generate_private_key(ec.SECP256R1())
    role = ExtendedKeyUsageOID.SERVER_AUTH if common == SERVER else ExtendedKeyUsageOID.CLIENT_AUTH
    usage = x509.KeyUsage(True, False, False, False, False, False, False, False, False)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
    made = (
        _blank(subject, authority.subject, own.public_key(), key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([role]), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(common)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    content, record = made.public_bytes(serialization.Encoding.PEM), folder / ISSUED
    with storage(folder):
        place.mkdir(parents=True, exist_ok=True)
        record.mkdir(exist_ok=True)
    write_bytes(record / f"{made.serial_number:x}.pem", content)  # first: what may be in use can be revoked
    _write_secret(place / KEY, own)
    write_bytes(place / CERTIFICATE, content)
    write_bytes(place / AUTHORITY, authority.public_bytes(serialization.Encoding.PEM))
    return place


def _issued(folder: Path) -> list[x509.Certificate]:
    return [read_certificate(file) for file in sorted((folder / ISSUED).glob("*.pem"))]


def _blank(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    signer: ec.EllipticCurvePublicKey,
    days: int,
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - DAY).not_valid_after(now + days * DAY)  # clocks differ
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    return builder.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer), critical=False)


def _private(file: Path, content: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise InputError(f"{file} is not a private key in PEM without a password: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InputError(f"{file} is not a key that `undrift certs` made: bring the right one back")
    return key


def _write_secret(file: Path, key: ec.EllipticCurvePrivateKey) -> None:
    content = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_bytes(file, content, secret=True)


def _check_name(site: str) -> None:
    if not NAME.fullmatch(site) or site in RESERVED:
        raise InputError(
            "a site's name has letters, digits, dots, dashes and underscores, begins with a letter or digit, has at most 63 of "
            f"them, and is none of {', '.join(sorted(RESERVED))}; got {site!r}"
        )


def _check_days(days: int) -> None:
    if not 1 <= days <= AUTHORITY_DAYS:
        raise InputError(f"certificates are valid for 1 to {AUTHORITY_DAYS} days, got {days}")


def _check_there(folder: Path, name: str) -> None:
    if name != "server":
        _check_name(name)
    if not is_there(folder, name):
        raise InputError(f"there is no certificate of {name!r} in {folder}: make one with --sites {name}")
