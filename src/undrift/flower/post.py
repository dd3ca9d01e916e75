"""What undrift asks of a federation: who is there, and letters that are answered.

Only `GridPost` knows Flower. All else talks to a `Post`, so that it can be tested without a federation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

KIND = "undrift"  # name of the one query that a client app answers
RECORD = "undrift"  # name of the record that a message consists of
DAYS = 30 * 86400.0  # a ticket is answered when the run is over


@dataclasses.dataclass(frozen=True)
class Reply:
    """To the letter of this number; `trouble` says why there is no content."""

    letter: str
    content: Mapping[str, Any]
    trouble: str = ""


class Post(Protocol):
    """Letters between the server's app and the nodes of a federation."""

    def nodes(self) -> dict[int, str]:
        """The nodes that are there, with the name under which the operator registered each, or ''."""

    def send(self, node: int, content: Mapping[str, Any]) -> str:
        """The letter's number."""

    def collect(self, letters: Iterable[str]) -> list[Reply]:
        """The replies that have come to these letters; each once."""


class GridPost:
    """The post of Flower's Grid."""

    def __init__(self, grid: Any) -> None:
        self.grid = grid
        self._not_taken: set[str] = set()

    def nodes(self) -> dict[int, str]:
        return {node.node_id: node.name for node in self.grid.get_nodes()}

    def send(self, node: int, content: Mapping[str, Any]) -> str:
        from flwr.app import Message

        pushed = list(self.grid.push_messages([Message(pack(content), node, f"query.{KIND}", ttl=DAYS)]))
        if pushed and pushed[0]:
            return str(pushed[0])
        self._not_taken.add(letter := f"not taken {len(self._not_taken)}")
        return letter

    def collect(self, letters: Iterable[str]) -> list[Reply]:
        asked = set(letters)
        lost = [Reply(letter, {}, "Flower did not take the message") for letter in asked & self._not_taken]
        wanted = asked - self._not_taken
        return lost + [_reply(message) for message in (self.grid.pull_messages(wanted) if wanted else [])]


def _reply(message: Any) -> Reply:
    letter = message.metadata.reply_to_message_id
    if message.has_error():
        return Reply(letter, {}, message.error.reason or f"Flower's error {message.error.code}")
    return Reply(letter, unpack(message))


def pack(content: Mapping[str, Any]) -> Any:
    """As what Flower carries."""
    from flwr.app import ConfigRecord, RecordDict

    return RecordDict({RECORD: ConfigRecord(dict(content))})


def unpack(message: Any) -> dict[str, Any]:
    """What a message of Flower holds for us."""
    record = message.content.config_records.get(RECORD)
    return {} if record is None else dict(record)
