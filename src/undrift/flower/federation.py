"""A Flower federation on this machine, for rehearsals and tests: a SuperLink and SuperNodes with TLS and node authentication.

Everything is made for one use: an authority, the SuperLink's certificate, a key for every SuperNode, a home for Flower's
files. Flower's update check, telemetry and installation of packages at run time are switched off.
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ..deploy.ports import free_port
from ..errors import UndriftError

CONNECTION = "rehearsal"  # what Flower's configuration calls this SuperLink
QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "JAX_PLATFORMS": "cpu", "NO_COLOR": "1"}
PATIENCE = 120.0  # seconds for a process to be there


class FederationError(UndriftError):
    """Flower did not do what was asked of it; its own words are in the message."""


class Federation:
    """A SuperLink and its SuperNodes. Use it as `with Federation(folder) as federation:`.

    `simulation`: Flower simulates the nodes (two, unless it is told otherwise), and none are added.
    """

    def __init__(self, folder: Path, *, simulation: bool = False) -> None:
        self.folder, self.simulation = folder, simulation
        self.port = free_port()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Federation:
        make_tls(self.folder / "tls")
        connection = {"address": f"127.0.0.1:{self.port}", "root-certificates": str(self.folder / "tls" / "ca.pem")}
        home = self.folder / "home"
        home.mkdir(parents=True, exist_ok=True)
        (home / "config.toml").write_text(tomli_w.dumps({"superlink": {"default": CONNECTION, CONNECTION: connection}}))
        try:
            self._start_link()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        for name in reversed(list(self.processes)):
            self.stop(name)

    # ----- processes
    def _start_link(self) -> None:
        tls = self.folder / "tls"
        self._start(
            "superlink",
            ["flower-superlink", "--host", "127.0.0.1", "--port", str(self.port)],
            ["--simulation" if self.simulation else "--enable-supernode-auth"],
            [
                "--ssl-certfile",
                f"{tls}/link.pem",
                "--ssl-keyfile",
                f"{tls}/link.key",
                "--ssl-ca-certfile",
                f"{tls}/ca.pem",
            ],
            ["--disable-runtime-dependency-installation", "--database", f"{self.folder}/link.db"],
        )
        self._until(lambda: listening(self.port), "superlink")

    def add_node(self, name: str, config: Mapping[str, Any]) -> None:
        """Register a SuperNode by its public key under this name, and start it."""
        key = self.folder / "keys" / name
        make_node_key(key)
        self.flwr("supernode", "register", f"{key}.pub", CONNECTION, "--name", name)
        self.start_node(name, config)

    def start_node(self, name: str, config: Mapping[str, Any]) -> None:
        """Start a SuperNode that was registered."""
        words = " ".join(f"{key}={json.dumps(value)}" for key, value in config.items())
        port = free_port()
        self._start(
            name,
            ["flower-supernode", "--superlink", f"127.0.0.1:{self.port}", "--port", str(port)],
            ["--root-certificates", str(self.folder / "tls" / "ca.pem")],
            ["--auth-supernode-private-key", str(self.folder / "keys" / name), "--node-config", words],
        )
        self._until(lambda: listening(port), name)

    def _start(self, name: str, *command: Sequence[str]) -> None:
        words = [word for part in command for word in part]
        with self.log(name).open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [program(words[0]), *words[1:]],
                env=self._environment(name),
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                cwd=self.folder,
                start_new_session=True,  # with all that it starts it can be stopped as one
            )

    def stop(self, name: str, sign: signal.Signals = signal.SIGTERM) -> None:
        """End a process and whatever it started."""
        process = self.processes.pop(name, None)
        if process is None:
            return
        below = _descendants(process.pid)  # some lead groups of their own, and live on without the process
        _signal(os.killpg, process.pid, sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        _signal(os.killpg, process.pid, signal.SIGKILL)
        for pid in below:
            _signal(os.kill, pid, signal.SIGKILL)
        process.wait()

    # ----- Flower's command
    def run(self, app: Path, config: Mapping[str, Any]) -> int:
        """`flwr run`; the number of the run."""
        words = " ".join(f"{key}={json.dumps(value)}" for key, value in config.items())
        options = ["--run-config", words] if config else []
        answer = json.loads(self.flwr("run", str(app), CONNECTION, "--format", "json", *options))
        return int(answer["run-id"])

    def status(self, run: int) -> str:
        """How the run stands, in Flower's word, such as running or finished:completed."""
        answer = json.loads(self.flwr("list", CONNECTION, "--run-id", str(run), "--format", "json"))
        return str(answer["runs"][0]["status"])

    def wait(self, run: int, seconds: float) -> None:
        """Until the run has ended well; otherwise an error with the logs."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            status = self.status(run)
            if status == "finished:completed":
                return
            if status.startswith("finished"):
                break
            time.sleep(2.0)
        words = self.flwr("log", str(run), CONNECTION, "--show")
        raise FederationError(
            f"Flower's run {run} is {status} after at most {seconds:g} s:\n{words[-4000:]}\n{self.logs()}"
        )

    def flwr(self, *words: str) -> str:
        """What the command `flwr` prints."""
        done = subprocess.run(
            [program("flwr"), *words], env=self._environment("home"), capture_output=True, text=True, timeout=PATIENCE
        )
        if done.returncode:
            raise FederationError(f"flwr {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def logs(self) -> str:
        """The ends of all logs."""
        return "\n".join(f"--- {file.name}\n{file.read_text()[-4000:]}" for file in sorted(self.folder.glob("*.log")))

    def _environment(self, name: str) -> dict[str, str]:
        home = self.folder / "home" if name == "home" else self.folder / "homes" / name
        home.mkdir(parents=True, exist_ok=True)
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        return {**os.environ, **QUIET, "FLWR_HOME": str(home), "PATH": path}

    def _until(self, ready: Any, name: str) -> None:
        end = time.monotonic() + PATIENCE
        while not ready():
            if self.processes[name].poll() is not None or time.monotonic() > end:
                raise FederationError(f"{name} did not start:\n{self.log(name).read_text()[-4000:]}")
            time.sleep(0.1)


def program(name: str) -> str:
    """Where Flower's programs are: beside the Python that runs this, or on the path."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise FederationError(f"the program {name} was not found: pip install 'undrift[flower]'")
    return found


