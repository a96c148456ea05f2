"""Detection of typed lines in a recording of output.

`echo` reads the recording and collects lines that may have been typed. `resolve_marks` decides on them at the end, when
all prompts of the recording are known. `echo` explains the evidence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field, fields
from itertools import pairwise
from operator import attrgetter
from statistics import fmean, pstdev
from typing import Final, TypeAlias

from trajmill.connectors.recordings.acts import CONTROL_D, Act, act_bytes
from trajmill.connectors.recordings.screen import visible
from trajmill.schemas import Shelf

STOPS: Final = {"^C": "\x03", "^Z": "\x1a", "^\\": "\x1c"}
"""Control keys that stop a program, by the echo that a terminal shows for them."""

KEY_SECONDS: Final = 0.02
"""Shortest time between keys in seconds: nobody types faster, and output seldom pauses longer within a line."""

MAX_KEYS: Final = 4096
"""Largest number of characters of a typed line; longer ones are not spelled out."""

EVEN: Final = 0.05
UNEVEN: Final = 0.15
"""A program that types a text varies the times between keys by less than `EVEN` of their mean, a person mostly by more
than `UNEVEN`. Between the two, no decision is possible.
"""

_PROMPT: Final = re.compile(r".*[$#%>❯➜›»λ→▶:?)\]}] ?", re.DOTALL)
_SHELL: Final = re.compile(r".*[$#%>❯➜›»λ] ?", re.DOTALL)
_READY: Final = re.compile(r".*[$#>❯➜›»λ] ", re.DOTALL)
_ASKING: Final = re.compile(r".*[:?] ", re.DOTALL)
_ANSWERED_BY_KEY: Final = re.compile(r".*[?\])]:? ?", re.DOTALL)
_CONTINUES: Final = re.compile(
    r"\s*(?:\.\.\.|>|(?:for|while|until|if|then|elif|else|case|select|function|d?quote|bquote|heredoc|pipe|cmdand|cmdor"
    r"|cmdsubst|subsh|cursh|array)>) ?"
)
"""Prompts of Python, bash and zsh for another line of an unfinished command."""

_ERASED: Final = frozenset({"\b \b", "\b\x1b[K", "\b\x1b[J", "\b\x1b[P"})


@dataclass(frozen=True, slots=True)
class Gap:
    """Input that the recording does not hold, or does not show clearly.

    Attributes:
        offset: offset in the recording near the input, in bytes.
        at: seconds since the recording began when the screen still showed the answer to the act before.
        reason: snake_case word for the reject.
        detail: one line for a person.
    """

    offset: int
    at: float
    before: str | None
    reason: str
    detail: str


@dataclass(slots=True)
class Line:
    """A line that was entered and perhaps typed.

    Attributes:
        offset: offset of its first character in the recording, in bytes.
        start: time of that character, in seconds since the recording began.
        before: the screen before it.
        prompt: the text before the cursor.
        redrawn: the prompt as the line editor redrew it before anything was typed; empty if it did not.
        right: the text after the cursor, such as a prompt on the right.
        at_prompt: whether bracketed paste marks its beginning and its end.
        known: whether a line was typed at this prompt before.
        statuses: exit statuses reported before it.
        tail: the last output before it.
        first: its first character if it arrived alone; else empty.
        spelled: the characters that arrived one by one; None if anything else changed the line.
        bare: whether each of them arrived without an escape sequence, like a terminal's own echo.
        times: the times of these characters, and then of Enter.
        entered: the line with its prompt just before a line feed, or when it was entered.
        reached: the same up to the cursor.
        since: output after that line feed.
        chars: characters of output since it began.
        stopped: whether an echoed control key (^C) ended it instead of Enter.
        input_ended: whether the end of input (^D) ended it, and its content was written by the shell.
        pasted: whether its first characters arrived at once behind a prompt, and no line feed with them.
    """

    offset: int
    start: float
    before: str | None
    prompt: str
    right: str
    at_prompt: bool
    known: bool
    statuses: list[int]
    tail: str = ""
    first: str = ""
    spelled: str | None = ""
    bare: bool = True
    times: list[float] = field(default_factory=list)
    entered: str | None = None
    reached: str = ""
    since: str = ""
    chars: int = 0
    redrawn: str = ""
    stopped: bool = False
    input_ended: bool = False
    pasted: bool = False

    @property
    def typed(self) -> str | None:
        """Text of the line after its prompt; None if the prompt has disappeared."""
        if self.entered is None:
            return None
        if self.redrawn and self.entered.startswith(self.redrawn):
            self.prompt = self.redrawn
        if not self.entered.startswith(self.prompt):
            return None
        typed = self.entered[len(self.prompt) :]
        if self.right and typed.rstrip().endswith(self.right):
            return typed.rstrip()[: -len(self.right)].rstrip()
        return typed

    @property
    def credible(self) -> bool:
        """True if a key began the line, which still begins with it, or text was pasted at a prompt like a shell's."""
        if self.pasted:
            return self.paused and is_asked(self)
        return bool(self.first) and (self.typed or "").startswith(self.first)

    @property
    def paused(self) -> bool:
        """True if a pause separates the first characters of a line with text from its entry."""
        return bool(self.typed) and self.times[-1] - self.start >= KEY_SECONDS

    def spell(self, output: str, now: float) -> None:
        """Process output that stayed on the line."""
        seen = visible(output)
        if output in _ERASED:
            self.spelled = self.spelled[:-1] if self.spelled else self.spelled
        elif len(seen) == 1 and not output.startswith("\b") and len(self.times) < MAX_KEYS:
            self.spelled = None if self.spelled is None else self.spelled + seen
            self.bare = self.bare and output == seen
            self.times.append(now)
        elif seen or "\b" in output:
            self.spelled = None


