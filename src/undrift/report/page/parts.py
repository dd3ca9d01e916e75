"""The parts of a page that need no script: words, claims, tables, pictures."""

from __future__ import annotations

import html
import math
import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .lanes import lanes_html

LONG = 10  # a table with more rows is folded
SOURCES = {
    "paper": "stated in the paper",
    "ours": "our choice, the paper does not say",
    "given": "asked for",
    "rule": "chosen by a rule",
}


def text(value: Any) -> str:
    """A value in words, safe inside HTML.

    >>> text(0.000123456), text(None), text([1, 2.5]), text("a < b"), text(12000)
    ('0.0001235', '–', '1, 2.5', 'a &lt; b', '12,000')
    """
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if value is None or (isinstance(value, float | np.floating) and math.isnan(value)):
        return "–"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, numbers.Integral):
        return f"{int(value):,}" if abs(int(value)) >= 10_000 else str(int(value))
    if isinstance(value, numbers.Real):
        return f"{float(value):.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{text(key)} = {text(entry)}" for key, entry in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(text(entry) for entry in value)
    return html.escape(str(value))


def header(page: Mapping[str, Any]) -> str:
    subtitle = f'<p class="subtitle">{text(page["subtitle"])}</p>' if page["subtitle"] else ""
    links = "".join(f'<a href="#{anchor}">{name}</a>' for name, anchor, _ in _contents(page))
    title = f"<h1>{text(page['title'])}</h1>"
    return f'{_verdict(page["verdict"])}{title}{subtitle}<nav aria-label="Contents">{links}</nav>'


def _verdict(words: Mapping[str, str]) -> str:
    """What came of it, before everything else."""
    if not words["headline"]:
        return ""
    shown = {key: text(entry).replace(" %", "&nbsp;%") for key, entry in words.items() if entry}
    rest = " ".join(shown[key] for key in ("others", "meaning") if key in shown)
    below = f'<p class="note">{rest}</p>' if rest else ""
    return f'<div class="verdict" id="verdict"><p>{shown["headline"]}</p>{below}</div>'


def _contents(page: Mapping[str, Any]) -> list[tuple[str, str, Callable[[], str]]]:
    """Title, anchor and maker of the sections that have something to show."""
    found: list[tuple[str, str, Callable[[], str]]] = [
        ("Claims", "claims", lambda: _claims(page["claims"])),
        ("Figures", "figures", lambda: _figures(page["figures"])),
        ("Clients", "lanes", lambda: "".join(lanes_html(lanes) for lanes in page["lanes"])),
        ("Clients, round by round", "presence", lambda: '<div class="card" data-lanes></div>'),
        ("The round", "exchange", lambda: _exchange(page["exchange"])),
        ("Tables", "tables", lambda: "".join(_table(table) for table in page["tables"])),
        ("Pictures", "pictures", lambda: "".join(_picture(picture) for picture in page["pictures"])),
        ("Setting", "setting", lambda: _setting(page["setting"])),
    ]
    shown = [section for section in found if page[section[1]]]
    made = page["command"] or page["versions"] or page["seeds"]
    return [*shown, ("How it was made", "made", lambda: _made(page))] if made else shown


def sections(page: Mapping[str, Any]) -> Iterator[str]:
    """The sections in the order of the contents."""
    for name, anchor, make in _contents(page):
        yield f'<section id="{anchor}"><h2>{name}</h2>{make()}</section>'


def _note(entry: Mapping[str, Any]) -> str:
    return f'<p class="note">{text(entry["note"])}</p>' if entry["note"] else ""


def _claims(claims: Sequence[Mapping[str, Any]]) -> str:
    kept = sum(bool(claim["holds"]) for claim in claims)
    count = f"{kept} of {len(claims)} hold" if len(claims) > 1 else ("It holds" if kept else "It fails")
    switch = ""
    if 0 < kept < len(claims):
        switch = (
            '<button type="button" class="quiet" id="only-failing" aria-pressed="false">only those that fail</button>'
        )
    return (
        f'<p class="count">{count}.{switch}</p><ol class="claims">'
        + "".join(_claim(claim) for claim in claims)
        + "</ol>"
    )


