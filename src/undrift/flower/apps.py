"""The two apps of a federation; a user's own files hold one line each.

The run is configured by `[tool.flwr.app.config]` of the app, or by `flwr run --run-config`:

    mode      "messages", or "tickets"
    out       the directory of the run, at the machine of the SuperLink; run again with the same one, the run continues
    address   in ticket mode, HOST:PORT at which nodes reach the server's app; it listens on that port
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import files
from ..deploy.book import Book
from ..engine.history import History, Result
from ..errors import InputError
from ..ownership import owned
from ..studies.agreement import Agreement
from ..studies.replaying import CONTRACT, STUDY
from ..studies.serving import serve
from ..studies.study import read_study
from .messages import MessageCarrier
from .node import Settings, answer
from .post import KIND, GridPost, Post, pack, unpack
from .tickets import TicketOffice, make_tickets

if TYPE_CHECKING:
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp

MODES = ("messages", "tickets")
KEYS = ("mode", "out", "address")


def server_app(study: str | Path) -> ServerApp:
    """The server app that plays this study with the nodes of a federation.

    A file of one's app: `app = server_app(Path(__file__).parent / "study.toml")`.
    """
    from flwr.app import Context
    from flwr.serverapp import Grid, ServerApp

    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        play(study, GridPost(grid), context.run_config)

    return app


def client_app(data: str | None = None) -> ClientApp:
    """The client app of a node. `data`: where a node's data are unless its --node-config says it; {part} is its number.

    --node-config of a SuperNode: state (a directory, needed in ticket mode), data and method-file (as of `undrift
    join`), accept (the hash of the contract), and, where SuperNodes have no names of their own, site or partition-id.
    """
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp

    app = ClientApp()

    @app.query(KIND)
    def undrift(message: Message, context: Context) -> Message:
        settings = Settings.read(context.node_config, data)
        return Message(pack(answer(unpack(message), settings, context.state)), reply_to=message)

    return app


def play(study: str | Path, post: Post, config: Mapping[str, Any]) -> Result:
    """The run of a study over a federation; its files are in the directory `out`."""
    mode, out, address = (config.get(key, "") for key in KEYS)
    if mode not in MODES:
        raise InputError(f"mode of the run's configuration is one of {', '.join(MODES)}, got {mode!r}")
    if not isinstance(out, str) or not out:
        raise InputError("the run needs a directory: flwr run … --run-config 'out=\"/srv/runs/heart\"'")
    agreement = Agreement.of(read_study(study).trusted())  # an app is a program; the study's own files come with it
    with owned(Path(out)) as mine:
        Book(mine.path, agreement.contract)  # refuses what was begun with another contract
        files.write_text(mine.path / STUDY, agreement.study.to_toml())
        files.write_bytes(mine.path / CONTRACT, agreement.contract.document())
        if mode == "messages":
            result = _by_messages(agreement, post, mine.path)
        else:
            result = _by_tickets(agreement, post, mine.path, address)
        result.save(mine.path)
    return result


def _by_messages(agreement: Agreement, post: Post, folder: Path) -> Result:
    carrier = MessageCarrier(post, agreement.contract)
    return serve(
        agreement, carrier, folder, deadline=agreement.study.deploy.get("deadline"), resend=None, observe=_tell
    )


def _by_tickets(agreement: Agreement, post: Post, folder: Path, address: object) -> Result:
    from ..deploy.grpc_server import GrpcCarrier

    port, sites = _port(address), agreement.contract.sites
    with tempfile.TemporaryDirectory(prefix="undrift-") as name:
        tickets = make_tickets(Path(name), agreement.contract, str(address))
        carrier = GrpcCarrier(
            Path(name) / "server",
            port,
            lambda site: None if site in sites else f"{site} is no site of this run",
            limit=agreement.longest_frame(),
        )
        with TicketOffice(post, tickets):
            try:
                return serve(agreement, carrier, folder, deadline=agreement.study.deploy.get("deadline"), observe=_tell)
            finally:
                carrier.close()


def _tell(history: History) -> None:
    """Progress, for `flwr log`."""
    loss = history["loss"][-1]
    print(f"round {history.length - 1}" + (f": loss {loss:.6g}" if np.isfinite(loss) else ""), flush=True)


def _port(address: object) -> int:
    _, _, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
    if not port.isdecimal() or not 0 < int(port) < 2**16:
        raise InputError(
            "in ticket mode the run needs an address at which nodes reach its server: flwr run … --run-config "
            f"'address=\"run.example.org:8443\"'; got {address!r}"
        )
    return int(port)
