"""Memory of requests, and the marks that identify a message that was logged twice.

The mark of a message is the message itself if the whole log is in memory, or in the first megabytes of a long log.
Further on in a long log it is a hash. `wire_session` pairs requests and responses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from trajmill.schemas import json_text, spool

Mark = int | dict[str, Any]
"""A hash of a message, or the message itself."""

_KEPT: Final = 8 << 20


def unhashed_bytes() -> int:
    """Return the bytes at the beginning of a long log whose messages are not hashed, which takes time."""
    return min(_KEPT, spool.HELD_BYTES)


@dataclass(slots=True)
class Request:
    """A request of either side; `call` is the index of its call, `reply` the mark of its response, if any.

    `rival`: another call with the id was open when the request was made.
    """

    method: str
    mark: Mark
    call: int | None = None
    reply: Mark | None = None
    rival: bool = False


def is_open_request(entry: Request | Mark | None) -> bool:
    """Return True if the entry is an unanswered request."""
    return isinstance(entry, Request) and entry.reply is None


def are_same(first: Mark | None, second: Mark | None) -> bool:
    """Return True if two marks belong to equal messages."""
    if type(first) is type(second):
        try:
            return first == second
        except RecursionError:
            pass
    return _hash_of(first) == _hash_of(second)


def _hash_of(mark: Mark | None) -> int | None:
    return hash_body(mark) if isinstance(mark, dict) else mark


def hash_body(body: dict[str, Any]) -> int:
    return hash(json_text(body))
