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
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ..errors import InputError
from ..files import storage, write_bytes

SERVER = "undrift-server"  # the name that sites expect
AUTHORITY, CERTIFICATE, KEY, REVOKED = "authority.pem", "certificate.pem", "key.pem", "revoked.pem"
AUTHORITY_KEY = "authority-key.pem"
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
    if days < 1:
        raise InputError(f"certificates are valid for a whole number of days ≥ 1, got {days}")
    key, authority = _authority(folder)
    made = []
    if not (folder / "server").exists():
        made.append(_issue(folder / "server", SERVER, key, authority, days))
    for site in sites:
        if (folder / site).exists():
            raise InputError(f"{folder / site} is there already: renew it with --renew {site}, or choose another name")
        made.append(_issue(folder / site, site, key, authority, days))
    return made


def renew(folder: Path, name: str, days: int = 365) -> Path:
    """A new key and certificate for a site, or for the server, in place of the old ones."""
    if not (folder / name / CERTIFICATE).exists():
        raise InputError(f"there is no certificate of {name!r} in {folder}: make one with --sites {name}")
    key, authority = _authority(folder)
    return _issue(folder / name, SERVER if name == "server" else name, key, authority, days)


def revoke(folder: Path, name: str) -> Path:
    """Put the site's certificate on the list that the server reads; the list's path."""
    key, authority = _authority(folder)
    file = folder / name / CERTIFICATE
    if not file.exists():
        raise InputError(f"there is no certificate of {name!r} in {folder}")
    serial = read_certificate(file).serial_number
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateRevocationListBuilder().issuer_name(authority.subject).last_update(now)
    builder = builder.next_update(now + 3650 * DAY)
    listed = folder / "server" / REVOKED
    for entry in read_revoked(listed, authority) if listed.exists() else []:
        builder = builder.add_revoked_certificate(entry)
    one = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now).build()
    content = builder.add_revoked_certificate(one).sign(key, hashes.SHA256())
    write_bytes(listed, content.public_bytes(serialization.Encoding.PEM))
    return listed


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
    try:
        listed = x509.load_pem_x509_crl(file.read_bytes())
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


def _authority(folder: Path) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    certificate, secret = folder / AUTHORITY, folder / AUTHORITY_KEY
    if certificate.exists() and secret.exists():
        key = serialization.load_pem_private_key(secret.read_bytes(), password=None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return key, read_certificate(certificate)
    if certificate.exists():
        raise InputError(f"{folder} has the authority's certificate but not its key {AUTHORITY_KEY}: bring it back")
    with storage(folder):
        folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "undrift federation")])
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    made = (
        _blank(name, name, key.public_key(), 3650)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    _write_secret(secret, key)
    write_bytes(certificate, made.public_bytes(serialization.Encoding.PEM))
    return key, made


def _issue(folder: Path, name: str, key: ec.EllipticCurvePrivateKey, authority: x509.Certificate, days: int) -> Path:
    own = ec.generate_private_key(ec.SECP256R1())
    role = ExtendedKeyUsageOID.SERVER_AUTH if name == SERVER else ExtendedKeyUsageOID.CLIENT_AUTH
    usage = x509.KeyUsage(True, False, False, False, False, False, False, False, False)
    made = (
        _blank(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), authority.subject, own.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([role]), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    with storage(folder):
        folder.mkdir(parents=True, exist_ok=True)
    _write_secret(folder / KEY, own)
    write_bytes(folder / CERTIFICATE, made.public_bytes(serialization.Encoding.PEM))
    write_bytes(folder / AUTHORITY, authority.public_bytes(serialization.Encoding.PEM))
    return folder


def _blank(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - DAY).not_valid_after(now + days * DAY)  # clocks differ


def _write_secret(file: Path, key: ec.EllipticCurvePrivateKey) -> None:
    content = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_bytes(file, content, secret=True)


def _check_name(site: str) -> None:
    if not NAME.fullmatch(site) or site in ("server", SERVER):
        raise InputError(
            f"a site's name has letters, digits, dots, dashes and underscores, at most 63, and is not 'server'; got {site!r}"
        )
