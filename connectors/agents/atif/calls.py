"""Calls of an ATIF step with their answers. The module `steps` decides which answer belongs to which call."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from trajmill.connectors.agents.atif import values
from trajmill.connectors.conversation.content import media_type
from trajmill.connectors.conversation.turns import Call
from trajmill.connectors.reading.values import value_or_none
from trajmill.schemas import Observation


def first_among(calls: list[Call], wanted: list[Call]) -> int | None:
    """Return the index of the first call that is one of `wanted` (by identity; not empty); None if there is none."""
    if calls and calls[0] is wanted[0]:
        return 0
    for index, call in enumerate(calls):
        for target in wanted:
            if call is target:
                return index
    return None


def join_observations(first: Observation | None, second: Observation | None) -> Observation | None:
    """Join the observations of two results of one call."""
    if first is None or second is None:
        return first or second
    texts = [observation.content for observation in (first, second) if observation.content is not None]
    content = "\n".join(texts) if texts else None
    return replace(
        first,
        content=content,
        media_type=media_type(content),
        is_error=first.is_error or second.is_error,
        truncation=first.truncation if second.truncation == "none" else second.truncation,
        attachments=(*first.attachments, *second.attachments),
    )


def are_terminus_calls(calls: list[Any]) -> bool:
    """Return True if all calls of a step are calls of Terminus-2."""
    return bool(calls) and all(
        (
            call.get("function_name") == "bash_command"
            and isinstance(values.table(call, "arguments").get("keystrokes"), str)
        )
        or call.get("function_name") == "mark_task_complete"
        if isinstance(call, dict)
        else False
        for call in calls
    )


def commands_of(message: str) -> list[dict[str, Any]] | None:
    """Parse the commands of a verbatim response of Terminus-2; None if it holds none."""
    start, end = message.find("{"), message.rfind("}")
    commands = values.items(value_or_none(message[start : end + 1]), "commands")
    good = all(isinstance(command, dict) and isinstance(command.get("keystrokes"), str) for command in commands)
    return commands if commands and good else None
