"""Fixed texts of samples, around the texts of a log. Writers, counters and readers of samples share them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

MARKER: Final = "**Environment Observation:**\n"
"""Marker at the beginning of an answer."""

STATE: Final = "**Current State:**\n"
BELOW_STATE: Final = "\n\n"
ACTION: Final = "**Action:**\n"
KNOWN_STATE: Final = "**Known State:**\n"
BETWEEN: Final = "\n\n"
"""Separator of the texts of a document."""

ASKING: Final = (
    "\n\nThink first if you need to. Then write what is observed next, and only that, between "
    "`<predicted_observation>` and `</predicted_observation>`."
)
"""End of a user message that asks a model for a prediction and lets it reason first."""

OPENING: Final = "<predicted_observation>"
CLOSING: Final = "</predicted_observation>"
COMMANDS: Final = frozenset({"terminal", "swe"})
"""Domains whose actions are commands, and whose answers state how they ended."""

_SPEAKERS: Final[Mapping[str, str]] = {
    "harness": "**Harness Message:**",
    "compaction": "**Harness Message:**",
    "user": "**User Message:**",
}


def heading(number: int) -> str:
    """Format the line that opens a turn."""
    return f"### Turn {number}\n"


def time_limit(seconds: float | None) -> str:
    """Format the time after which the harness kills the processes of an action; empty if unknown."""
    return "" if seconds is None else f"**Time Limit:**\n{seconds:g} s\n"


def ending(exit_code: int | None, timed_out: bool | None) -> str:
    """Format the line below a command's output: its exit code, or that it timed out; empty if neither is known."""
    if timed_out:
        return "[timed out]"
    return "" if exit_code is None else f"[exit code {exit_code}]"


def format_words(interleaved: str | None) -> str:
    """Join the words of harness and user before an action, each under its heading; empty if there are none."""
    entries = json.loads(interleaved) if interleaved else ()
    return "".join(
        f"{_SPEAKERS[entry['role']]}\n{entry['content']}\n\n" for entry in entries if entry["role"] in _SPEAKERS
    )


def known_state(folder: str, files: list[str]) -> str:
    """Format the opening of a window that begins later than its trajectory; empty if nothing is known."""
    lines = [f"Folder entered last: {folder}"] if folder else []
    lines += [f"Files written before: {', '.join(files)}"] if files else []
    return KNOWN_STATE + "\n".join(lines) + "\n\n" if lines else ""
