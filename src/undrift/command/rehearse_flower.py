"""`undrift rehearse --flower`: a federation of Flower on this machine, with TLS and node authentication, in ticket mode."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from ..deploy.ports import free_port
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
        from ..flower.federation import Federation, make_app
    except ModuleNotFoundError as error:
        raise InputError(f"{error}: pip install 'undrift[flower]'") from error
    if arguments.chaos:
        raise InputError(
            "--chaos and --flower do not go together: rehearse crashes without Flower, whose part is the start"
        )
    app, sites = folder / "app", agreement.contract.sites
    make_app(app, agreement.study.to_toml())
    given = None if arguments.data is None else Path(arguments.data)
    began = time.monotonic()
    with Federation(folder / "federation") as federation:
        for site, config in _node_config(agreement, folder, given).items():
            talk.note(f"registering and starting the SuperNode of {site}")
            federation.add_node(site, config)
        address = f"127.0.0.1:{free_port()}"
        run = federation.run(app, {"mode": "tickets", "out": str(folder / "run"), "address": address})
        talk.note(f"Flower's run {run} has begun")
        federation.wait(run, PATIENCE)
    found = replay(folder / "run", given, trust=True)
    seconds = time.monotonic() - began
    if arguments.json:
        print(json.dumps({**found.words(), "sites": len(sites), "kills": 0, "seconds": seconds}, indent=2))
    else:
        talk.results.print(f"{len(sites)} SuperNodes, {seconds:.1f} s")
        talk.results.print(verdict(found))
    return codes.OK if found.equal else codes.CLAIM_FAILED


def _node_config(agreement: Agreement, folder: Path, given: Path | None) -> dict[str, dict[str, str]]:
    """What each SuperNode is told: where its memory, its data and a method of one's own are."""
    sites = agreement.contract.sites
    configs = {site: {"state": str(folder / "state" / site)} for site in sites}
    if agreement.source.public is None:
        for site, file in zip(sites, site_files(agreement, given), strict=True):
            configs[site]["data"] = str(file.resolve())
    stem, colon, _ = agreement.study.methods[0].name.rpartition(".py:")
    if colon:
        for site in sites:
            configs[site]["method-file"] = str(Path(f"{stem}.py").resolve())
    return configs
