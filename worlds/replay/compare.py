"""Comparison of the logged result of an action with the result of running it again.

Values that change with each run are those in which two replays differ, or those matched by a closed table of forms
(times, process ids, addresses, ids of commits, random names). Texts that are equal except for them are `volatile`, not
`differs`. A form must occur in its usual context, so that a number changed elsewhere is a difference. A time is masked
only if the replayed one is the time of the replay, so a time in a file is never masked.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from trajmill.quality.replicate import Words, agreement
from trajmill.schemas.replay import DIFFERS, SAME, VOLATILE

SHOWN: Final = 2000
"""Characters of a difference that are kept."""

COMPARED: Final = 1 << 20
"""Characters at the beginning of a text that are compared."""

_LINES: Final = 1000
"""Lines of a text that a difference covers."""

_MONTH: Final = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_DAY: Final = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_TIMES: Final = tuple(
    re.compile(form)
    for form in (
        r"\b(?P<iso>\d{4}-\d\d-\d\d)[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?",
        rf"\b{_DAY},? +(?P<month>{_MONTH}) +(?P<day>\d{{1,2}})[ ,\d:]*(?:[AP]M )?(?:UTC|GMT|[+-]\d{{4}})?(?: \d{{4}})?",
        rf"\b{_DAY},? +(?P<day>\d{{1,2}}) +(?P<month>{_MONTH})[ ,\d:]*(?:UTC|GMT|[+-]\d{{4}})?",
        rf"\b(?P<month>{_MONTH}) +(?P<day>\d{{1,2}}) +(?:\d\d:\d\d|\d{{4}})\b",
        r"\b(?P<clock>\d\d:\d\d)(?::\d\d)?(?:\.\d+)?\b",
    )
)
_MASKS: Final = tuple(
    (re.compile(form), f"<{name}>")
    for form, name in (
        (r"\b\d+m\d+[.,]\d+s\b", "duration"),
        (r"(?<![\w.])\d+(?:\.\d+)?(?: ?(?:ms|us|µs|ns)|(?:\.\d+) ?s(?:ec(?:onds?)?)?)\b", "duration"),
        (r"(?<![\w.])\d+\.\d+ ?(?:s|sec|seconds?)\b", "duration"),
        (r"(?<![\w.])\d+(?:[.,]\d+)? [kMGT]?i?B/s(?:ec)?\b", "rate"),
        (r"\bup +(?:\d+ days?, +)?(?:\d+:\d\d|<time>|\d+ min),(?: +\d+ users?,)?", "uptime"),
        (r"\bload average: \d+\.\d\d, \d+\.\d\d, \d+\.\d\d", "load"),
        (r"\b0x[0-9a-fA-F]{6,16}\b", "address"),
        (r"(?m)^\[\d+\][+-]? +\d{1,7}(?= +(?:Running|Stopped|Done|Killed|Terminated|Exit)|$)", "job"),
        (r"(?i)\b(?:pid|process)(?:[ =:#]+|\W{1,3})\d{1,7}\b", "pid"),
        (r"(?m)^(?P<shell>(?:/(?:usr/(?:local/)?)?bin/)?(?:ba)?sh: (?:eval: )?line \d+: +)\d+(?= )", "pid"),
        (r"(?m)^==\d+==", "pid"),
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "uuid"),
        (r"(?m)^commit [0-9a-f]{40}\b|^[0-9a-f]{40}$", "commit"),
        (r"(?m)^(?:[*|/\\ ]*)(?=\d*[a-f])[0-9a-f]{7,12}(?= \S)", "commit"),
        (r"(?m)^\[[\w./-]+(?: \(root-commit\))? [0-9a-f]{7,12}\]", "commit"),
        (r"\bHEAD is now at [0-9a-f]{7,12}\b", "commit"),
        (r"/tmp/[\w.-]*(?:tmp|XXXX|\.)[\w.-]*", "temporary"),
        (r"\btmp[a-z0-9_]{8}\b", "temporary"),
        (r"(?<=127\.0\.0\.1:)\d{4,5}\b|(?<=localhost:)\d{4,5}\b", "port"),
    )
)
_MINUTES: Final = 15
"""Largest distance from now, in minutes, of a time of day that was printed while an action ran."""

_CUT: Final = "\ufdd0"
"""Stand-in for a notice while texts are masked; not a character."""

_NOTICE: Final = re.compile(
    r"\n*(?:\.\.\. ?\[\d+ (?:lines|characters) (?:truncated|omitted|elided)\] ?\.\.\."
    r"|\[(?:\d+ )?characters elided\]"
    r"|…\d+ (?:tokens|chars|bytes) truncated…"
    r"|\[\.\.\. (?:omitted \d+ of \d+ lines|output truncated to fit \d+ bytes|Observation truncated due to length"
    r"|output limited to \d+ bytes; \d+ interior bytes omitted) \.\.\.\]"
    r"|<elided_chars>\n\d+ characters elided\n</elided_chars>"
    r"|<response clipped>(?:<NOTE>[^<]{0,1000}</NOTE>)?"
    r"|\(Results are truncated\. Consider using a more specific path or pattern\.\)\Z"
    r"|(?:\[\.\.\.\]|\.\.\.|…)\Z)\n*"
)
"""Notices of harnesses about cut answers, which connectors leave in the text."""

_WHO: Final = re.compile(r"(?m)^(?:/(?:usr/(?:local/)?)?bin/)?(?:ba)?sh: (?:eval: )?(?:line \d+: )?")
"""Prefix of a shell's error messages: its usual path, and a line number that harnesses count in different ways."""