Mark: TypeAlias = Line | Act | Gap

_KINDS: Final = (Line, Act, Gap)
_VALUES: Final = {kind: attrgetter(*(one.name for one in fields(kind))) for kind in _KINDS}


def shelf_of_marks() -> Shelf[tuple[list[int], Mark]]:
    """Return an empty sequence of marks with exit statuses that keeps only the last ones in memory."""
    return Shelf(
        lambda marks: [(statuses, _KINDS.index(type(mark)), _VALUES[type(mark)](mark)) for statuses, mark in marks],
        lambda rows: [(statuses, _KINDS[kind](*values)) for statuses, kind, values in rows],
        lambda pair: _mark_bytes(pair[1]),
    )


def _mark_bytes(mark: Mark) -> int:
    if isinstance(mark, Act):
        return act_bytes(mark)
    size = 1024 + len(mark.before or "")
    if isinstance(mark, Line):
        size += len(mark.entered or "") + len(mark.reached) + len(mark.since) + len(mark.prompt) + 32 * len(mark.times)
    return size


def resolve_marks(marks: Shelf[tuple[list[int], Mark]]) -> Shelf[tuple[list[int], Mark]]:
    """Return the acts and gaps among the marks, in order, each with the exit statuses since the one before it."""
    counts: Counter[str] = Counter()
    prompts: set[str] = set()
    for number, (reported, mark) in enumerate(marks):
        if isinstance(mark, Line):
            prompt = mark.prompt
            counts.update((ending(mark.prompt),) if mark.credible else ())
            if mark.at_prompt and _SHELL.fullmatch(mark.prompt):
                prompts.add(mark.prompt)
            if mark.prompt != prompt:
                marks[number] = reported, mark
    resolved_marks = shelf_of_marks()
    statuses: list[int] = []
    for number, (reported, mark) in enumerate(marks):
        statuses = statuses + reported
        later = map(marks.__getitem__, range(number + 1, len(marks)))
        verdict: Act | Gap | None
        if not isinstance(mark, Line):
            verdict = mark
        elif (ahead := _detect_typed_ahead(mark, prompts)) is not None:
            verdict = ahead
        elif mark.typed == "" and not mark.stopped and _changes_prompt(mark, later):
            verdict = _gap(mark)
        else:
            verdict = _verdict(mark, counts[ending(mark.prompt)])
        if verdict is not None:
            resolved_marks.append((statuses, verdict))
            statuses = []
    return resolved_marks


def _changes_prompt(line: Line, later: Iterable[tuple[list[int], Mark]]) -> bool:
    """Check if an empty line led to another prompt, as the end of input (^D) does and Enter does not."""
    if _CONTINUES.fullmatch(line.prompt):
        return False
    following = next((mark for _, mark in later if isinstance(mark, Line) and (mark.at_prompt or mark.known)), None)
    return following is not None and ending(following.prompt) != ending(line.prompt)


def _detect_typed_ahead(line: Line, prompts: Set[str]) -> Gap | None:
    """Return a gap if the text before a line's cursor is a known prompt and keys pressed before the prompt appeared.

    The screen of the gap shows only the prompt, which answers the act before.
    """
    if not line.at_prompt or _PROMPT.fullmatch(line.prompt):
        return None
    length = next((end for end in range(len(line.prompt) - 1, 0, -1) if line.prompt[:end] in prompts), None)
    if length is None:
        return None
    before = line.before.removesuffix(line.prompt[length:].rstrip()).rstrip(" ") if line.before else line.before
    return Gap(line.offset, line.start, before, "unclear_input", "a line was entered that was in part typed ahead")


