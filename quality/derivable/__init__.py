"""Parts of a next observation that follow from the action and from what the trajectory did and saw before.

A closed list of verifiers, each of which works out what is shown; a part is derivable only where just that was shown,
so it is a lower bound. They know tools of files (`tools`), records of a service (`records`), sums, and the echo of a
line that is typed behind a prompt. Files are forgotten as soon as anything is done that might have changed them, such
as any command of a shell.

Nothing is run, and of no trajectory more than a megabyte is remembered.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from trajmill.quality.derivable import tools
from trajmill.quality.derivable.arithmetic import written_sums
from trajmill.quality.derivable.known_texts import KnownTexts
from trajmill.quality.derivable.records import Records
from trajmill.quality.derivable.turns import SUMS, Turn
from trajmill.schemas import KEYSTROKES

LabelledSpans: TypeAlias = list[tuple[int, int, str]]

_NARROWEST: Final = 20
"""Columns of a terminal in which a line wraps."""

_TYPED: Final = re.compile(r"[^\x00-\x1f\x7f]+[\r\n]")
_PROMPT: Final = re.compile(r"(?:^|.*[^>])[$#%>❯]")


class Facts(NamedTuple):
    """Statements of an answer that could be checked.

    Attributes:
        checked: facts that the answer had to hold, or holds in its own way.
        wrong: those of them that it holds otherwise.
    """

    checked: int = 0
    wrong: int = 0


class Deriving:
    """Follows a trajectory row by row.

    Attributes:
        facts: of the last row, what its answer says of what was known: a sum, the text of a known file, the members of
            a known record. What was known may have been changed by others, so an answer that is held wrong need not be:
            what counts is how often, beside answers of the world.
    """

    def __init__(self) -> None:
        self._files, self._records = KnownTexts(), Records()
        self.facts = Facts()

    def told(self, turn: Turn) -> LabelledSpans:
        """Find (begin, end, label) in characters of what was shown, in order; the next row must follow.

        The label is `derivable`, or `action` where the answer repeats an argument under its own name, or `frame` of the
        keys that the tool's answers have.
        """
        self.facts = Facts()
        after = turn.after
        if turn.name in (KEYSTROKES, "message") or (after is None and not tools.only_looks(turn.name)):
            self._files.forget()
        if turn.name == "message" or after is None:
            return []
        if turn.name == KEYSTROKES:
            return _echo(turn.text, turn.before, after)
        if turn.name in SUMS:
            sums = written_sums(str(turn.given.get("expression", "")))
            self._check(bool(sums) and _is_number(after), after.strip() in sums)
            return [(0, len(after), "derivable")] if after.strip() in sums else []
        predicted = tools.answered(self._files, turn.name, turn.given)
        tools.followed(self._files, turn.name, turn.given, None if turn.cut else after, failed=turn.failed)
        if predicted is not None and predicted.strip("\n"):
            is_right = after.rstrip("\n") == predicted.rstrip("\n")
            self._check(is_right or not (turn.cut or turn.failed), is_right)
            return [(0, len(after), "derivable")] if is_right else []
        if not turn.is_service:
            return []
        found = self._records.told(turn.name, after, turn.given)
        self.facts = Facts(*self._records.checked)
        return found

    def _check(self, can: bool, is_right: bool) -> None:
        """Note one fact, if it can be checked."""
        self.facts = Facts(int(can), int(can and not is_right))


def _is_number(text: str) -> bool:
    return re.fullmatch(r"\s*[-+]?\d[\d_,]*(?:\.\d+)?\s*", text) is not None


def _echo(action: str, before: str | None, after: str) -> LabelledSpans:
    """Find the line that is typed behind the prompt of a terminal in what it shows then."""
    keys = _keys(action)
    if not _TYPED.fullmatch(keys) or before is None:
        return []
    line = keys.rstrip("\r\n")
    prompt = next((row.rstrip() for row in reversed(before.split("\n")) if row.strip()), "")
    if not _PROMPT.fullmatch(prompt):
        return []
    rows = after.split("\n")
    place = _last_rows(rows, (prompt + line.rstrip(), f"{prompt} {line}".rstrip()))
    if place is None:
        return []
    first, last = place
    begin = sum(len(row) + 1 for row in rows[:first])
    return [(begin, begin + len("\n".join(rows[first:last])), "derivable")]


def _last_rows(rows: Sequence[str], lines: Sequence[str]) -> tuple[int, int] | None:
    """Find the last rows [first, last) that show one of the lines, which may wrap."""
    for at in range(len(rows) - 1, -1, -1):
        row = rows[at].rstrip()
        for line in lines:
            if row == line:
                return at, at + 1
            if len(row) < _NARROWEST or not line.startswith(row):
                continue
            # A blank at the end of a row is not told.
            for width in (len(row), len(row) + 1):
                pieces = [line[place : place + width].rstrip() for place in range(0, len(line), width)]
                if [one.rstrip() for one in rows[at : at + len(pieces)]] == pieces:
                    return at, at + len(pieces)
    return None


def _keys(text: str) -> str:
    try:
        strokes = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(strokes, list):
        return ""
    return "".join(str(one.get("keystrokes", "")) for one in strokes if isinstance(one, dict))
