"""Sites of tests come back at once, and look often at whether to stop: nobody waits for a long pause to pass."""

from __future__ import annotations

import pytest

from undrift.deploy import grpc_site

BRIEFLY = 0.02  # seconds


@pytest.fixture(autouse=True)
def _no_long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_site, "SHORTEST", BRIEFLY)
    monkeypatch.setattr(grpc_site, "LISTEN", BRIEFLY)
