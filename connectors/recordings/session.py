"""A recorded terminal session: its events in order, and its runs of acts.

Used by every format that records output, and optionally input, sizes and an exit status. If input was recorded, only
the input determines the acts (`bursts`); otherwise the echo does (`echo`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from trajmill.connectors.recordings.acts import Act, Ending, leaves, shelf_of_acts
from trajmill.connectors.recordings.bursts import Bursts
from trajmill.connectors.recordings.echo import EchoReader
from trajmill.connectors.recordings.screen import Screen, Titles
from trajmill.connectors.recordings.typed_lines import Gap
from trajmill.schemas import ParseError, Shelf

Event: TypeAlias = tuple[int, float, str, str]
"""(byte offset, seconds since the beginning, code, data).

Codes: `o` output, `i` input, `r` resize (COLUMNSxROWS), `x` exit status.
"""

_STATUS: Final = re.compile(r"-?\d{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Run:
    """Acts without lost input in between: the screen before each is the result of the act before it. Not empty."""

    acts: Shelf[Act]
    ending: Ending


class Session:
    """A session on a terminal of the given size.

    Attributes:
        error: why reading ended before the recording did; None if it did not.
        has_output: whether there was any output.
        has_input: whether input was recorded.
        gaps: points at which input was lost, in order; complete after the last of `runs`.
    """

    def __init__(self, columns: int, rows: int) -> None:
        self.error: ParseError | None = None
        self.has_output = False
        self.has_input = False
        self.gaps: list[Gap] = []
        self._screen = Screen(columns, rows)
        self._titles = Titles()
        self._echo = EchoReader(self._screen)
        self._bursts = Bursts(self._screen)
        self._status: str | None = None
        self._now = 0.0

    def read(self, events: Iterable[Event]) -> None:
        """Process all events, up to the first that cannot be read; `error` then holds the reason."""
        try:
            for event in events:
                self._take(*event)
        except ParseError as error:
            self.error = error
        self.has_output = self._screen.seen() is not None

    def _take(self, offset: int, now: float, code: str, data: str) -> None:
        if code == "o":
            self._output(offset, now, self._titles.strip_titles(data))
        elif code == "i":
            if not self.has_input:
                self._echo.release()
                self.has_input = True
            self._bursts.input(offset, now, data)
        elif code == "r":
            columns, _, rows = data.partition("x")
            self._screen.resize(int(columns), int(rows))
        else:
            self._status = data
        self._now = now

    def _output(self, offset: int, now: float, data: str) -> None:
        if not self.has_input:
            self._echo.output(offset, now, data)
        elif data and self._bursts.listening:
            self._bursts.output(data)
        else:
            self._screen.write(data)

    def runs(self) -> Iterator[Run]:
        """Yield the runs of acts in the session, in order: one if input was recorded, else one between any two gaps."""
        if self.has_input:
            silent = self._bursts.silent and self._status is None
            acts = self._bursts.finish()
            if acts:
                yield Run(acts, self._ending(acts[-1], self._now, None if silent else self._screen.seen()))
            return
        entries, after, at = self._echo.finish()
        acts = shelf_of_acts()
        for statuses, entry in entries:
            if acts:
                acts[-1].statuses += statuses
            if isinstance(entry, Act):
                acts.append(entry)
            elif isinstance(entry, Gap):
                self.gaps.append(entry)
                if acts:
                    yield Run(acts, Ending(entry.at, entry.before, cut=True))
                    acts = shelf_of_acts()
        if acts:
            acts[-1].statuses += self._screen.take_statuses()
            yield Run(acts, self._ending(acts[-1], at, after))

    def _ending(self, last: Act, at: float, after: str | None) -> Ending:
        """Determine how the session ended after its last act.

        The act ended the session if the recording has an exit status, or if `exit`, `logout` or ^D was typed and no
        prompt followed (the cursor is at the beginning of a line).
        """
        lost = self.error is not None
        status = _number(self._status)
        left = self._status is not None or (not lost and leaves(last.keys) and self._screen.column == 0)
        return Ending(at, after, cut=lost, lost=lost, left=left, status=status)


def _number(status: str | None) -> int | None:
    return int(status) if status is not None and _STATUS.fullmatch(status) else None
