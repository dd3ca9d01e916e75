"""Which node of a federation is which site of a run.

A site is known by the name under which the operator registered its SuperNode (`flwr supernode register KEY --name …`), which
the node cannot change. Where nodes have no names, as in Flower's simulation, each is asked once; who comes first with a name
keeps it for the run.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from .post import Post

log = logging.getLogger("undrift.flower")
WHO = "who"


class Roll:
    """The sites that are there, by node. `present` asks the federation."""

    def __init__(self, post: Post, sites: list[str]) -> None:
        self.post, self.sites = post, sites
        self.bound: dict[str, int] = {}
        self._asked: dict[int, str] = {}  # node -> the letter that asks for its name
        self._settled: set[int] = set()  # nodes whose name is known, or that have no place in the run

    def present(self) -> dict[str, int]:
        """site -> node, for the sites that can be written to now."""
        nodes = self.post.nodes()
        for node, name in nodes.items():
            if node in self._settled or node in self._asked:
                continue
            if name:
                self._bind(node, name, nodes)
            else:
                self._asked[node] = self.post.send(node, {"ask": WHO})
        self._hear(nodes)
        return {site: node for site, node in self.bound.items() if node in nodes}

    def _hear(self, nodes: Mapping[int, str]) -> None:
        by_letter = {letter: node for node, letter in self._asked.items()}
        for reply in self.post.collect(by_letter) if by_letter else []:
            node = by_letter[reply.letter]
            del self._asked[node]
            if reply.trouble:
                log.warning("node %s did not say who it is: %s", node, reply.trouble)  # and is asked again
            else:
                self._bind(node, self._name(reply.content), {})

    def _name(self, content: Mapping[str, Any]) -> str:
        """What a node says of itself: a name, or the number of its part of the data."""
        site, part = content.get("site"), content.get("part")
        if isinstance(site, str) and site:
            return site
        if isinstance(part, int) and 0 <= part < len(self.sites):
            return self.sites[part]
        return ""

    def _bind(self, node: int, name: str, nodes: Mapping[int, str]) -> None:
        """`nodes`: those that are there, where names are the operator's: a node that is gone may then be replaced."""
        self._settled.add(node)
        holder = self.bound.get(name)
        if name not in self.sites:
            log.warning("node %s (%s) has no place in this run: its sites are %s", node, name, ", ".join(self.sites))
        elif holder is not None and (not nodes or holder in nodes):
            log.warning("node %s says that it is %s, which is node %s: refused", node, name, holder)
        else:
            self.bound[name] = node
