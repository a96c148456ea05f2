"""Files that are one JSON document, read whole, and JSON text of bounded depth for what is carried on.

Where a file's records are wanted one at a time, see `elements`.
"""

from __future__ import annotations

import json
from typing import Any, Final

import orjson

from connectors.connector import Blob
from schemas import ParseError

_BOM: Final = b"\xef\xbb\xbf"
_DEPTH: Final = 64
_NUMBERS: Final = (b"NaN", b"Infinity")


def json_document(blob: Blob, member: str = "") -> tuple[Any, bytes]:
    """The JSON value that a member is, and its bytes; NaN and infinities, which Python writes, become null.

    Raises:
        ParseError: `empty`, `truncated` (the document ends early) or `bad_json`, with the offset where reading failed.
    """
    data = blob.read(member)
    body = data.removeprefix(_BOM)
    if not body.strip():
        raise ParseError(blob.uri, 0, "empty", "wanted a JSON document, met nothing", member)
    try:
        return orjson.loads(body), data
    except orjson.JSONDecodeError as error:
        if any(word in body for word in _NUMBERS) or b"\\ud" in body:
            try:
                return json.loads(body, parse_constant=lambda _: None), data
            except (ValueError, RecursionError):
                pass
        place = len(data) - len(body) + len(error.doc[: error.pos].encode("utf-8", "replace"))
        place = min(place, len(data))
        reason = "truncated" if not data[place:].strip() or body.rstrip()[-1:] not in b"}]" else "bad_json"
        detail = f"wanted a JSON document: {error.msg}"
        raise ParseError(blob.uri, place, reason, detail, member, data[max(0, place - 200) :][:400]) from None


def bounded(value: Any, depth: int = _DEPTH) -> Any:
    """`value` with what is nested more than `depth` deep replaced by null, so that its JSON text can be read again."""
    if isinstance(value, dict):
        return {key: bounded(item, depth - 1) for key, item in value.items()} if depth > 0 else None
    if isinstance(value, list):
        return [bounded(item, depth - 1) for item in value] if depth > 0 else None
    return value


def object_of(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def text_of(value: Any) -> str:
    """The value if it is text, else an empty one."""
    return value if isinstance(value, str) else ""
