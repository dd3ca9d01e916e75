"""Which versions a result was made with."""

from __future__ import annotations

import platform
from importlib import metadata

LIBRARIES = ("undrift", "jax", "jaxlib", "numpy", "optax", "scipy", "matplotlib")


def versions() -> dict[str, str]:
    """Versions of undrift, of Python and of the libraries that compute."""
    found = {"undrift": "", "python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "unknown"
    return found


def show_versions() -> int:
    for name, version in versions().items():
        print(f"{name:<12}{version}")
    return 0
