"""Which actions of a log a box can run, and how it is asked to: commands, keys, tools of files, SQL."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from trajmill.schemas import MESSAGE

WORLDS: Final = {"terminal": "terminal", "swe": "swe", "mcp-sqlite": "mcp", "awm": "mcp"}
"""The domain of each world's rows. Of `awm` nothing is run: its databases tell what was written."""

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
"""What handing in a patch shows."""

_PATHS: Final = ("path", "file_path", "filename", "absolute_path")
_TEXTS: Final = ("content", "file_text", "contents", "text")
QUIET_S: Final = 0.25
"""For so long a terminal puts out nothing before what it shows is taken for its answer."""

_PATIENCE_S: Final = 3.0
"""By so much a terminal may be slower than one that was twice as fast as it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a box is asked for, for an action.

    Attributes:
        request: None where the action is nothing that a box can run.
        kind: `text`, `screen`, `view` (of a file) or `edit`: how the answer is held against the log.
        reason: why nothing is asked.
        may_change: whether an action that is not run may have changed the world all the same.
    """

    request: Mapping[str, Any] | None
    kind: str = "text"
    reason: str = ""
    may_change: bool = False


def asked(world: str, row: Mapping[str, Any]) -> Asked:
    """What a world's box is asked for, for the action of a transition."""
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
        return _typed(row, arguments)
    if world == "swe" and (name == "submit" or (name in _SHELLS and _command(arguments) == "submit")):
        return Asked({"do": "run", "command": _SUBMIT, "keeps_folder": False, "apart": False})
    if name in _SHELLS and (command := _command(arguments)) is not None:
        return Asked(_in_shell(row["provenance"]["connector"], command))
    found = _of_file(name, arguments)
    return found or Asked(None, reason="unknown_tool", may_change=not _LOOKS.match(name))


def arguments_of(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """The arguments of an action; None if they are no object."""
    try:
        found = json.loads(row["action"]["arguments"] or "{}")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _command(arguments: Mapping[str, Any]) -> str | None:
    for key in ("command", "cmd", "script"):
        told = arguments.get(key)
        if isinstance(told, str):
            return told
        if isinstance(told, list) and all(isinstance(one, str) for one in told):
            return told[2] if told[:2] in (["bash", "-lc"], ["bash", "-c"]) and len(told) == 3 else " ".join(told)
    return None


def _in_shell(connector: str, command: str) -> dict[str, Any]:
    """How a harness runs a command: in a bash of its own, which may leave its folder to the next, or in one for all."""
    if connector == "mini_swe_agent":
        return {"do": "run", "command": command, "keeps_folder": False, "apart": False}
    if connector == "claude_code":
        return {"do": "run", "command": command, "keeps_folder": True, "apart": True}
    return {"do": "shell", "command": command}


def _typed(row: Mapping[str, Any], arguments: Mapping[str, Any]) -> Asked:
    strokes = arguments.get("keystrokes")
    observation = row["next_observation"]
    if observation is not None and observation["form"] != "screen":
        return Asked(None, reason="unknown_tool", may_change=True)
    if not isinstance(strokes, list) or not all(isinstance(one, dict) for one in strokes):
        return Asked(None, reason="unreadable", may_change=True)
    keys = [str(one.get("keystrokes", "")) for one in strokes]
    waits = [one.get("duration") for one in strokes]
    longest = max((float(one) for one in waits if isinstance(one, int | float)), default=0.0)
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
        changes = [_change(one) for one in (edits if isinstance(edits, list) else [arguments])]
        return Asked({**file, "act": "edit", "changes": changes}, "edit")
    return None


def _is_part(arguments: Mapping[str, Any]) -> bool:
    return any(arguments.get(key) for key in ("offset", "limit", "view_range", "start_line", "end_line"))


def _change(given: Any) -> dict[str, Any]:
    told = given if isinstance(given, dict) else {}
    old = told.get("old_str", told.get("old_string"))
    return {
        "old": old if isinstance(old, str) else "",
        "new": _new(told),
        "all": told.get("replace_all") is True,
    }


def _new(given: Mapping[str, Any]) -> str:
    new = given.get("new_str", given.get("new_string", given.get("insert_text", "")))
    return new if isinstance(new, str) else ""
