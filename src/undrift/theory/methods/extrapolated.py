"""FedExP and MimeLite: averaging with a server that does more. No step rule of theirs is stated here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import round_map
from ..known import Known
from ..paths import Drifted, Extrapolated, Path, Played, Recursion
from ..quadratics import Quadratics

FEDEXP = Known(path=Extrapolated, drifts=True, colour="#661100")


def _map(q: Quadratics, values: Mapping[str, Any], steps: Any) -> round_map.RoundMap:
    return round_map.mimelite(q, values["eta"], steps, values["beta"], values["server_eta"], values["correction"])


def _path(recursion: Recursion) -> Path:
    kind = Played if recursion.values(recursion.step)["correction"] else Drifted
    return kind(recursion, _map)


MIMELITE = Known(round_map=_map, path=_path, drifts=True, colour="#999933")
