r"""Output of a command within the words that a harness writes around it: mini-swe-agent's forms of an answer.

`<returncode>1</returncode>\n<output>\n…\n</output>` and, where the output was cut, `<output_head>`, `<elided_chars>`
and `<output_tail>`; an object of the same members as JSON (2.x); and `The last command <command>…</command> timed out
and has been killed.` with the output after it. All of that is the harness's: the exit code, that the time ran out, and
its advice are told apart from what the command put out. A cut output is its head and its tail with a line between that
says how much was left out. Terminals wrap lines, so blanks of its may be line ends.
"""

from __future__ import annotations

import re
from typing import Any, Final

from trajmill.connectors.reading.fields import INT32, number_of, str_of, whole_number_of
from trajmill.connectors.reading.values import json_value
from trajmill.schemas.record import record

NEVER_ENDED: Final = -1
"""Exit status of a command that the harness stopped waiting for."""

_EXCEPTION: Final = re.compile(r"\s*(<exception>.*?</exception>)\s*(?=<returncode>)", re.DOTALL)
_RETURNED: Final = re.compile(r"\s*<returncode>(-?[0-9]{1,9})</returncode>[ \t]*\n?")
_KILLED: Final = re.compile(
    r"\s*(The\s+last\s+command\s+<command>.*?</command>\s+timed\s+out\s+and\s+has\s+been\s+killed\.\s+"
    r"The\s+output\s+of\s+the\s+command\s+was:)\s*",
    re.DOTALL,
)
_LIMIT: Final = re.compile(
    r"(?:timed\s+out|no\s+new\s+output|took\s+more\s+than|for\s+more\s+than)(?:\s+after)?"
    r"\s+([0-9]{1,6}(?:\.[0-9]{1,6})?)\s*s(?:ec|econds)?\b",
    re.IGNORECASE,
)
_WARNING: Final = re.compile(r"\s*<warning>\s*(.*?)\s*</warning>\s*", re.DOTALL)
_ADVICE: Final = "Please try another command and make sure to avoid those requiring interactive input."
_OUTPUT: Final = re.compile(r"\s*<output>")
_HEAD: Final = re.compile(r"\s*<output_head>")
_MIDDLE: Final = re.compile(
    r"</output_head>(?:\s*<elided_chars>\s*(?:([0-9]{1,12})\s+)?characters\s+elided\s*</elided_chars>)?"
    r"\s*(<output_tail>|\Z)"
)
_MOST_ELIDED: Final = 10**12
_LONGEST_LIMIT: Final = 1e6
_LONGEST_SECONDS: Final = 1e9
_OBJECT: Final = re.compile(r'\s*\{\s*"returncode":\s*-?[0-9]{1,9}\s*[,}]')
_MEMBERS: Final = frozenset(
    {"returncode", "output", "output_head", "output_tail", "elided_chars", "warning", "exception_info"}
)


@record
class Output:
    """Output of a command, and its outcome.

    Attributes:
        text: Known part of the output; None if the harness gives none.
        exit_code: Exit code; None if the command was not seen to end.
        killed: True if its time ran out.
        limit: Time limit in seconds, if the harness names it.
        cut: True if the harness left out a part.
        notes: Words of the harness around the output, in order.
        seconds: Duration in seconds, if the harness names it.
        folder: Folder of the shell afterwards, if the harness names it.
    """

    text: str | None
    exit_code: int | None = None
    killed: bool = False
    limit: float | None = None
    cut: bool = False
    notes: tuple[str, ...] = ()
    seconds: float | None = None
    folder: str | None = None


def unwrap(text: str, entire: bool = True) -> Output | None:
    """Return the output in an answer of the harness; None if it has none of the forms.

    Args:
        entire: True if the text is exactly the answer. If other words may follow, the answer ends at the first closing
            tag on a line of its own.
    """
    if _OBJECT.match(text):
        return _of_object(text)
    notes: list[str] = []
    if (exception := _EXCEPTION.match(text)) is not None:
        notes.append(exception[1])
        text = text[exception.end() :]
    if (returned := _RETURNED.match(text)) is not None:
        code = int(returned[1])
        return _of_tags(text[returned.end() :], None if code == NEVER_ENDED else code, False, notes, entire)
    if (killed := _KILLED.match(text)) is not None:
        return _of_tags(text[killed.end() :], None, True, [*notes, killed[1]], entire)
    return None