def _claim(claim: Mapping[str, Any]) -> str:
    verdict, sign = ("holds", "✓") if claim["holds"] else ("fails", "✗")
    shown = [key for key in ("measured", "paper", "margin") if claim[key] is not None]
    facts = "".join(f"<div><dt>{key}</dt><dd>{text(claim[key])}</dd></div>" for key in shown)
    why = f'<p class="why">{text(claim["explanation"])}</p>' if claim["explanation"] else ""
    return (
        f'<li class="claim {verdict}"><span class="badge"><span aria-hidden="true">{sign}</span> {verdict}</span>'
        f"<div><p>{text(claim['sentence'])}</p>{f'<dl>{facts}</dl>' if facts else ''}{why}</div></li>"
    )


def _exchange(exchanges: Sequence[Mapping[str, Any]]) -> str:
    from .exchange import shown  # which needs what is here

    return shown(exchanges)


def _figures(figures: Sequence[Mapping[str, Any]]) -> str:
    """Places for the script to draw in; an odd one out comes first and takes the whole width."""
    frames = ""
    for i, figure in enumerate(figures):
        wide = " wide" if i == 0 and len(figures) % 2 else ""
        caption = f"<figcaption><div><h3>{text(figure['title'])}</h3>{_note(figure)}</div></figcaption>"
        frames += f'<figure class="card{wide}" data-figure="{i}">{caption}</figure>'
    off = '<noscript><p class="note">The figures are drawn by a script, which is switched off.</p></noscript>'
    return f'{off}<div class="figures">{frames}</div>'


def _table(table: Mapping[str, Any]) -> str:
    numeric = [
        bool(table["rows"]) and all(_is_number(row[i]) for row in table["rows"]) for i in range(len(table["columns"]))
    ]
    mark = [' class="number"' if flag else "" for flag in numeric]
    head = "".join(f'<th scope="col"{m}>{text(name)}</th>' for name, m in zip(table["columns"], mark, strict=True))
    rows = "".join(
        "<tr>" + "".join(f"<td{m}>{text(cell)}</td>" for cell, m in zip(row, mark, strict=True)) + "</tr>"
        for row in table["rows"]
    )
    title, count = text(table["title"]), len(table["rows"])
    body = (
        f'{_note(table)}<div class="scroll" tabindex="0" role="region" aria-label="{title}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )
    if count > LONG:
        return f'<details class="card"><summary><h3>{title}</h3> <span>{count} rows</span></summary>{body}</details>'
    return f'<div class="card"><h3>{title}</h3>{body}</div>'


def _is_number(cell: Any) -> bool:
    """Also true of a number in words, and of a missing one."""
    if cell is None or isinstance(cell, numbers.Real | np.number):
        return not isinstance(cell, bool)
    words = str(cell).strip().lstrip("<>≤≥~").replace(",", "")
    try:
        float(words)
    except ValueError:
        return words in ("–", "-", "")
    return True


def _picture(picture: Mapping[str, Any]) -> str:
    title = text(picture["title"])
    caption = f"<figcaption><h3>{title}</h3>{_note(picture)}</figcaption>"
    return f'<figure class="card picture">{caption}<img src="{picture["uri"]}" alt="{title}"></figure>'


def _setting(rows: Sequence[Mapping[str, Any]]) -> str:
    body = "".join(
        f'<tr><th scope="row">{text(row["key"])}</th><td class="value">{text(row["value"])}</td>'
        f"<td>{_source(str(row['source'] or ''))}</td><td>{text(row['note'] or '')}</td></tr>"
        for row in rows
    )
    head = "".join(f'<th scope="col">{name}</th>' for name in ("what", "value", "source", "note"))
    return (
        '<div class="card"><div class="scroll" tabindex="0" role="region" aria-label="Setting">'
        f'<table class="setting"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></div>'
    )


def _source(source: str) -> str:
    if not source:
        return ""
    kind = source if source in SOURCES else "other"
    return f'<span class="source {kind}" title="{text(SOURCES.get(source, source))}">{text(source)}</span>'


def _made(page: Mapping[str, Any]) -> str:
    found = ""
    if page["command"]:
        found += (
            f'<div class="command"><pre><code id="command">{text(page["command"])}</code></pre>'
            '<button type="button" id="copy">copy</button></div>'
        )
    facts = [("seeds", ", ".join(map(str, page["seeds"])))] if page["seeds"] else []
    facts += [(str(name), str(version)) for name, version in page["versions"].items()]
    if facts:
        found += '<dl class="facts">' + "".join(f"<div><dt>{text(k)}</dt><dd>{text(v)}</dd></div>" for k, v in facts)
        found += "</dl>"
    return f'<div class="card">{found}</div>'
