"""A run in a row of the list, and in the line above its page."""

from __future__ import annotations

from typing import Any

from ..progressfile import Number
from .predict import ROUNDING, duration, forecast
from .runs import BoardRun
from .stored import values
from .tracks import sparkline

MEASURES = (("relative", "relative gap"), ("accuracy", "accuracy"), ("loss", "loss"))
TITLES = {"Relative gap": "relative gap", "Test accuracy": "accuracy", "Loss": "loss"}


def state_of(run: BoardRun) -> dict[str, Any]:
    """How far a run is, for the line above its page."""
    return {
        "name": run.name,
        "status": run.status,
        "damage": run.damage,
        "played": run.played if run.tells else None,
        "total": run.total if run.tells else None,
        "left": left_of(run),
        "changed": round(run.changed, 3) or None,
        "sites": sites_of(run),
    }


def left_of(run: BoardRun) -> str:
    """What is left of a run that goes on, in words."""
    head = run.head
    if head is None or not run.is_live:
        return ""
    left, why, more = max(0, run.total - run.played), "", ""
    if len(run.tracks) == 1:
        (track,) = run.tracks.values()
        found = forecast(left, track.rounds, track.columns, head.targets)
        arrives = forecast(left, track.rounds, track.columns, {"relative": ROUNDING})
        more = f"; the gap is down to rounding in about {arrives.rounds:,}" if arrives.why and not found.why else ""
        left, why = found.rounds, f" ({found.why})" if found.why else ""
    pace = run.seconds_per_round()
    takes = "" if pace is None else f", about {duration(pace * left)}"
    return f"{left:,} rounds left{takes}{why}{more}"


def sites_of(run: BoardRun) -> str:
    """How many sites of a deployed run are there, and who has been silent longest."""
    last = run.lanes.last
    if last is None or not last.here or not run.is_live:
        return ""
    away = [name for name, here in zip(last.names, last.here, strict=False) if not here]
    said = f"{sum(last.here)} of {last.total} sites are here"
    return said + (f"; away: {', '.join(away[:4])}{', …' if len(away) > 4 else ''}" if away else "")


def row_of(run: BoardRun) -> dict[str, Any]:
    """A run in the list."""
    head = run.head
    row = {
        "key": run.key,
        "name": run.name,
        "status": run.status,
        "damage": run.damage,
        "title": head.title if head is not None and run.tells else str(run.summary.get("label") or "")[:200],
        "changed": round(run.changed, 3),
        "played": None,
        "total": None,
        "left": left_of(run),
        "sites": sites_of(run),
    }
    return {**row, **(_live(run) if run.tells else _ended(run))}


def _live(run: BoardRun) -> dict[str, Any]:
    ahead = [track for track in run.tracks.values() if track.rounds]
    found: dict[str, Any] = {"played": run.played, "total": run.total, "verdict": _verdict(run.claims)}
    if ahead:
        track = min(ahead, key=lambda one: _last(one.last("relative"), one.last("loss")))
        column, measure = next(((c, m) for c, m in MEASURES if c in track.columns), ("loss", "loss"))
        found |= {"measure": measure, "value": track.last(column), "spark": sparkline(track.columns.get(column, []))}
        found["bound"] = track.last("bound 0")
    return found


def _last(*found: Number) -> float:
    return next((float(value) for value in found if value is not None), float("inf"))


def _verdict(claims: Any) -> bool | None:
    return all(claim.holds for claim in claims) if claims else None


def _ended(run: BoardRun) -> dict[str, Any]:
    """From the page, which is looked at once."""
    page = run.page()
    if page is None:
        return {"played": _whole(run.summary.get("rounds"))}
    claims = page["claims"]
    found: dict[str, Any] = {
        "title": page["title"][:200],
        "verdict": all(claim["holds"] for claim in claims) if claims else None,
        "played": _whole(run.summary.get("rounds")),
    }
    figure = next((one for one in page["figures"] if one["title"] in TITLES), None)
    if figure is None:
        return found
    best = min((one for one in figure["series"] if one["kind"] == "measured"), key=lambda one: _end(one), default=None)
    if best is not None:
        y = values(best["y"])
        found |= {"measure": TITLES[figure["title"]], "value": _end(best, None), "spark": sparkline(y)}
        bound = next((one for one in figure["series"] if one["kind"] == "bound" and not one["thin"]), None)
        found["bound"] = None if bound is None else _end(bound, None)
    return found


def _end(series: dict[str, Any], nothing: Any = float("inf")) -> Any:
    return next((value for value in reversed(values(series["y"])) if value is not None), nothing)


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None
