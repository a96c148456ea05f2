"""Ends of the runs of DroidBot: before it kills the app, before a long gap, and before an event in another app.

A folder may hold several runs, of several apps: DroidBot adds to an existing folder, and the first event of a run kills
its app, to start it afresh. The home screen, the system's own surfaces and its permission dialogs belong to the run
that passes through them. This module does not read files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from trajmill.connectors.android.view import is_app
from trajmill.connectors.screens.moves import Moves

SOON: Final = 10
"""Seconds after an event within which the first state of the next event counts as its result. DroidBot takes about five
seconds per event, and after a longer time something else may have happened in between.
"""

LONG_GAP: Final = 60
"""Largest number of seconds between two events of a run. DroidBot itself never pauses as long, so a longer gap means
that it was stopped.
"""

_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d_\d{6})(?!\d)", re.ASCII)
_QUESTIONS: Final = ("packageinstaller", "permissioncontroller")


def seconds_between(tag: str, later: str) -> float | None:
    """Return the seconds from one tag to another; None if either is no time."""
    first, second = _moment(tag), _moment(later)
    return (second - first).total_seconds() if first is not None and second is not None else None


def is_soon(tag: str, later: str) -> bool:
    """Return True if the second tag is known to be at most `SOON` seconds after the first."""
    passed = seconds_between(tag, later)
    return passed is not None and 0 <= passed <= SOON


def _moment(tag: str) -> datetime | None:
    match = _TIME.match(tag)
    try:
        return datetime.strptime(match[1], "%Y-%m-%d_%H%M%S") if match else None
    except ValueError:
        return None


def app_of(package: str | None) -> str | None:
    """Return the package if it belongs to an app; None for a launcher and for the system's surfaces and dialogs."""
    if package is None or not is_app(package) or package.endswith(_QUESTIONS):
        return None
    return package


@dataclass(slots=True)
class Run:
    """The steps of one run; `app` is the first app in it, `tag` the tag of its last event."""

    moves: Moves = field(default_factory=Moves)
    app: str | None = None
    tag: str = ""

    def ends_before(self, tag: str, app: str | None) -> bool:
        """Return True if an event of that tag in that app belongs to another run; `app` is None outside of apps."""
        gap = seconds_between(self.tag, tag)
        is_elsewhere = None not in (app, self.app) and app != self.app
        return is_elsewhere or (gap is not None and gap > LONG_GAP)
