"""`undrift rehearse --flower`: a federation of Flower on this machine, with TLS and node authentication, in ticket mode."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from ..errors import InputError
from ..studies.agreement import Agreement
from ..studies.replaying import replay, site_files
from . import codes
from .replay import verdict
from .talk import Talk

PATIENCE = 3600.0  # seconds for the run


def rehearse_flower(agreement: Agreement, folder: Path, talk: Talk, arguments: argparse.Namespace) -> int:
    """Start a SuperLink and a SuperNode per client, run the study, compare with the simulation; the exit code."""
    try:
        from ..flower.federation import Federation, free_port, make_app
    except ModuleNotFoundError as error:
        raise InputError(f"{error}: pip install 'undrift[flower]'") from error
    if arguments.chaos:
        raise InputError(
            "--chaos and --flower do not go together: rehearse crashes without Flower, whose part is the start"
        )
    app, sites = folder / "app", agreement.contract.sites
    make_app(app, agreement.study.to_toml())
    began = time.monotonic()
    with Federation(folder / "federation") as federation:
        for site in sites:
            talk.note(f"registering and starting the SuperNode of {site}")
            federation.add_node(site, {"state": str(folder / "state" / site), **_data(agreement, arguments, site)})
        config = {"mode": "tickets", "out": str(folder / "run"), "address": f"127.0.0.1:{free_port()}"}
        run = federation.run(app, config)
        talk.note(f"Flower's run {run} has begun")
        federation.wait(run, PATIENCE)
    found = replay(folder / "run", None if arguments.data is None else Path(arguments.data), trust=True)
    seconds = time.monotonic() - began
    if arguments.json:
        print(json.dumps({**found.words(), "sites": len(sites), "kills": 0, "seconds": seconds}, indent=2))
    else:
        talk.results.print(f"{len(sites)} SuperNodes, {seconds:.1f} s")
        talk.results.print(verdict(found))
    return codes.OK if found.equal else codes.CLAIM_FAILED


def _data(agreement: Agreement, arguments: argparse.Namespace, site: str) -> dict[str, str]:
    if agreement.source.public is not None:
        return {}
    given = site_files(agreement, None if arguments.data is None else Path(arguments.data))
    return {"data": str(given[agreement.contract.sites.index(site)].resolve())}
