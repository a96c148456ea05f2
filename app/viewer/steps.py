"""Values of the page of a step: action, observations before and after, the changes between them, and the use of the
row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from trajmill.app.pages.contents import Contents
from trajmill.app.pages.differences import Line, difference
from trajmill.app.pages.observations import Shown, shown, shown_text

_COMPARED: Final = frozenset({"screen", "state"})
"""Forms of observations that are compared with the next one."""

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_TARGET: Final = ("element", "ref", "target")
"""Arguments of an action that name its target element."""

_MAGIC: Final = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))
SIDES: Final = {"before": "observation", "after": "next_observation"}


def step_values(contents: Contents, trajectory: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a step for its templates."""
    action = row["action"]
    arguments = _arguments(action["arguments"])
    target = next((str(arguments[name]) for name in _TARGET if name in arguments), "")
    return {
        "row": row,
        "before": shown(row["observation"], target),
        "after": shown(row["next_observation"], target),
        "before_images": images(contents, trajectory, row, "before"),
        "after_images": images(contents, trajectory, row, "after"),
        "changes": _changes(row),
        "between": messages_between(row["interleaved"]),
        "done": _done(action, arguments),
        "as_logged": _as_logged(action, arguments),
    }


def _arguments(text: str | None) -> dict[str, Any]:
    try:
        arguments = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return arguments if isinstance(arguments, dict) else {}


def _patch_line(line: Line) -> str:
    """Format a line of a difference as in patches, so that it is legible without color."""
    text = "".join(part.text for part in line.parts)
    return f"{text} equal lines" if line.kind == "skipped" else {"gone": "-", "new": "+"}.get(line.kind, " ") + text


def _done(action: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[tuple[str, Shown]]:
    """Return an action as parts with a title each: its patch or edit, its command, its keystrokes, or its text."""
    patch = next((arguments[name] for name in ("patch", "diff") if isinstance(arguments.get(name), str)), None)
    if patch is not None:
        return [("", shown_text(patch))]
    old, new = (
        arguments.get("old_str", arguments.get("old_string")),
        arguments.get("new_str", arguments.get("new_string")),
    )
    if isinstance(old, str) and isinstance(new, str):
        path = arguments.get("path") or arguments.get("file_path") or ""
        return [(str(path), Shown("patch", lines=[(line.kind, _patch_line(line)) for line in difference(old, new)]))]
    command = arguments.get("command", arguments.get("cmd"))
    if isinstance(command, str) and len(arguments) <= 3 and "path" not in arguments:
        return [("", Shown("command", command[:20_000]))]
    called = _call_arguments(action["text"])
    if called is not None and called:
        return [("", shown_text(json.dumps(called, ensure_ascii=False), is_json=True))]
    keys = _keystrokes(action["text"])
    return [("", Shown("keys", keys))] if keys else [("", shown_text(action["text"] or ""))]


def _call_arguments(text: str | None) -> dict[str, Any] | None:
    shown_call = _arguments(text)
    inner = shown_call.get("arguments")
    return inner if isinstance(inner, dict) and set(shown_call) == {"name", "arguments"} else None


def _as_logged(action: Mapping[str, Any], arguments: Mapping[str, Any]) -> Shown | None:
    """Return the logged arguments if they differ from those in the action's text."""
    if not action["arguments"] or arguments == _call_arguments(action["text"]):
        return None
    return shown_text(action["arguments"], is_json=True)


def _keystrokes(text: str | None) -> str:
    """Return the keys of a typing action, whose text is a list of `keystrokes` as for terminals; empty for other
    actions.
    """
    if not text or not text.startswith('[{"keystrokes"'):
        return ""
    try:
        return "".join(entry["keystrokes"] for entry in json.loads(text))
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""


def _changes(row: Mapping[str, Any]) -> Any:
    """Return the difference of the two observations; None if they are not two states of one thing."""
    before, after = row["observation"], row["next_observation"]
    if not before or not after or before["content"] is None or after["content"] is None:
        return None
    if before["form"] not in _COMPARED or before["form"] != after["form"] or before["dialect"] != after["dialect"]:
        return None
    return difference(before["content"], after["content"])


def attachment_digest(row: Mapping[str, Any], side: str, number: int) -> str | None:
    """Return the digest of an attachment of a row; None if there is none on that side with that number."""
    listed = (row[SIDES[side]] or {}).get("attachments") or []
    sha256 = listed[number]["sha256"] if 0 <= number < len(listed) else ""
    return sha256 if _DIGEST.fullmatch(sha256) else None


def images(contents: Contents, trajectory: Mapping[str, Any], row: Mapping[str, Any], side: str) -> list[str]:
    """Return the addresses of the stored images of an observation."""
    listed = (row[SIDES[side]] or {}).get("attachments") or []
    addresses = []
    for number in range(min(len(listed), 4)):
        sha256 = attachment_digest(row, side, number)
        data = contents.attachment(sha256) if sha256 else None
        if data is not None and image_type(data):
            addresses.append(f"/t/{trajectory['key']}/{row['step']}/{side}/{number}")
    return addresses


def messages_between(text: str | None) -> list[tuple[str, str]]:
    """Parse the messages between an observation and an action: (role, content) of each."""
    try:
        messages = json.loads(text) if text else []
        return [(str(message["role"]), str(message["content"])) for message in messages]
    except (ValueError, KeyError, TypeError, RecursionError):
        return [("", text or "")]


def image_type(data: bytes) -> str | None:
    """Return the type of an image by its first bytes, whatever a log calls it; None for anything else, which is not
    served.
    """
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _MAGIC if data.startswith(magic)), None)