_WORDS: Final = re.compile(r"(?<!\w)-?\d+\b|\w+|[^\w\s]")
_NUMBERED: Final = re.compile(r"^ *(\d{1,7})(?:\t|→|\| ?|: )(.*)$")


@dataclass(frozen=True, slots=True)
class Compared:
    """Result of a comparison.

    Attributes:
        replayed: One of `schemas.replay.REPLAYED`.
        difference: Difference, if there is one.
        agreement: Share of the words of both texts on which they agree, 0 to 1; None if unknown.
    """

    replayed: str
    difference: str | None = None
    agreement: float | None = None


def compare_answers(logged: str, replayed: str, *, unordered: bool = False, now: datetime | None = None) -> Compared:
    """Compare a replayed answer with the logged one; blanks at ends of lines and of the whole are ignored.

    Args:
        logged: what the log says.
        replayed: what came.
        unordered: whether the lines stand in an order that hangs on the file system, such as those of `find`.
        now: when it came, by the clock that showed it; this moment in UTC by default.
    """
    old, new = (plain(text) for text in (logged, replayed))
    if old == new:
        return Compared(SAME, agreement=1.0)
    shown, words = difference(old, new), agreement([Words.of(old), Words.of(new)])
    old, new = _both_masked(old, new, now)
    alike = old == new or (unordered and sorted(old.split("\n")) == sorted(new.split("\n")))
    return Compared(VOLATILE if alike else DIFFERS, shown, words)


def differs_as_replays(logged: str, first: str, second: str, now: datetime | None = None) -> bool:
    """Return True if an answer differs from two replays only in what these do not have in common.

    Where the replays hold the same words in another order, so does the answer; elsewhere it holds a word of the same
    kind in the place of each that differs.

    Args:
        logged: what the log says.
        first: what came at first.
        second: what came the second time.
        now: as in `compare_answers`.
    """
    texts = [plain(text) for text in (logged, first, second)]
    if texts[0] in texts[1:]:
        return True
    known, seen = _both_masked(texts[0], texts[1], now)
    lines = known.split("\n"), seen.split("\n"), _both_masked(texts[0], texts[2], now)[1].split("\n")
    if len({len(side) for side in lines}) > 1 or lines[1] == lines[2]:
        return False
    if sorted(lines[1]) == sorted(lines[2]):
        return sorted(lines[0]) == sorted(lines[1])
    return all(_line_differs_as_replays(*line) for line in zip(*lines, strict=True))


def _line_differs_as_replays(logged: str, first: str, second: str) -> bool:
    if logged in (first, second):
        return True
    words = [_WORDS.findall(line) for line in (logged, first, second)]
    if len({len(side) for side in words}) > 1:
        return False
    if sorted(words[1]) == sorted(words[2]):
        return sorted(words[0]) == sorted(words[1])
    return all(
        logged_word == first_word
        if first_word == second_word
        else _kind(logged_word) == _kind(first_word) == _kind(second_word)
        for logged_word, first_word, second_word in zip(*words, strict=True)
    )


def _kind(word: str) -> str:
    """Return the kind of a word: a number, letters and digits of a length, or the word itself."""
    if word.removeprefix("-").isdecimal():
        return "number"
    return f"word of {len(word)}" if word.isalnum() else word


def of_whole(result: Compared, part: tuple[str, str], whole: tuple[str, str]) -> Compared:
    """Return the result with the agreement of the whole texts, which share the part that was not compared."""
    if result.agreement is None or result.agreement == 1.0:
        return result
    words = sum(len(Words.of(text).hashes) for text in part), sum(len(Words.of(text).hashes) for text in whole)
    return replace(result, agreement=1 - (1 - result.agreement) * words[0] / max(words))


def compare_cut_answer(logged: str, replayed: str) -> Compared | None:
    """Compare an answer that its harness cut before the agent saw it; None if the remaining text proves nothing.

    The text before the harness's notice must begin the whole answer, and the text behind it must end it. Without a
    notice, the text must do one or the other.
    """
    cut, complete = plain(logged), plain(replayed)
    notices = list(_NOTICE.finditer(cut))
    if len(notices) > 1 or _CUT in cut:
        return None
    if not notices and cut and (complete.startswith(cut) or complete.endswith(cut)):
        return Compared(SAME, agreement=1.0)
    shown, whole = _both_masked(_NOTICE.sub(_CUT, cut), complete, None)
    head, _, tail = shown.partition(_CUT)
    if not (head + tail).strip() or len(head) + len(tail) > len(whole):
        return None
    begins, ends = whole.startswith(head), whole.endswith(tail)
    is_shown = begins and ends if notices else begins or whole.endswith(head)
    return Compared(VOLATILE) if is_shown else None