def takes_key(prompt: str) -> bool:
    """Check if a single key may answer the prompt, as in `Continue? [y/N] `."""
    return _ANSWERED_BY_KEY.fullmatch(prompt) is not None


def is_pasted(prompt: str, data: str) -> bool:
    """Check if output after a pause may be text that was pasted at a prompt: plain text that stays on the line."""
    behind = _READY.fullmatch(prompt) or _ASKING.fullmatch(prompt)
    return 1 < len(data) <= MAX_KEYS and data.isprintable() and behind is not None


def is_prompt(drawn: str) -> bool:
    """Check if output of more than one character ends like a prompt."""
    return len(drawn) > 1 and _PROMPT.fullmatch(drawn) is not None


def ending(prompt: str) -> str:
    """Return the text shared by prompts of one kind; of a shell's prompt, which has folders and times, only its end."""
    return prompt[-2:] if _SHELL.fullmatch(prompt) else prompt


def _verdict(line: Line, count: int) -> Act | Gap | None:
    """Return the act of a line, a gap if it was typed but is unclear, None if it was output.

    `count` is the number of credible lines at such prompts.
    """
    typed = line.typed
    if line.at_prompt:
        return _gap(line) if typed is None else _act(line, typed)
    if typed is None:
        return _gap(line) if _PROMPT.fullmatch(line.prompt) and len(line.times) > 2 else None
    if line.stopped or not typed:
        return _act(line, typed) if line.stopped or line.known else None
    if len(typed) > 2 and len(set(typed)) == 1 and not typed[0].isalnum():
        return None
    if len(typed) == 1 and line.times[-1] - line.times[0] < KEY_SECONDS:
        return _act(line, typed, end="") if takes_key(line.prompt) else None
    if line.pasted and not is_asked(line):
        return _act(line, typed) if (count or line.known) and line.paused and any(map(str.isalnum, typed)) else None
    exact = line.spelled == typed
    repeated = count > 1 or line.known
    if exact and ((repeated and line.prompt.strip()) or is_asked(line)):
        return _act(line, typed)
    if repeated and _SHELL.fullmatch(line.prompt) and any(map(str.isalnum, typed)):
        return _act(line, typed)
    return _verdict_by_rhythm(line, typed, exact)


def is_asked(line: Line) -> bool:
    """Check if the line begins with a prompt, or with nothing below a line that asks a question.

    Text that appears at once behind `: ` or `? ` may be a program's, so that a pasted line needs a shell's prompt.
    """
    if line.pasted:
        return _READY.fullmatch(line.prompt) is not None
    if line.prompt.strip():
        return _PROMPT.fullmatch(line.prompt) is not None
    return line.bare and (line.before or "").endswith(("?", ":"))


def _verdict_by_rhythm(line: Line, typed: str, exact: bool) -> Act | Gap | None:
    """Decide on a line without a known prompt by the rhythm of its keys."""
    if not line.bare:
        return None
    rhythm = _rhythm(line.times)
    if rhythm is None:
        return _gap(line) if exact else None
    if rhythm < EVEN:
        return None
    return _act(line, typed) if exact and rhythm >= UNEVEN else _gap(line) if line.credible else None


def _rhythm(times: Sequence[float]) -> float | None:
    """Return the variation of the times between keys, as a fraction of their mean; None for fewer than four keys.

    The last time is that of Enter, before which people and programs alike pause.
    """
    waits = [after - before for before, after in pairwise(times[:-1])]
    if len(waits) < 3 or fmean(waits) <= 0:
        return None
    return pstdev(waits) / fmean(waits)


def _gap(line: Line) -> Gap:
    shown = (line.entered or "")[:200]
    return Gap(
        line.offset, line.start, line.before, "unclear_input", f"cannot tell what was typed of this line: {shown}"
    )


def _act(line: Line, typed: str, end: str = "\r") -> Act:
    stop = STOPS.get(typed[-2:]) if line.stopped else None
    keys = typed + end if stop is None else typed[:-2] + stop
    if line.input_ended:
        keys = CONTROL_D
    facts = {"source": "echo", "prompt": line.prompt}
    return Act(line.offset, line.start, line.times[-1], line.before, [(keys, line.start, line.times[-1])], facts)
