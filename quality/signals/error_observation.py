"""Answers that report an error of what the agent did: they teach the world too, but a corpus can hold too many.

Of a whole trajectory, the longest streak of them and their share are told. What a user said is no answer there.

What the log itself says goes first: its mark on the observation, or the exit code. Exit code 1 without a word put out
is no error: so `grep`, `diff -q` and `test` say no (POSIX keeps codes above 1 for errors of theirs). Only where the log
says neither is the text looked at, for what programs print as they die (tracebacks of Python, Java, JavaScript, Go,
Rust, shells that find no command), line by line. Of a whole screen only if there is more of it than before the action,
and than on any screen of the last `RECENT` rows: a program that leaves the full screen shows old errors again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import re2

from trajmill.quality.failure_words import has_failure_words
from trajmill.quality.lookback import earliest_rows
from trajmill.quality.signal import Measured, Numbers, Signal
from trajmill.quality.texts import Flags

PATTERN: Final = (
    r"(?m)(?:^Traceback \(most recent call last\):"
    r"|^(?:[A-Za-z_][\w]*\.)*[A-Z]\w*(?:Error|Exception)(?:: |\r?$)"
    r"|^Exception in thread \"|^\s+at [\w$.<>]+ ?\([^()\n]*:\d+(?::\d+)?\)\r?$"
    r"|^panic: |^thread '[^'\n]*' panicked at |^Segmentation fault"
    r"|^(?:[\w./-]+: (?:line \d+: )?)+(?:command not found|No such file or directory|Permission denied)\r?$"
    r"|^zsh: command not found: |^make: \*\*\* |^fatal: |^npm ERR! |^error: |^ERROR: )"
)
"""Pattern of an error (RE2 syntax)."""


FRAMED: Final = r"\A(?:<tool_use_error>|Error executing tool |Unknown tool: |HTTP [45][0-9][0-9]\b)"
"""Pattern of the prefixes by which clients and servers mark an error (RE2 syntax)."""

RECENT: Final = 12
"""Earlier rows whose screens are compared for the same errors."""

_SILENT: Final = r"\A(?:\s|</?output>|<returncode>1</returncode>)*\z"
"""Pattern of no output, also within the frame of mini-swe-agent."""

_LINES: Final = re2.compile(PATTERN + r"[^\n]*")


def _lines(text: str) -> Counter[str]:
    """Count the error lines of a text, each from the beginning of its match."""
    return Counter(match.group() for match in _LINES.finditer(text))


def _fresh(measured: Measured, suspects: Flags) -> Flags:
    """Flag the suspects with an error line more often than on every screen of the last rows of their trajectory."""
    after, back = measured.texts("next_observation", "content"), measured.once(earliest_rows)
    fresh = np.zeros_like(suspects)
    known: dict[int, Counter[str]] = {}
    for row in np.flatnonzero(suspects).tolist():
        first = max(row - RECENT, int(back[row]))
        earlier_texts = set(after.index[first:row].tolist()) - {-1}
        for text_number in {int(after.index[row]), *earlier_texts} - known.keys():
            known[text_number] = _lines(after.texts[text_number].as_py())
        own_lines = known[int(after.index[row])]
        fresh[row] = any(
            number > max((known[p][line] for p in earlier_texts), default=0) for line, number in own_lines.items()
        )
    return fresh


def flag_errors(measured: Measured) -> Flags:
    """Flag the rows whose next observation reports an error."""
    return _erroneous(measured, pc.struct_field(measured.batch["next_observation"], "is_error"))


def shown_erroneous(measured: Measured) -> Flags:
    """Flag the rows whose next observation shows an error by text or exit code, ignoring marks of the log."""
    framed = measured.texts("next_observation", "content").matching(FRAMED)
    return _erroneous(measured, pa.nulls(measured.batch.num_rows, pa.bool_())) | framed


def _erroneous(measured: Measured, marked: pa.Array) -> Flags:
    batch = measured.batch
    code = pc.fill_null(batch["exit_code"], 0).to_numpy(zero_copy_only=False)
    no = (code == 1) & measured.texts("next_observation", "content").at(code == 1).matching(_SILENT)
    failed = pc.and_(pc.not_equal(batch["exit_code"], pa.scalar(0, pa.int32())), pa.array(~no))
    said = pc.coalesce(pc.or_kleene(marked, failed), marked, failed)
    suspect = said.is_null().to_numpy(zero_copy_only=False) & measured.once(has_failure_words)
    counts = measured.texts("next_observation", "content").at(suspect).matches(PATTERN)
    screens = (counts > 0) & measured.texts("next_observation", "form").matching("^screen$")
    before = measured.texts("observation", "content").at(screens).matches(PATTERN)
    more = counts > before
    more[screens] = _fresh(measured, screens & more)[screens]
    return pc.fill_null(said, False).to_numpy(zero_copy_only=False) | more


class ErrorObservation(Signal):
    """1 if the next observation reports an error, else 0."""

    name: ClassVar[str] = "error_observation"
    measures: ClassVar[str] = (
        "1: marked as an error, or exit code not 0 (but 1 with nothing put out: `grep` says no); where the "
        "log says neither, a traceback or its like"
    )

    def measure(self, measured: Measured) -> Numbers:
        return measured.around(flag_errors).astype(np.float32)


@dataclass(frozen=True, slots=True)
class _Answers:
    """Errors among what answered the actions, users aside.

    Attributes:
        errors: Flags of the answers that report an error.
        ends: Number of answers before each trajectory, and finally of all.
    """

    errors: Flags
    ends: npt.NDArray[np.int64]

    @classmethod
    def of(cls, measured: Measured) -> _Answers:
        answered = measured.texts("next_observation", "origin")
        rows = (answered.index >= 0) & ~answered.matching("^user$")
        ends = np.concatenate([[0], np.cumsum(rows)])[np.append(measured.starts, len(rows))]
        return cls(measured.around(flag_errors)[rows], ends)

    @classmethod
    def joined(cls, stretches: Sequence[Flags]) -> _Answers:
        """Join the flags of the stretches of one trajectory."""
        errors = np.concatenate(stretches)
        return cls(errors, np.array([0, len(errors)]))

    def split(self) -> list[Flags]:
        """Return the flags of each trajectory."""
        return [self.errors[begin:end] for begin, end in pairwise(self.ends.tolist())]

    def shares(self) -> npt.NDArray[np.float64]:
        """Return the share of errors of each trajectory; 0 without an answer."""
        errors = np.diff(np.concatenate([[0], np.cumsum(self.errors)])[self.ends])
        return errors / np.maximum(np.diff(self.ends), 1)

    def longest_streaks(self) -> npt.NDArray[np.float64]:
        """Return the most errors in a row of each trajectory."""
        trajectory = np.repeat(np.arange(len(self.ends) - 1), np.diff(self.ends))
        at = np.flatnonzero(self.errors)
        begins = np.ones(len(at), np.bool_)
        begins[1:] = (np.diff(at) > 1) | (np.diff(trajectory[at]) > 0)
        streaks = np.zeros(len(self.ends) - 1)
        first = np.flatnonzero(begins)
        np.maximum.at(streaks, trajectory[at[first]], np.diff(np.append(first, len(at))))
        return streaks


class ErrorStreak(Signal):
    """The most answers in a row that report an error."""

    name: ClassVar[str] = "error_streak"
    scope: ClassVar[str] = "trajectory"
    measures: ClassVar[str] = "most answers in a row that are an `error_observation`; what a user says does not count"

    def measure(self, measured: Measured) -> Numbers:
        return measured.spread(measured.once(_Answers.of).longest_streaks())

    def evidence(self, measured: Measured) -> Sequence[Flags]:
        return measured.once(_Answers.of).split()

    def settled(self, evidence: Sequence[Flags]) -> tuple[float, str | None]:
        return float(_Answers.joined(evidence).longest_streaks()[0]), None


class ErrorShare(Signal):
    """The share of answers that report an error; 0 where there is none."""

    name: ClassVar[str] = "error_share"
    scope: ClassVar[str] = "trajectory"
    measures: ClassVar[str] = "share of answers that are an `error_observation`; what a user says does not count"

    def measure(self, measured: Measured) -> Numbers:
        return measured.spread(measured.once(_Answers.of).shares())

    def evidence(self, measured: Measured) -> Sequence[Flags]:
        return measured.once(_Answers.of).split()

    def settled(self, evidence: Sequence[Flags]) -> tuple[float, str | None]:
        return float(_Answers.joined(evidence).shares()[0]), None
