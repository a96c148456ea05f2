"""What tells a message of a wire log from another, so that one that was logged twice is known again.

The message itself does, and is kept where the log stands in memory anyway, and of the first megabytes of a long one;
of a later message only a hash is. Pairs of requests and responses are the matter of `wire_session`.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from connectors.mcp.wire_values import shallow_json
from schemas import spool

Mark = int | dict[str, Any]
"""A hash of a message, or the message itself."""

_KEPT: Final = 8 << 20


def kept_bytes() -> int:
    """Bytes of a long log whose messages are kept, since hashing one takes a tenth of what reading it does."""
    return min(_KEPT, spool.HELD_BYTES)


def same(first: Mark | None, second: Mark | None) -> bool:
    """Whether two marks are of equal messages."""
    if type(first) is type(second):
        try:
            return first == second
        except RecursionError:
            pass
    return _hash_of(first) == _hash_of(second)


def _hash_of(mark: Mark | None) -> int | None:
    return hashed(mark) if isinstance(mark, dict) else mark


def hashed(body: dict[str, Any]) -> int:
    try:
        return hash(orjson.dumps(body))
    except orjson.JSONEncodeError:
        return hash(shallow_json(body))
