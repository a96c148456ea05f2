"""Unified diffs of file edits: of calls that hold the old and the new text, and of submitted patches.

Recognized are agents' tools that replace a text (`str_replace`, Claude Code's `Edit` and `MultiEdit`, Gemini's
`replace`, the edits of MCP's file server), create a file (`create`, a replacement of nothing) or insert lines, and
`submit_patch`. A call that overwrites a file without its old text is not recognized.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Final, Literal, TypeAlias

from trajmill.connectors.reading.values import value_or_none
from trajmill.schemas import json_text

Edits: TypeAlias = Literal["call", "diff"]

_PATHS: Final = ("path", "file_path", "filePath", "filename", "target_file")
_PAIRS: Final = (("old_str", "new_str"), ("old_string", "new_string"), ("oldText", "newText"), ("old_text", "new_text"))
_REPLACING: Final = (None, "str_replace", "replace", "edit")
_INSERTED: Final = ("new_str", "insert_text", "new_text")
_PATCHES: Final[Mapping[str, str]] = {"submit_patch": "patch"}
_ANYWHERE: Final = "@@ ... @@"
"""Header of a hunk whose call does not state its place in the file."""

_COMPARED: Final = 4_000_000
"""Largest product of line counts at which two texts are compared line by line.

Above it, all old lines are removed and all new ones added.
"""


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit as a diff: the text of the call without the parts in the diff, and the diff with a final line feed."""

    call: str
    diff: str


def edit_of(text: str) -> Edit | None:
    """Return the edit of an action's text; None if it does not hold both the old and the new text.

    Args:
        text: the action's text, `{"name": …, "arguments": {…}}`.
    """
    value = value_or_none(text)
    arguments = value.get("arguments") if isinstance(value, dict) else None
    if not isinstance(arguments, dict):
        return None
    patch = arguments.get(_PATCHES.get(str(value.get("name")), ""))
    if isinstance(patch, str):
        names, diff = set(_PATCHES.values()), patch
    else:
        path = next((arguments[key] for key in _PATHS if isinstance(arguments.get(key), str)), None)
        edit_parts = _hunks(arguments) if path is not None else None
        if edit_parts is None:
            return None
        names, is_new, hunks = edit_parts
        old = "/dev/null" if is_new else f"a/{str(path).lstrip('/')}"
        diff = "".join([f"--- {old}\n+++ b/{str(path).lstrip('/')}\n", *hunks])
    rest = {key: argument for key, argument in arguments.items() if key not in names}
    return Edit(json_text({**value, "arguments": rest}), diff if diff.endswith("\n") else f"{diff}\n")


_WHOLE: Final = ("content", "contents", "file_text")
"""Arguments that hold the content in a call that writes a whole file."""


def path_of_edit(text: str) -> str | None:
    """Return the path of the file that an action's text edits or writes; None if it does neither."""
    value = value_or_none(text)
    arguments = value.get("arguments") if isinstance(value, dict) else None
    if not isinstance(arguments, dict):
        return None
    path = next((arguments[key] for key in _PATHS if isinstance(arguments.get(key), str)), None)
    if path is None:
        return None
    writes = any(isinstance(arguments.get(key), str) for key in _WHOLE)
    return path if writes or _hunks(arguments) is not None else None


def _hunks(arguments: Mapping[str, Any]) -> tuple[set[str], bool, list[str]] | None:
    """Return (arguments that the hunks contain, whether the file is new, the hunks) of a call that names a file."""
    command = arguments.get("command")
    file_text = arguments.get("file_text")
    if command == "create" and isinstance(file_text, str):
        return {"file_text"}, True, [_insertion_hunk(0, file_text)]
    if command == "insert":
        line = arguments.get("insert_line")
        key = next((key for key in _INSERTED if isinstance(arguments.get(key), str)), None)
        if key is None or type(line) is not int or line < 0:
            return None
        return {key, "insert_line"}, False, [_insertion_hunk(line, arguments[key])]
    edits = arguments.get("edits")
    if isinstance(edits, list) and edits:
        several = [_replacement_hunk(edit) if isinstance(edit, dict) else None for edit in edits]
        hunks = [
            replacement[2]
            for edit, replacement in zip(edits, several, strict=True)
            if replacement is not None and edit.keys() == set(replacement[0])
        ]
        return ({"edits"}, False, hunks) if len(hunks) == len(edits) else None
    single = _replacement_hunk(arguments) if command in _REPLACING else None
    return None if single is None else (set(single[0]), single[1], [single[2]])


def _replacement_hunk(arguments: Mapping[str, Any]) -> tuple[tuple[str, str], bool, str] | None:
    """Return (names of old and new text, whether the old text is empty, the hunk); None if a text is missing."""
    for old, new in _PAIRS:
        old_text, new_text = arguments.get(old), arguments.get(new)
        if isinstance(old_text, str) and (isinstance(new_text, str) or (new_text is None and "command" in arguments)):
            return (
                (old, new),
                not old_text,
                _change_hunk(old_text, new_text or "") if old_text else _insertion_hunk(0, new_text or ""),
            )
    return None


def _insertion_hunk(line: int, text: str) -> str:
    """Format the hunk of lines that are inserted after a line of the file; 0 is its beginning."""
    added = _lines(text)
    end = "" if not added or text.endswith("\n") or line else "\\ No newline at end of file\n"
    return f"@@ -{line},0 +{line + 1},{len(added)} @@\n" + "".join(f"+{added_line}\n" for added_line in added) + end


def _change_hunk(old_text: str, new_text: str) -> str:
    """Format the hunk that changes one text into another, with all lines of both.

    Where only one of them ends in a line feed, the empty last line counts too.
    """
    whole = all(text.endswith("\n") or not text for text in (old_text, new_text))
    before, after = (_lines(text) if whole or not text else text.split("\n") for text in (old_text, new_text))
    kinds = (
        SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
        if len(before) * len(after) <= _COMPARED
        else [("replace", 0, len(before), 0, len(after))]
    )
    hunk_lines: list[str] = []
    for kind, a, b, c, d in kinds:
        if kind == "equal":
            hunk_lines += [f" {line}\n" for line in before[a:b]]
        else:
            hunk_lines += [f"-{line}\n" for line in before[a:b]] + [f"+{line}\n" for line in after[c:d]]
    return f"{_ANYWHERE}\n{''.join(hunk_lines)}"


def _lines(text: str) -> list[str]:
    """Return the lines of a text. A line feed at the end starts no further line."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines
