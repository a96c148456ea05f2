"""Constructors of calls for the formats of coding agents: tool calls, shell commands, messages, submitted patches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trajmill.connectors.conversation import calls
from trajmill.connectors.conversation.turns import Call
from trajmill.schemas import MESSAGE, json_text

BASH: Final = "bash"
"""Action name of shell commands, the same for all agents."""

SUBMIT: Final = "submit_patch"
"""Action name of submitted patches, for logs that hold the patch but not the call that submitted it."""


def call(
    name: str,
    arguments: Mapping[str, Any] | str | None,
    call_id: str | None = None,
    message: str | None = None,
    reasoning: str | None = None,
) -> Call | None:
    """Build a tool call; None if its arguments are nested too deeply to be stored."""
    try:
        tool_call = calls.call(name, arguments, call_id, 0)
    except calls.MessageError:
        return None
    tool_call.message, tool_call.reasoning = message, reasoning
    return tool_call


def shell(command: str, message: str | None = None, reasoning: str | None = None) -> Call:
    """Build the call of a shell command."""
    return Call(BASH, json_text({"command": command}), None, 0, message=message, reasoning=reasoning)


def spoken(text: str, reasoning: str | None = None) -> Call:
    """Build the call that stands for a message of the agent without an action."""
    return Call(MESSAGE, json_text({"content": text}), None, 0, reasoning=reasoning)


def submission(patch: str) -> Call:
    """Build the call that submits a patch."""
    return Call(SUBMIT, json_text({"patch": patch}), None, 0)
