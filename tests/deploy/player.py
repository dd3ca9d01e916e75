"""A process that plays its part in several deployments, one after the other: `player.py PART FOLDER NAME…`.

PART is "server" or the number of a site; FOLDER/NAME/study.toml is a study, FOLDER/ports.json says where its server listens.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from pathlib import Path

import undrift.command.join
import undrift.command.serve  # noqa: F401  (a site imports it all while it waits for its server)
from undrift.cli import main

PATIENCE = 600.0


def play(part: str, folder: Path, names: list[str]) -> int:
    ports = json.loads((folder / "ports.json").read_text())
    for name in names:
        here = folder / name
        if part == "server":
            words = ["serve", str(here / "study.toml"), "--certs", str(folder / "pki" / "server"), "--port",
                     str(ports[name]), "--host", "127.0.0.1", "--out", str(here / "run"), "--no-figures",
                     "--trust", "--quiet"]  # fmt: skip
        else:
            wait_for(ports[name])
            site = f"site-{part}"
            words = ["join", f"127.0.0.1:{ports[name]}", "--certs", str(folder / "pki" / site), "--state",
                     str(here / site), "--study", str(here / "study.toml"), "--quiet"]  # fmt: skip
            words += ["--method-file", str(here / "adam.py")] if (here / "adam.py").exists() else []
        if code := main(words):
            return code
    return 0


def wait_for(port: int) -> None:
    """Return as soon as somebody listens there; a site by itself would wait ever longer between its attempts."""
    limit = time.monotonic() + PATIENCE
    while time.monotonic() < limit:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            time.sleep(0.05)
        else:
            return


if __name__ == "__main__":
    sys.exit(play(sys.argv[1], Path(sys.argv[2]), sys.argv[3:]))
