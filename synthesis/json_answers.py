"""JSON that a model was asked for: the object in its answer, whatever stands around it."""

from __future__ import annotations

import json
from typing import Any

from trajmill.synthesis.replies import Reply


def object_in(reply: Reply) -> dict[str, Any] | None:
    """The last whole JSON object in an answer, without what was thought before it; None if there is none."""
    if reply.finish in ("refused", "length"):
        return None
    text = reply.content.rpartition("</think>")[2]
    decoder = json.JSONDecoder()
    found, place = None, text.find("{")
    while place >= 0:
        try:
            value, end = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            end = place + 1
        else:
            found = value if isinstance(value, dict) else found
        place = text.find("{", end)
    return found
