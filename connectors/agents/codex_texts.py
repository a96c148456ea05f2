"""What Codex writes into strings: who answers its tools, and the texts that it puts into a user's message.

Formats of versions 0.2 to 0.14x, after the client's public source (codex-rs/core/src/tools). What stands around an
output is read by `conversation.client_outputs`. Nothing here knows a line; see `codex.items`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from trajmill.connectors.conversation.tools import MCP_PREFIX, domain_of
from trajmill.connectors.conversation.wrapped_output import limit_of
from trajmill.connectors.reading.values import value_or_none

HARNESS_TOOLS: Final = frozenset(
    {
        "update_plan",
        "tool_search",
        "list_mcp_resources",
        "list_mcp_resource_templates",
        "request_permissions",
        "get_goal",
        "create_goal",
        "update_goal",
        "get_context_remaining",
    }
)
USER_TOOLS: Final = frozenset({"request_user_input"})
AGENT_TOOLS: Final = frozenset(
    {
        "spawn_agent",
        "wait",
        "send_input",
        "send_message",
        "wait_agent",
        "close_agent",
        "resume_agent",
        "list_agents",
        "followup_task",
    }
)
SEARCHES: Final = frozenset({"web_search", "web_fetch"})
_WAITS: Final = ("wait", "wait_agent")

_BY_USER: Final = (
    "exec command rejected by user",
    "patch rejected by user",
    "rejected by user",
    "aborted",
    "user rejected MCP tool call",
)
_BY_HARNESS: Final = (
    "unsupported call: ",
    "unsupported custom tool call",
    "failed to parse function arguments",
    "failed to parse tool arguments",
    "approval policy is ",
    "approval required by policy",
    "exec command rejected: ",
    "patch rejected: ",
    "command rejected: ",
    "tool call error: ",
    "This action was rejected due to unacceptable risk",
)
_CUT: Final = re.compile(
    r"^\[\.\.\. (?:omitted \d+ of \d+ lines|output truncated to fit \d+ bytes) \.\.\.\]$"
    r"|…\d+ (?:tokens|chars|bytes) truncated…",
    re.M,
)

_OUT_OF_TIME: Final = 124

_HARNESS_STARTS: Final = (
    "<user_instructions>",
    "<environment_context>",
    "<environments_context>",
    "<permissions instructions>",
    "<collaboration_mode>",
    "<turn_aborted>",
    "<user_shell_command>",
    "<subagent_notification>",
    "<skill>",
    "<INSTRUCTIONS>",
    "<hook_prompt",
    "# AGENTS.md instructions for ",
    "Warning: The maximum number of unified exec processes",
)
_IDE: Final = "# Context from my IDE setup:"
_REQUEST: Final = "\n## My request for Codex:\n"


def killed_by_code(command: str | None, code: int | None) -> bool:
    """Whether the client killed a command since its time was up, as the exit status that it gives such ones tells.

    `timeout` gives the same, so of a command that names it the status tells nothing.
    """
    return code == _OUT_OF_TIME and "timeout" not in (command or "")


def limit(arguments: str) -> float | None:
    """The seconds that the agent gave a command; the client's own limit is not in the log."""
    given = value_or_none(arguments) if '"timeout' in arguments else None
    told = (given.get("timeout_ms") or given.get("timeout")) if isinstance(given, dict) else None
    return limit_of(told / 1000) if isinstance(told, int | float) and not isinstance(told, bool) else None


def origin(name: str, text: str) -> str:
    """Who answered a call of the tool `name` with `text`; the text is empty if a command put it out."""
    if len(text) < 4096:
        if text.startswith(_BY_USER) and (not text.startswith("aborted") or text[7:8] in ("", " ")):
            return "user"
        if text.startswith(_BY_HARNESS):
            return "harness"
    if name in USER_TOOLS:
        return "user"
    if name in AGENT_TOOLS:
        return "agent" if name in _WAITS else "harness"
    return "harness" if name in HARNESS_TOOLS else "environment"


def truncation(text: str) -> str:
    """`harness` where the agent saw the output cut."""
    return "harness" if (" omitted " in text or "truncated" in text) and _CUT.search(text) else "none"


def domain(names: Iterator[str]) -> str:
    """The domain of a trajectory whose actions have these names."""
    return domain_of(
        names, HARNESS_TOOLS | USER_TOOLS | AGENT_TOOLS, SEARCHES, lambda name: name.startswith(MCP_PREFIX)
    )


def voices(text: str) -> Iterator[tuple[str, str]]:
    """(`user` or `harness`, text) of each piece of one text of a user's message; blank pieces are left out.

    What an editor says of its open files before the request is the harness's.
    """
    if not text or text.isspace():
        return
    if text.lstrip().startswith(_HARNESS_STARTS):
        yield "harness", text
        return
    place = text.find(_REQUEST) if text.startswith(_IDE) else -1
    if place >= 0:
        yield "harness", text[:place].rstrip()
        text = text[place + len(_REQUEST) :].strip()
    if text:
        yield "user", text
