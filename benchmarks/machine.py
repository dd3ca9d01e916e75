"""What the numbers depend on."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from .disturbance import cores

ROOT = Path(__file__).parents[1]
PACKAGES = ("undrift", "jax", "jaxlib", "numpy", "scipy", "optax", "torch", "grpcio")
INSTRUCTIONS = ("avx2", "fma", "avx512f", "avx512_bf16", "amx_tile", "asimd", "sve")


def facts() -> dict[str, Any]:
    """Processor, memory, versions, and which code was measured."""
    return {
        "processor": processor(),
        "cores": cores(),
        "instructions": [name for name in INSTRUCTIONS if name in flags()],
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": {name: found for name in PACKAGES if (found := version(name)) is not None},
        "commit": commit(),
        "code": code(),
    }


def processor() -> str:
    return _cpuinfo("model name") or platform.processor() or platform.machine()


def flags() -> set[str]:
    return set((_cpuinfo("flags") or _cpuinfo("Features") or "").split())


def _cpuinfo(key: str) -> str | None:
    listing = Path("/proc/cpuinfo")
    for line in listing.read_text().splitlines() if listing.exists() else ():
        if line.startswith(key):
            return line.partition(":")[2].strip()
    return None


def version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def commit() -> str | None:
    """The commit that is checked out, if git knows."""
    try:
        asked = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    except OSError:  # no git
        return None
    return asked.stdout.strip() if asked.returncode == 0 else None


def code() -> str:
    """A hash of the library and of the benchmarks as they are, so that results of other code are known as such."""
    digest = hashlib.sha256()
    for folder in ("src", "benchmarks"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            digest.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:12]