def screen_addition(before: str, after: str) -> str | None:
    """Return the text below the earlier screen of a terminal, with the typed line; None if the screen was redrawn."""
    old, new = ([line.rstrip() for line in text.split("\n")] for text in (before, after))
    for first in range(len(old)):
        common = len(old) - first - 1
        if old[first:-1] == new[:common] and common < len(new) and new[common].startswith(old[-1]):
            return "\n".join([new[common][len(old[-1]) :], *new[common + 1 :]])
    return None


def plain(text: str) -> str:
    """Normalize a text for comparison: strip blanks at ends, and unify a shell's name for itself."""
    lines = text[:COMPARED].replace("\r\n", "\n").split("\n")
    return _WHO.sub("bash: ", "\n".join(line.rstrip() for line in lines).strip("\n"))


def _both_masked(logged: str, replayed: str, now: datetime | None) -> tuple[str, str]:
    """Return the two texts with values that change with each run replaced by the name of their kind.

    Times are masked in the log if the other text lacks them, and in the replayed text if they are the current time.
    """
    moment = now or datetime.now(UTC)
    times = {match[0] for form in _TIMES for match in form.finditer(replayed)}
    return (
        _mask(logged, lambda match: match[0] not in times),
        _mask(replayed, lambda match: _is_now(match, moment)),
    )


def _mask(text: str, is_volatile: Callable[[re.Match[str]], bool]) -> str:
    for form in _TIMES:
        text = form.sub(lambda match: "<time>" if is_volatile(match) else match[0], text)
    for form, name in _MASKS:
        text = form.sub(name, text)
    return re.sub(r"[ \t]+", " ", text)


def _is_now(match: re.Match[str], moment: datetime) -> bool:
    """Return True if a time could have been printed at a moment: by its day, or by its minutes if it has no day."""
    fields = match.groupdict()
    near = [moment + timedelta(days=days) for days in (-1, 0, 1)]
    if "iso" in fields:
        return fields["iso"] in {f"{day:%Y-%m-%d}" for day in near}
    if "month" in fields:
        return (fields["month"], int(fields["day"])) in {(f"{day:%b}", day.day) for day in near}
    hours, minutes = map(int, fields["clock"].split(":"))
    apart = abs(60 * hours + minutes - 60 * moment.hour - moment.minute)
    return min(apart, 24 * 60 - apart) <= _MINUTES


def difference(logged: str, replayed: str) -> str:
    """Return the unified difference of two texts, cut to `SHOWN` characters."""
    shown, size = list[str](), 0
    lines = difflib.unified_diff(
        logged.split("\n")[:_LINES], replayed.split("\n")[:_LINES], "logged", "replayed", lineterm="", n=1
    )
    for line in lines:
        shown.append(line[:400])
        size += len(shown[-1]) + 1
        if size > SHOWN:
            break
    return "\n".join(shown)[:SHOWN]


def compare_lines(logged: str, lines: Sequence[str], whole: bool, alone: bool = False) -> Compared:
    """Compare the numbered lines of a file that a log shows with the lines that the file holds.

    How a tool words its answer is its own matter; what it shows of the file is not.

    Args:
        whole: whether the answer shows the file to its end.
        alone: whether nothing may stand behind the lines.
    """
    shown_lines = logged.split("\n")
    matches = [(index, match) for index, match in enumerate(map(_NUMBERED.match, shown_lines)) if match]
    if alone and matches and (behind := "\n".join(shown_lines[matches[-1][0] + 1 :]).strip()):
        return Compared(DIFFERS, f"the answer goes on behind its lines: {behind[:200]}")
    shown = [(int(match[1]), match[2].rstrip()) for _, match in matches]
    if len({index - int(match[1]) for index, match in matches}) > 1:
        return Compared(DIFFERS, "the lines of the answer do not follow each other")
    if whole and shown and shown[0][0] != 1:
        return Compared(DIFFERS, f"the answer begins at line {shown[0][0]}")
    actual = [(number, lines[number - 1].rstrip() if 1 <= number <= len(lines) else None) for number, _ in shown]
    last = len(lines) - (not lines[-1]) if lines else 0
    if whole and shown and shown[-1][0] < last:
        return Compared(DIFFERS, f"the answer ends at line {shown[-1][0]} of {last}")
    if shown == actual:
        return Compared(SAME, agreement=1.0)
    sides = (f"{number}\t{line}" for number, line in shown), (f"{number}\t{line}" for number, line in actual)
    return Compared(DIFFERS, difference(*map("\n".join, sides)))
