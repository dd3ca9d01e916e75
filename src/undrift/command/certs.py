"""`undrift certs`: the certificates of a federation, and what to copy where."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..gate import Count
from . import codes
from .parser_tools import of_kind, sub_command

MISSING = "certificates need the library cryptography, which is not installed: pip install 'undrift[grpc]'"


def add_parser(commands: Any) -> None:
    """The flags of the command."""
    certs = sub_command(
        commands,
        "certs",
        "make, renew and revoke the certificates by which a server and its sites know each other",
        "An authority of the federation's own, made at the first call, signs one\n"
        "certificate for the server and one for each site. A site is known by the name in its certificate.",
        "  undrift certs --sites a b c --out pki           an authority, the server and three sites\n"
        "  undrift certs --sites d --out pki               one more site, later\n"
        "  undrift certs --renew a --out pki --days 90     a new key and certificate for a; copy pki/a to it again\n"
        "  undrift certs --revoke b --out pki              b is let in no more, from the moment the server has the list\n"
        "  undrift certs --out pki                         who has a certificate, and until when\n\n"
        "files in DIR: server/, NAME/: copied to the server and to each site, as they are and nowhere else;\n"
        "  authority-key.pem: stays here, whoever has it can make certificates; issued/: all that were ever made",
    )
    certs.add_argument("--out", required=True, metavar="DIR", help="the directory of the certificates")
    what = certs.add_mutually_exclusive_group()
    what.add_argument("--sites", nargs="+", metavar="NAME", help="names of sites to make certificates for")
    what.add_argument("--renew", metavar="NAME", help="replace the certificate of this site, or of `server`")
    what.add_argument("--revoke", metavar="NAME", help="take back all certificates that this site ever got")
    certs.add_argument("--days", type=of_kind(Count), default=365, help="for how long new ones are valid (365)")


def execute(arguments: argparse.Namespace) -> int:
    """The command."""
    try:
        from ..deploy import certs
    except ModuleNotFoundError as error:
        raise InputError(MISSING) from error
    from ..ownership import owned
    from .talk import Talk

    folder, talk = Path(arguments.out), Talk()
    if not arguments.sites and not (folder / certs.AUTHORITY).exists():
        raise InputError(f"{folder} holds no certificates yet: make them with --sites NAME …")
    with owned(folder):
        if arguments.sites:
            made = certs.make_certificates(folder, arguments.sites, arguments.days)
            lines = [f"made for {arguments.days} days: {', '.join(str(path) for path in made)}"]
            lines += [copy_line(path) for path in made] + [kept_line(folder / certs.AUTHORITY_KEY)]
        elif arguments.renew:
            path = certs.renew(folder, arguments.renew, arguments.days)
            lines = [f"renewed for {arguments.days} days: {path}", copy_line(path), old_line(arguments.renew)]
        elif arguments.revoke:
            path = certs.revoke(folder, arguments.revoke)
            lines = [
                f"revoked: all certificates that {arguments.revoke} got so far",
                f"copy {path} into the server's folder, if that is elsewhere; a running server reads it by itself",
                f"a new one for the same site: undrift certs --renew {arguments.revoke} --out {folder}",
            ]
        else:
            lines = [
                f"{name}: {'revoked' if revoked else f'valid until {until:%Y-%m-%d}'}"
                for name, until, revoked in certs.overview(folder)
            ]
    for line in lines:
        talk.results.print(line, soft_wrap=True)
    return codes.OK


def copy_line(path: Path) -> str:
    """What to do with a folder."""
    if path.name == "server":
        return f"copy {path} to the server:   undrift serve STUDY.toml --certs {path.name}"
    return f"copy {path} to site {path.name}, and nowhere else:   undrift join HOST:PORT --certs {path.name}"


def kept_line(key: Path) -> str:
    return f"keep {key} here: whoever has it can make certificates; it belongs neither to the server nor to a site"


def old_line(name: str) -> str:
    if name == "server":
        return "start the server again with it"
    return (
        f"the old certificate stays valid until it expires; if its key has leaked: --revoke {name}, then --renew {name}"
    )