def listening(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def make_tls(folder: Path) -> None:
    """An authority (ca.pem) and the SuperLink's certificate (link.pem, link.key) for this machine."""
    folder.mkdir(parents=True, exist_ok=True)
    authority, own = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer, subject = _name("throw-away authority"), _name("127.0.0.1")
    hosts = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    ca = (
        _blank(issuer, issuer, authority.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority.public_key()), critical=False)
        .add_extension(x509.KeyUsage(False, False, False, False, False, True, True, False, False), critical=True)
        .sign(authority, hashes.SHA256())
    )
    link = (
        _blank(subject, issuer, own.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False)
        .sign(authority, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "ca.pem").write_bytes(ca.public_bytes(pem))
    (folder / "link.pem").write_bytes(link.public_bytes(pem))
    _write_key(folder / "link.key", own, serialization.PrivateFormat.PKCS8)


def make_node_key(file: Path) -> None:
    """A SuperNode's key as Flower wants it: on the curve P-384, in OpenSSH's form, with the public half in `file`.pub."""
    file.parent.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP384R1())
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    file.with_name(f"{file.name}.pub").write_bytes(public + b"\n")
    _write_key(file, key, serialization.PrivateFormat.OpenSSH)


def _write_key(file: Path, key: ec.EllipticCurvePrivateKey, form: serialization.PrivateFormat) -> None:
    content = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
        stream.write(content)


def _name(words: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, words)])


def _blank(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    return (
        builder.serial_number(x509.random_serial_number()).not_valid_before(now - day).not_valid_after(now + 30 * day)
    )


def _signal(kill: Callable[[int, int], None], number: int, sign: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        kill(number, sign)


def _descendants(pid: int) -> list[int]:
    """The processes that this one has started, and those that they have."""
    listed = subprocess.run(["ps", "-axo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    pairs = [(int(child), int(parent)) for child, parent in (line.split() for line in listed.splitlines())]
    found = [pid]
    for one in found:  # which grows
        found += [child for child, parent in pairs if parent == one]
    return found[1:]


def make_app(folder: Path, study: str) -> None:
    """An app of Flower that plays this study: what examples/flower has, as files in `folder`."""
    code = folder / "federated"
    code.mkdir(parents=True)
    project = {"name": "federated", "version": "1.0.0", "description": "a rehearsal", "license": "Apache-2.0"}
    components = {"serverapp": "federated.server_app:app", "clientapp": "federated.client_app:app"}
    flwr = {"publisher": "undrift", "components": components, "config": {"mode": "", "out": "", "address": ""}}
    build = {"requires": ["hatchling"], "build-backend": "hatchling.build"}
    tables = {"build-system": build, "project": {**project, "dependencies": []}, "tool": {"flwr": {"app": flwr}}}
    (folder / "pyproject.toml").write_text(tomli_w.dumps(tables))
    (code / "__init__.py").write_text("")
    (code / "study.toml").write_text(study)
    (code / "server_app.py").write_text(SERVER_APP)
    (code / "client_app.py").write_text(CLIENT_APP)


SERVER_APP = '''"""The server app: plays the study beside this file."""

from pathlib import Path

from undrift.flower import server_app

app = server_app(Path(__file__).parent / "study.toml")
'''
CLIENT_APP = '''"""The client app: the part of a node, with its own data."""

from undrift.flower import client_app

app = client_app()
'''
