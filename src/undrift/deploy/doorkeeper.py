"""Who is let in at the server: whose certificate TLS has verified, is not revoked, in time, and known to the run."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography import x509

from ..errors import UndriftError
from .certs import AUTHORITY, REVOKED, name_of, read_certificate, read_revoked


class Stranger(UndriftError):
    """Somebody who may not talk, and why."""


class Unclear(Stranger):
    """The server cannot tell now; whoever asks later may be let in."""


class Doorkeeper:
    """The list of revoked certificates is read anew for every caller."""

    def __init__(self, certs: Path, allowed: Callable[[str], str | None]) -> None:
        self.allowed, self.listed = allowed, certs / REVOKED
        self.authority = read_certificate(certs / AUTHORITY)

    def let_in(self, context: Any) -> tuple[str, x509.Certificate]:
        """(name, certificate) of a caller; the name in the certificate is who it is, whatever it says."""
        presented = context.auth_context().get("x509_pem_cert", [])
        if len(presented) != 1:
            raise Stranger("no certificate")
        certificate = x509.load_pem_x509_certificate(presented[0])
        name = name_of(certificate)
        if not name:
            raise Stranger("its certificate does not have one name as sites have them")
        try:
            revoked = self.revoked()
        except UndriftError as error:
            raise Unclear(f"whether {name} is revoked cannot be told: {error}") from error
        why = self.no_longer_valid(certificate, revoked)
        if why is not None:
            raise Stranger(f"the certificate of {name} {why}")
        refusal = self.allowed(name)
        if refusal is not None:
            raise Stranger(refusal)
        return name, certificate

    def revoked(self) -> frozenset[int]:
        """The serial numbers on the list; no list, no entries."""
        if not self.listed.exists():
            return frozenset()
        return frozenset(entry.serial_number for entry in read_revoked(self.listed, self.authority))

    def no_longer_valid(self, certificate: x509.Certificate, revoked: frozenset[int]) -> str | None:
        """Why a certificate that TLS accepted once is not good any more, or None."""
        if certificate.serial_number in revoked:
            return "was revoked"
        if certificate.not_valid_after_utc < datetime.datetime.now(datetime.UTC):
            return "has expired"
        return None
