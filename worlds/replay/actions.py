"""Requests to a box for the logged actions that it can run: commands, keys, file tools, SQL."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from trajmill.schemas import MESSAGE

WORLDS: Final = {"terminal": "terminal", "swe": "swe", "mcp-sqlite": "mcp", "awm": "mcp"}
"""Domain of each world's rows. For `awm` nothing is run: its databases show what was written."""

SQL_TOOLS: Final = frozenset({"read_query", "write_query", "create_table", "list_tables", "describe_table"})
_SHELLS: Final = frozenset(
    [
        "bash",
        "Bash",
        "shell",
        "sh",
        "execute_bash",
        "execute_command",
        "run_command",
        "run_shell_command",
        "run_terminal_cmd",
        "run_in_terminal",
        "terminal",
        "exec",
        "exec_command",
        "local_shell",
        "Shell",
    ]
)
_READS: Final = frozenset({"Read", "read_file", "view", "open_file"})
_WRITES: Final = frozenset({"Write", "write_file", "create_file", "write_to_file"})
_EDITS: Final = frozenset({"Edit", "edit_file", "MultiEdit", "replace"})
_EDITORS: Final = frozenset({"str_replace_editor", "str_replace_based_edit_tool", "edit_anthropic"})
_LOOKS: Final = re.compile(
    r"(?i)(?:message|think|todo|task|plan|finish|submit|done|grep|glob|ls|list|search|find|web|fetch|get|wait|append_insight)"
)
_SUBMIT: Final = "git add -A && git diff --cached"
"""Command that shows a submitted patch."""

_PATHS: Final = ("path", "file_path", "filename", "absolute_path")
_TEXTS: Final = ("content", "file_text", "contents", "text")
QUIET_S: Final = 0.25
"""Seconds without output after which the screen of a terminal counts as the answer."""

_PATIENCE_S: Final = 3.0
"""Seconds that a terminal may take beyond twice the logged wait."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Request to a box for one action.

    Attributes:
        request: Request; None if a box cannot run the action.
        kind: `text`, `screen`, `view` (of a file) or `edit`: the way in which the answer is compared with the log.
        reason: Reason why there is no request.
        may_change: True if an action that is not run may have changed the environment nevertheless.
    """

    request: Mapping[str, Any] | None
    kind: str = "text"
    reason: str = ""
    may_change: bool = False


def plan_request(world: str, row: Mapping[str, Any]) -> Asked:
    """Plan the request to a world's box for the action of a transition."""
    name, arguments = row["action"]["name"] or "", arguments_of(row)
    answered = row["next_observation"]
    if name == MESSAGE:
        return Asked(None, reason="no_tool")
    if answered is not None and answered["origin"] != "environment":
        return Asked(None, reason="not_the_environment")
    if arguments is None:
        return Asked(None, reason="unreadable", may_change=True)
    if world == "mcp-sqlite":
        tool = name.rpartition("__")[2]  # behind `mcp__<server>__`, where an agent says so
        if tool in SQL_TOOLS:
            return Asked({"do": "sql", "tool": tool, "arguments": arguments})
        return Asked(None, reason="unknown_tool", may_change=not _LOOKS.match(name))
    if name == "keystrokes":
        return _terminal_request(row, arguments)
    if world == "swe" and (name == "submit" or (name in _SHELLS and _command(arguments) == "submit")):
        return Asked({"do": "run", "command": _SUBMIT, "keeps_folder": False, "apart": False})
    if name in _SHELLS and (command := _command(arguments)) is not None:
        return Asked(_in_shell(row["provenance"]["connector"], command))
    request = _of_file(name, arguments)
    return request or Asked(None, reason="unknown_tool", may_change=not _LOOKS.match(name))


def arguments_of(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the arguments of an action; None if they are not an object."""
    try:
        arguments = json.loads(row["action"]["arguments"] or "{}")
    except ValueError:
        return None
    return arguments if isinstance(arguments, dict) else None


def _command(arguments: Mapping[str, Any]) -> str | None:
    for key in ("command", "cmd", "script"):
        value = arguments.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            return value[2] if value[:2] in (["bash", "-lc"], ["bash", "-c"]) and len(value) == 3 else " ".join(value)
    return None


def _in_shell(connector: str, command: str) -> dict[str, Any]:
    """Build the request for a command as its harness runs it: in a bash for each, or all in one."""
    if connector == "mini_swe_agent":
        return {"do": "run", "command": command, "keeps_folder": False, "apart": False}
    if connector == "claude_code":
        return {"do": "run", "command": command, "keeps_folder": True, "apart": True}
    return {"do": "shell", "command": command}


def _terminal_request(row: Mapping[str, Any], arguments: Mapping[str, Any]) -> Asked:
    strokes = arguments.get("keystrokes")
    observation = row["next_observation"]
    if observation is not None and observation["form"] != "screen":
        return Asked(None, reason="unknown_tool", may_change=True)
    if not isinstance(strokes, list) or not all(isinstance(stroke, dict) for stroke in strokes):
        return Asked(None, reason="unreadable", may_change=True)
    keys = [str(stroke.get("keystrokes", "")) for stroke in strokes]
    waits = [stroke.get("duration") for stroke in strokes]
    longest = max((float(wait) for wait in waits if isinstance(wait, int | float)), default=0.0)
    quiet = min(max(QUIET_S, longest + QUIET_S if longest > 4 * QUIET_S else QUIET_S), 5.0)
    most = 2 * longest + _PATIENCE_S
    return Asked({"do": "keys", "keys": "".join(keys), "quiet": quiet, "most": most}, "screen")


def _of_file(name: str, arguments: Mapping[str, Any]) -> Asked | None:
    path = next((arguments[key] for key in _PATHS if isinstance(arguments.get(key), str)), None)
    if path is None or "\0" in path:
        return None
    text = next((arguments[key] for key in _TEXTS if isinstance(arguments.get(key), str)), None)
    act = str(arguments.get("command")) if name in _EDITORS else ""
    file = {"do": "file", "path": path}
    if name in _READS or act == "view":
        return Asked({**file, "act": "read", "whole": not _is_part(arguments)}, "view")
    if (name in _WRITES or act == "create") and text is not None:
        return Asked({**file, "act": "write", "text": text, "new": act == "create"}, "edit")
    if act == "insert" and isinstance(arguments.get("insert_line"), int):
        return Asked({**file, "act": "insert", "line": arguments["insert_line"], "text": _new(arguments)}, "edit")
    if act == "undo_edit":
        return Asked({**file, "act": "undo"}, "edit")
    if name in _EDITS or act == "str_replace":
        edits = arguments.get("edits")
        changes = [_change(edit) for edit in (edits if isinstance(edits, list) else [arguments])]
        return Asked({**file, "act": "edit", "changes": changes}, "edit")
    return None


def _is_part(arguments: Mapping[str, Any]) -> bool:
    return any(arguments.get(key) for key in ("offset", "limit", "view_range", "start_line", "end_line"))


def _change(edit: Any) -> dict[str, Any]:
    fields = edit if isinstance(edit, dict) else {}
    old = fields.get("old_str", fields.get("old_string"))
    return {
        "old": old if isinstance(old, str) else "",
        "new": _new(fields),
        "all": fields.get("replace_all") is True,
    }


def _new(edit: Mapping[str, Any]) -> str:
    new = edit.get("new_str", edit.get("new_string", edit.get("insert_text", "")))
    return new if isinstance(new, str) else ""
