"""docs/beyond.md: its prose is written by hand, its results are put in from the files of `undrift reproduce`.

    python -m undrift_papers.beyond_page docs/beyond.md reproduction

replaces what stands between `<!-- results beyond/table -->` and `<!-- end -->` by the item's figure, a table made from its data
and the verdicts on its claims. Nothing is run.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np

from undrift import files

from .beyond_runs import best_of_grid, contracts, kinds_of, rows, share, step_range, steps_of, to_rounding
from .data import Data
from .item import Item
from .registry import all_items
from .report_item import page_name
from .reproduce import reproduce
from .store import FIGURE, Store

PLACE = re.compile(r"(<!-- results (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
NOT_RUN = "Not run yet.\n"


def fill(page: Path, store: Store) -> str:
    """The text of the page with every result put in."""
    items = all_items()

    def put(found: re.Match[str]) -> str:
        item = items.get(found[2])
        return found[1] + (results(item, store, page) if item is not None else NOT_RUN) + found[3]

    return PLACE.sub(put, page.read_text())


def results(item: Item, store: Store, page: Path) -> str:
    """Figure, table and verdicts of an item at full size."""
    if store.result(item, "paper") is None:
        return NOT_RUN
    made = reproduce(item, store, "paper")
    picture = page.parent / "reproduction" / f"{item.name.replace('/', '-')}-paper.png"
    picture.parent.mkdir(parents=True, exist_ok=True)
    files.write_bytes(picture, (made.folder / f"{FIGURE}.png").read_bytes())
    lines = [f"![{item.title}](reproduction/{picture.name})", ""]
    data = store.load(item, "paper")
    if "ends" in data.tables and "drawn at" in data.setting:  # of `beyond_runs.contest`
        lines += [*table(data), ""]
    lines += ["| claim | verdict | measured | margin |", "|---|---|---|---|"]
    for claim in made.claims:
        verdict = "holds" if claim["holds"] else "**does not hold**"
        margin = f"{claim['margin']:.2f}" if claim["margin"] < 100 else f"{claim['margin']:.0e}"
        lines.append(f"| {claim['sentence']} | {verdict} | {claim['measured']} | {margin} |")
    lines += [f"\n*{claim['sentence']}*: {claim['explanation']}" for claim in made.claims if claim["explanation"]]
    return "\n".join([*lines, "", f"Setting and command: [{item.name}](reproduction/{page_name(item)}).", ""])


def table(data: Data) -> list[str]:
    """One row for each kind and variant."""
    drawn = data.setting["drawn at"]
    head = [
        "problems",
        "variant",
        f"end/start at η̄ = {drawn:g}/L (median)",
        "at rounding",
        "still falling or at rounding",
    ]
    head += ["steps η̄L at which 95 % are", "rounds to the goal, best step (median)", "kB to the goal"]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for kind in kinds_of(data):
        for variant in data.labels(kind):
            own = rows(data, kind=kind, variant=variant, step=drawn)
            cells = [kind, variant, f"{np.median(own['end'] / own['start']):.0e}"]
            cells += [f"{share(to_rounding(own)):.0%}", f"{share(contracts(own)):.0%}", step_range(data, kind, variant)]
            cells += [_number(best_of_grid(data, "rounds", variant, kind))]
            cells += [_number(best_of_grid(data, "bytes", variant, kind) / 1000)]
            lines.append(f"| {' | '.join(cells)} |")
    lines.append(f"\nSteps that were tried: η̄L = {', '.join(f'{step:g}' for step in steps_of(data))}.")
    return lines


def _number(values: np.ndarray) -> str:
    middle = float(np.median(values))
    return f"{middle:.0f}" if np.isfinite(middle) else "not reached"


def main(arguments: list[str]) -> None:
    """The command: the page, and where results are."""
    page, root = Path(arguments[0]), Path(arguments[1])
    files.write_text(page, fill(page, Store(root)))


if __name__ == "__main__":
    main(sys.argv[1:])
