"""Calls of an ATIF step and what answered them, judged one by one; which answer is whose is told in `steps`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from trajmill.connectors.agents.atif import values
from trajmill.connectors.conversation.content import media_type
from trajmill.connectors.conversation.turns import Call
from trajmill.connectors.reading.values import value_or_none
from trajmill.schemas import Observation


def first_among(calls: list[Call], wanted: list[Call]) -> int | None:
    """The place of the first call that is one of those `wanted` (not empty), and not merely equal; None if none is."""
    if calls and calls[0] is wanted[0]:
        return 0
    for place, call in enumerate(calls):
        for one in wanted:
            if call is one:
                return place
    return None


def together(first: Observation | None, second: Observation | None) -> Observation | None:
    """What two results of one call show, as the parts of one content are joined."""
    if first is None or second is None:
        return first or second
    texts = [one.content for one in (first, second) if one.content is not None]
    content = "\n".join(texts) if texts else None
    return replace(
        first,
        content=content,
        media_type=media_type(content),
        is_error=first.is_error or second.is_error,
        truncation=first.truncation if second.truncation == "none" else second.truncation,
        attachments=(*first.attachments, *second.attachments),
    )


def all_typed(given: list[Any]) -> bool:
    """Whether all calls of a step are those of Terminus-2."""
    return bool(given) and all(
        (
            one.get("function_name") == "bash_command"
            and isinstance(values.table(one, "arguments").get("keystrokes"), str)
        )
        or one.get("function_name") == "mark_task_complete"
        if isinstance(one, dict)
        else False
        for one in given
    )


def commands_of(message: str) -> list[dict[str, Any]] | None:
    """The commands of a response of Terminus-2 that stands as it was given, None if it holds none."""
    start, end = message.find("{"), message.rfind("}")
    commands = values.items(value_or_none(message[start : end + 1]), "commands")
    good = all(isinstance(one, dict) and isinstance(one.get("keystrokes"), str) for one in commands)
    return commands if commands and good else None
