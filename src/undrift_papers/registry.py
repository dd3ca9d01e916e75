"""All items by name."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence

from undrift.errors import InputError, unknown

from .item import BEYOND, Item

MODULES = (
    "fedlin",
    "fedlin_table",
    "fedlin_price",
    "fedlin_lower",
    "fedlin_memory",
    "fedlin_distortion",
    "fedlin_fixed_point",
    "fedlin_fedsplit",
    "ssl",
    "ssl_partition",
    "ssl_local_steps",
    "ssl_table1",
    "ssl_sampling",
    "ssl_rounds",
    "learning_ssl",
    "learning_variants",
    "learning_grid",
    "learning_clipping",
    "learning_published",
    "learning_cifar",
    "learning_fair",
    "fedavg_local_steps",
    "fedavg_prox",
    "fedavg_bound",
    "fedavg_published",
    "fedavg_lemmas",
    "learning_fedavg",
    "fedtrack",
    "fedtrack_cost",
    "beyond_table",
    "beyond_exchange",
    "beyond_difference",
    "beyond_models",
    "beyond_noise",
    "beyond_fedtrack",
    "beyond_ef21",
    "beyond_scaffnew",
    "beyond_sequence",
    "beyond_sequence_random",
    "beyond_sequence_images",
    "beyond_private",
    "beyond_certificates",
)


def all_items() -> dict[str, Item]:
    """name -> item, paper by paper, figures before tables before theorems; past the papers as the modules have them."""
    items: dict[str, Item] = {}
    for name in MODULES:
        for item in importlib.import_module(f"{__package__}.{name}").ITEMS:
            items[item.name] = item
    return {name: items[name] for name in sorted(items, key=lambda name: _order(name, list(items)))}


def _order(name: str, names: list[str]) -> tuple[int, bool, str, int, str]:
    """Papers as the modules have them; fig2 before fig10, and what has no number in its paper behind what has one."""
    paper, _, rest = name.partition("/")
    first = next(i for i, other in enumerate(names) if other.startswith(f"{paper}/"))
    if paper == BEYOND:
        return first, False, "", names.index(name), ""
    numbered = re.match(r"([a-z]+)(\d+)(.*)", rest)
    if numbered is None:
        return first, True, rest, 0, ""
    return first, False, numbered[1], int(numbered[2]), numbered[3]


def select(words: Sequence[str], everything: bool = False) -> list[Item]:
    """The items that these words mean: a name (fedlin/fig2) or a paper (fedlin).

    >>> [item.name for item in select(["fedlin/fig1", "fedlin/fig1"])]
    ['fedlin/fig1']
    """
    items = all_items()
    if everything:
        return list(items.values())
    if not words:
        raise InputError("say what to reproduce: an item (fedlin/fig2), a paper (fedlin) or --all; --list names them")
    papers = {item.paper for item in items.values()}
    chosen: dict[str, Item] = {}
    for word in words:
        found = [item for item in items.values() if word in (item.name, item.paper)]
        if not found:
            raise unknown("item", word, [*papers, *items])
        chosen |= {item.name: item for item in found}
    return list(chosen.values())
