"""Origins of the answers of Codex's tools, and signs that Codex killed a command.

The client's own words are rows of `conversation.harness_text`. This module knows nothing about lines; see
`codex.items`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trajmill.connectors.conversation.harness_text import CODEX, Source, speaker, tools_of_others
from trajmill.connectors.conversation.tools import domain_of
from trajmill.connectors.conversation.wrapped_output import limit_of
from trajmill.connectors.reading.values import value_or_none

CLIENT: Final = Source(CODEX)
SEARCHES: Final = frozenset({"web_search", "web_fetch"})
_OUT_OF_TIME: Final = 124
_LONGEST_REFUSAL: Final = 4096


def is_killed_by_code(command: str | None, code: int | None) -> bool:
    """Return True if the exit status shows that the client killed a command because of its time limit.

    The program `timeout` exits with the same status, so the status proves nothing for a command that names it.
    """
    return code == _OUT_OF_TIME and "timeout" not in (command or "")


def limit(arguments: str) -> float | None:
    """Return the time limit in seconds that the agent set for a command; the client's own limit is not logged."""
    values = value_or_none(arguments) if '"timeout' in arguments else None
    milliseconds = (values.get("timeout_ms") or values.get("timeout")) if isinstance(values, dict) else None
    return (
        limit_of(milliseconds / 1000)
        if isinstance(milliseconds, int | float) and not isinstance(milliseconds, bool)
        else None
    )


def origin(name: str, text: str) -> str:
    """Return the origin of an answer `text` to the tool `name`; the text is empty if it is the output of a command."""
    return speaker(text if len(text) < _LONGEST_REFUSAL else "", Source(CODEX, None, name)) or "environment"


def domain(names: Iterator[str]) -> str:
    """Return the domain of a trajectory from the names of its actions."""
    return domain_of(names, "terminal", tools_of_others(CODEX))