def _of_tags(rest: str, code: int | None, killed: bool, notes: list[str], entire: bool) -> Output | None:
    if (warning := _WARNING.match(rest)) is not None:
        notes.append(warning[1])
        rest = rest[warning.end() :]
    behind = ""
    if killed and (advice := rest.rfind(_ADVICE)) >= 0:
        rest, behind = rest[:advice].rstrip(), rest[advice:].rstrip()
    killed = killed or any("timed out" in note for note in notes)
    cut = _HEAD.match(rest)
    begins = cut or _OUTPUT.match(rest)
    if begins is None:
        return Output(None, code, killed, _limit(notes), False, tuple(notes)) if not rest.strip() else None
    closing = "</output_tail>" if cut is not None else "</output>"
    end, after = _end(rest, begins.end(), closing, entire)
    behind = "\n".join(words for words in (rest[after:].strip() if entire else "", behind) if words)
    shown = _join_halves(rest[begins.end() : end]) if cut is not None else _within(rest[begins.end() : end])
    all_notes = (*notes, behind) if behind else tuple(notes)
    return Output(shown, code, killed, _limit(notes), cut is not None, all_notes)


def _join_halves(text: str) -> str:
    """Return the head and tail of a cut output, joined according to the text between their tags."""
    middle = _MIDDLE.search(text)
    if middle is None:
        return _within(text)
    return _cut_output(_within(text[: middle.start()]), middle[1] or "", _within(text[middle.end() :]))


def _cut_output(head: str, elided: str | int, tail: str) -> str:
    """Join the head and tail of an output by a line with the number of omitted characters, if it is known.

    The line is a mark of the harness, since only the fact of the omission is known.
    """
    mark = f"[{elided} characters elided]" if elided else "[characters elided]"
    return f"{head}\n{mark}\n{tail}" if tail else f"{head}\n{mark}"


def _within(text: str) -> str:
    """Return the text between two tags, without the line ends next to the tags."""
    return text.removeprefix("\n").removesuffix("\n")


def _end(text: str, begin: int, closing: str, entire: bool) -> tuple[int, int]:
    """Return the end of the output and the beginning of the text after it.

    The output of a whole answer ends at the last closing tag; otherwise at the first one on a line of its own, or the
    first of all.
    """
    position = text.rfind(closing, begin)
    if not entire:
        alone = re.compile(rf"^{re.escape(closing)}[ \t]*$", re.MULTILINE).search(text, begin)
        position = alone.start() if alone is not None else text.find(closing, begin)
    return (position, position + len(closing)) if position >= 0 else (len(text), len(text))


def _of_object(text: str) -> Output | None:
    try:
        value: Any = json_value(text)
    except ValueError:
        return None
    if not isinstance(value, dict) or not value.keys() <= _MEMBERS:
        return None
    code, output = value.get("returncode"), value.get("output")
    head, tail, elided = value.get("output_head"), value.get("output_tail"), value.get("elided_chars")
    notes = tuple(note for key in ("warning", "exception_info") if (note := str_of(value.get(key))))
    shown = output if isinstance(output, str) else None
    if isinstance(head, str) and isinstance(tail, str):
        shown = _cut_output(head, elided if type(elided) is int and 0 < elided < _MOST_ELIDED else "", tail)
    limit = _limit(notes)
    known = type(code) is int and code != NEVER_ENDED and abs(code) < 2**31
    return Output(shown, code if known else None, limit is not None, limit, isinstance(head, str), notes)


def output_object(text: str) -> Output | None:
    """Return the output in an object of `output` and `metadata` (Codex), or `exit_code` and `error` (Hermes).

    The result is None for any other text.
    """
    if not text.startswith('{"output":'):
        return None
    try:
        value: Any = json_value(text)
    except ValueError:
        return None
    inner, metadata = value.pop("output"), value.get("metadata")
    notes = tuple(filter(None, (str_of(value.pop("_budget_warning", None)),)))
    if not isinstance(inner, str):
        return None
    if value.keys() == {"exit_code", "error"}:
        error = str_of(value["error"])
        return Output("\n".join(filter(None, (inner, error))), whole_number_of(value["exit_code"], INT32), notes=notes)
    if value.keys() != {"metadata"} or not isinstance(metadata, dict):
        return None
    seconds = number_of(metadata.get("duration_seconds"), _LONGEST_SECONDS, 0)
    return Output(inner, whole_number_of(metadata.get("exit_code"), INT32), seconds=seconds)


def limit_of(value: Any) -> float | None:
    """Return the time limit per command in a harness's configuration, in seconds; None for any other value."""
    return float(value) if type(value) in (int, float) and 0 < value < _LONGEST_LIMIT else None


def find_kill_limit(text: str | None) -> float | None:
    """Return the seconds after which a command was killed according to a text of the harness; None if it names none."""
    return _limit((text,)) if text else None


def _limit(notes: list[str] | tuple[str, ...]) -> float | None:
    match = next((hit for note in notes if (hit := _LIMIT.search(note))), None)
    return float(match[1]) if match is not None and float(match[1]) > 0 else None
