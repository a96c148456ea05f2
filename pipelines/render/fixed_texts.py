"""Fixed texts of samples: what stands around the texts of a log, whoever writes, counts or reads them again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

MARKER: Final = "**Environment Observation:**\n"
"""Opens an answer of the world."""

STATE: Final = "**Current State:**\n"
BELOW_STATE: Final = "\n\n"
ACTION: Final = "**Action:**\n"
KNOWN_STATE: Final = "**Known State:**\n"
BETWEEN: Final = "\n\n"
"""Between the texts of a document."""

ASKING: Final = (
    "\n\nThink first if you need to. Then write what is observed next, and only that, between "
    "`<predicted_observation>` and `</predicted_observation>`."
)
"""Ends the user message that asks a model which may think for its prediction."""

OPENING: Final = "<predicted_observation>"
CLOSING: Final = "</predicted_observation>"
COMMANDS: Final = frozenset({"terminal", "swe"})
"""Domains whose actions are commands: answers tell how these ended."""

_SPEAKERS: Final[Mapping[str, str]] = {
    "harness": "**Harness Message:**",
    "compaction": "**Harness Message:**",
    "user": "**User Message:**",
}


def heading(number: int) -> str:
    """The line that opens a turn."""
    return f"### Turn {number}\n"


def time_limit(seconds: float | None) -> str:
    """The time after which the harness kills what an action starts; empty if not known."""
    return "" if seconds is None else f"**Time Limit:**\n{seconds:g} s\n"


def ending(exit_code: int | None, timed_out: bool | None) -> str:
    """The line below the output of a command: its exit code, or that its time ran out; empty if neither is known."""
    if timed_out:
        return "[timed out]"
    return "" if exit_code is None else f"[exit code {exit_code}]"


def format_words(interleaved: str | None) -> str:
    """Join the words of harness and user before an action, each under its heading; empty if neither said anything."""
    entries = json.loads(interleaved) if interleaved else ()
    return "".join(
        f"{_SPEAKERS[entry['role']]}\n{entry['content']}\n\n" for entry in entries if entry["role"] in _SPEAKERS
    )


def known_state(folder: str, files: list[str]) -> str:
    """Format the opening of a window that begins later than its trajectory; empty where nothing is known."""
    lines = [f"Folder entered last: {folder}"] if folder else []
    lines += [f"Files written before: {', '.join(files)}"] if files else []
    return KNOWN_STATE + "\n".join(lines) + "\n\n" if lines else ""
