"""What tools of files answer, told by their names: they read, write and edit files whose texts are known by then."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Any, Final

from trajmill.quality.derivable.known_texts import KnownTexts

WRITES: Final = frozenset({"write_file", "create_file", "Write", "write_to_file"})
READS: Final = frozenset({"read_file", "Read", "read_text_file"})
EDITS: Final = frozenset({"Edit", "edit_file", "replace"})
EDITOR: Final = "str_replace_editor"
"""Reads, writes and edits by its argument `command`."""

_PATHS: Final = ("path", "file_path", "absolute_path", "filename")
_CONTENTS: Final = ("content", "file_text", "contents", "text")
_HARMLESS: Final = re.compile(
    r"(?i)(?:get|list|search|find|read|view|grep|glob|ls|todo|update_plan|think|wait|task_complete|web|fetch|lookup|query"
    r"|calculate|describe|show|count)"
)
_FAILED: Final = re.compile(
    r"(?i)\b(?:error|fail(?:ed|ure)?|no such|not found|denied|invalid|did not|cannot|could not)\b"
)


def only_looks(name: str) -> bool:
    """Whether a tool that is not known otherwise is taken, by its name, to change no file."""
    return bool(_HARMLESS.match(name))


def answered(files: KnownTexts, name: str, given: Mapping[str, Any]) -> str | None:
    """What a reading tool answers, if the file is known; None for every other call.

    Args:
        files: those that are known.
        name: of the tool.
        given: its arguments.
    """
    path = _path(given)
    text = files.get(path) if path else None
    if text is None:
        return None
    lines = text.removesuffix("\n").split("\n")
    if name == EDITOR and given.get("command") == "view":
        first, last = _range(given.get("view_range"), len(lines))
        shown = [f"{number:6}\t{line}" for number, line in enumerate(lines, 1) if first <= number <= last]
        return f"Here's the result of running `cat -n` on {_named(given)}:\n" + "\n".join(shown)
    if name == "Read":
        first, limit = given.get("offset") or 1, given.get("limit") or 2000
        if not isinstance(first, int) or not isinstance(limit, int):
            return None
        return "\n".join(
            f"{number:6}→{line}" for number, line in enumerate(lines, 1) if first <= number < first + limit
        )
    return text if name in READS and not ({"offset", "limit", "head", "tail"} & given.keys()) else None


def followed(files: KnownTexts, name: str, given: Mapping[str, Any], answer: str | None, *, failed: bool) -> None:
    """Changes the files that are known as the call did.

    Args:
        files: those that are known; they are changed.
        name: of the tool.
        given: its arguments.
        answer: what was shown.
        failed: whether the answer is marked as an error.
    """
    what = str(given.get("command")) if name == EDITOR else ""
    path = _path(given)
    if name in READS or what == "view" or only_looks(name):
        is_whole = name in READS - {"Read"} and given.keys() <= set(_PATHS)
        is_fresh = path is not None and answer and not failed and files.get(path) is None
        if is_whole and is_fresh and path and answer and not _FAILED.search(answer[:200]):
            files.put(path, answer)
        return
    if path is None or (name not in WRITES | EDITS and name != EDITOR):
        files.forget()
        return
    before = files.get(path)
    files.change(path)
    if answer is None or failed or _FAILED.search(answer[:200]):
        return
    if name in WRITES or what == "create":
        text = next((given[key] for key in _CONTENTS if isinstance(given.get(key), str)), None)
    else:
        text = _edited(before, what, given) if before is not None else None
    if text is not None:
        files.put(path, text)


def _edited(text: str, what: str, given: Mapping[str, Any]) -> str | None:
    if what == "insert":
        at, new = given.get("insert_line"), given.get("new_str")
        lines = text.split("\n")
        if not isinstance(at, int) or not isinstance(new, str) or not 0 <= at <= len(lines):
            return None
        return "\n".join([*lines[:at], *new.split("\n"), *lines[at:]])
    old = given.get("old_str", given.get("old_string"))
    new = given.get("new_str", given.get("new_string", ""))
    if not isinstance(old, str) or not isinstance(new, str) or not old:
        return None
    return text.replace(old, new) if text.count(old) == 1 else None


def _named(given: Mapping[str, Any]) -> str:
    return next((given[key] for key in _PATHS if isinstance(given.get(key), str)), "")


def _path(given: Mapping[str, Any]) -> str | None:
    name = _named(given)
    return posixpath.normpath(name) if name else None


def _range(asked: object, last: int) -> tuple[int, int]:
    if isinstance(asked, list) and len(asked) == 2 and all(isinstance(one, int) for one in asked):
        return asked[0], last if asked[1] == -1 else asked[1]
    return 1, last
