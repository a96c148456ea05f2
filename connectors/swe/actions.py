"""Actions of agents that solve issues, as calls: of tools, of a line of shell, of a patch, or saying something."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trajmill.connectors.conversation import calls
from trajmill.connectors.conversation.turns import Call
from trajmill.schemas import MESSAGE, json_text

BASH: Final = "bash"
"""Name of the action that is a line of shell, whichever agent typed it."""

SUBMIT: Final = "submit_patch"
"""Name of the action by which a patch is handed in, where the log holds the patch and not the call."""


def call(
    name: str,
    arguments: Mapping[str, Any] | str | None,
    call_id: str | None = None,
    message: str | None = None,
    reasoning: str | None = None,
) -> Call | None:
    """A call as `conversation.calls.call` makes it; None where its arguments are nested too deeply to be carried on."""
    try:
        tool_call = calls.call(name, arguments, call_id, 0)
    except calls.MessageError:
        return None
    tool_call.message, tool_call.reasoning = message, reasoning
    return tool_call


def shell(command: str, message: str | None = None, reasoning: str | None = None) -> Call:
    """A line of shell as a call of `bash`."""
    return Call(BASH, json_text({"command": command}), None, 0, message=message, reasoning=reasoning)


def spoken(text: str, reasoning: str | None = None) -> Call:
    """Return the call that stands for words of the agent without an action."""
    return Call(MESSAGE, json_text({"content": text}), None, 0, reasoning=reasoning)


def submission(patch: str) -> Call:
    """A patch handed in."""
    return Call(SUBMIT, json_text({"patch": patch}), None, 0)
