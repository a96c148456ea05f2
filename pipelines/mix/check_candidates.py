"""Candidates for the checks of an answer. `checks` keeps those that reject every wrong answer.

A candidate asks only for facts that can be predicted (see `answerable.Context`), not for those that only the
environment knows. Usefulness is not decided here.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any, Final

import re2

from trajmill.pipelines.mix import reward
from trajmill.pipelines.mix.answerable import NUMBERED, Context
from trajmill.pipelines.render.answered import Answered, Known, read_path, words

EXACT_SIZE: Final = 400
"""Largest length of an answer whose exact text may be asked for, in characters."""

_SHORTEST, _LONGEST, _LINES = 6, 300, 24
_WORD: Final = 24
"""Largest length of a text that may be the word for a state, in characters.

A longer one is a message or a whole text.
"""

_CLASSES: Final = (
    r"(?m)^(?:Uncaught )?(?:[\w.]+\.)?([A-Z]\w*(?:Error|Exception|Warning|Interrupt))(?::|$)",
    (
        r"(?m)(No such file or directory|command not found|Permission denied|Is a directory|Not a directory|File exists"
        r"|Connection refused|Could not resolve host|Not Found|not a git repository|No module named '[^']*')"
    ),
    r"(?m)^HTTP(?:/[\d.]+)? (\d{3})\b",
)
_COUNTS: Final = (
    r"(?m)\b(\d+) passed\b",
    r"(?m)\b(\d+) failed\b",
    r"(?m)^Ran (\d+) tests?\b",
    r"(?m)^(OK|FAILED)(?: \(|$)",
)
_SIZES: Final = (r"(?m)\((\d+) lines total\)",)
"""Patterns of sizes, which can be predicted only if the size was seen or written before."""

LAST: Final = "contains"
"""Type of the last candidates, after which no other type follows."""

COUNTED: Final = (
    r"(?m)\b[Ff]ound (\d+) (?:files?|match(?:es)?|results?|lines?)\b",
    r"(?m)^(\d+) (?:results?|match(?:es)?|files?)\b",
)
"""Patterns of numbers of results. They are often the same, so that they only count beside other checks."""

_PLACED: Final = re.compile(r"^(?:Doc )?\d+(?:[\t→:.)|]|\()")
"""Pattern of a line that states its position, in a file or among results."""

_TITLES: Final = (
    r"(?m)^\s*RootWebArea '([^'\n]*)'",
    r"(?m)^Current url: (.*)$",
    r"(?m)^Title: (.*)$",
    r'(?m)^#\d+ document\b.* value="([^"\n]*)"',
    r'(?m)^#\d+ (?:document|window) "([^"\n]*)"',
)
_SHOWN_AS_TREES: Final = frozenset({"web", "os", "android"})
_KEYS: Final = re.compile(r"press|key|type|sequence", re.IGNORECASE)
"""Names of actions that can move the focus away from their element."""

_STATES: Final = "checked|unchecked|selected|unselected|expanded|collapsed|focused|pressed|disabled"
_ELEMENT: Final = re.compile(
    r"^\s*(?:#\d+ |\[\w+\] )?(?P<role>[a-zA-Z]+) (?P<name>\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*')(?P<rest>.*)$"
)
_FOCUSED: Final = re.compile(r"(?:^|[ ,])focused\b")
_LABELLED: Final = re.compile(r"^(?P<before>.{0,80}?[:=] *)(?P<number>[-+]?\d[\d,]*(?:\.\d+)?)$")
_COMPUTED: Final = frozenset(
    [
        "ok",
        "success",
        "status",
        "state",
        "error",
        "code",
        "count",
        "total",
        "sum",
        "result",
        "value",
        "length",
        "size",
        "balance",
        "quantity",
        "available",
        "found",
        "exists",
        "valid",
        "is_error",
        "isError",
        "remaining",
        "type",
        "kind",
    ]
)


def candidates(turn: Answered, known: Known, other_answers: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield checks that the answer of a turn passes, strongest first. Most have not been tried on wrong answers.

    Args:
        known: texts that the trajectory showed before.
    """
    context = Context(turn, known, other_answers)
    for make in _MAKERS:
        yield from make(context)


def _exact(context: Context) -> Iterator[dict[str, Any]]:
    turn = context.turn
    short = len(turn.observation) <= EXACT_SIZE and turn.form not in reward.STATES
    short = short and not _is_counted(turn.observation, turn.domain)
    if short and not turn.volatile and not turn.scrubbed and all(map(context.knowable_line, context.lines)):
        yield {"type": "exact"}


def _no_change(context: Context) -> Iterator[dict[str, Any]]:
    turn = context.turn
    if turn.form in reward.STATES and turn.previous and reward.same(turn.observation, turn.previous, turn.form):
        yield {"type": "no_change"}


def _read_back(context: Context) -> Iterator[dict[str, Any]]:
    path = read_path(context.turn, context.known)
    if path is None:
        return
    text = context.turn.observation
    written = [line.strip() for line in context.known.written[path].split("\n")]
    lines = [line for line in dict.fromkeys(written) if len(line) >= _SHORTEST]
    lines = [line for line in lines if line in text][:8]
    if lines:
        yield {"type": "read_what_was_written", "lines": lines}


def _database_values(context: Context) -> Iterator[dict[str, Any]]:
    """Yield checks of the values in an answer that the run itself wrote to the database and that were shown before."""
    turn = context.turn
    written_values = {
        text for text in turn.stored if text in turn.observation and len(text) <= _LONGEST and "\n" not in text
    }
    written_values = {text for text in written_values if text not in turn.action and context.told(text)}
    if not written_values:
        return
    value = reward.document_in(turn.observation)
    if value is not None:
        leaves = islice(_at_paths(value), 400)
        matches = ((path, leaf) for path, leaf in leaves if isinstance(leaf, str | int) and str(leaf) in written_values)
        yield from ({"type": "json_path", "path": path, "value": leaf} for path, leaf in islice(matches, 4))
        return
    lines = [line.strip() for line in turn.observation.split("\n") if len(line.strip()) >= _SHORTEST]
    if lines_read := [line for line in lines if line in written_values][:8]:
        yield {"type": "read_what_was_written", "lines": lines_read}
    for text in islice((text for text in turn.stored if text in written_values and len(text) >= _SHORTEST), 4):
        yield {"type": "regex", "pattern": f"({_quote_pattern(text)})", "value": text}


def _exit(context: Context) -> Iterator[dict[str, Any]]:
    check: dict[str, Any] = {"type": "exit_code"}
    code = reward.value_in(check, context.turn.observation, {})
    if code is not None:
        yield {**check, "value": code}


@cache
def _finder(patterns: Sequence[str]) -> Any:
    """Build a set that finds the matching patterns of a text in a tenth of the time of trying them one by one."""
    pattern_set = re2.Set.SearchSet()
    for pattern in patterns:
        pattern_set.Add(pattern)
    pattern_set.Compile()
    return pattern_set


def _patterns(patterns: Sequence[str], context: Context) -> Iterator[dict[str, Any]]:
    for pattern in [patterns[number] for number in sorted(_finder(patterns).Match(context.turn.observation) or ())]:
        check: dict[str, Any] = {"type": "regex", "pattern": pattern}
        value = reward.value_in(check, context.turn.observation, {})
        if value and len(value) <= (8 if isinstance(value, list) else 200):
            yield {**check, "value": value}


def _classes(context: Context) -> Iterator[dict[str, Any]]:
    yield from _patterns(_CLASSES, context)


def _counts(context: Context) -> Iterator[dict[str, Any]]:
    # the number of results of a search cannot be predicted
    yield from _patterns(_COUNTS if context.turn.domain == "search" else _COUNTS + COUNTED, context)
    for check in _patterns(_SIZES, context):
        if isinstance(check["value"], str) and context.told(check["value"]):
            yield check


def _titles(context: Context) -> Iterator[dict[str, Any]]:
    if context.turn.form in reward.STATES:
        for check in _patterns(_TITLES, context):
            if context.knowable(json.dumps(check["value"], ensure_ascii=False)):
                yield check


def _elements(context: Context) -> Iterator[dict[str, Any]]:
    """Yield checks of the focused element, and of the states and values that elements of the screen changed to."""
    if context.turn.form not in reward.STATES or context.turn.previous is None:
        return
    before = {match["role"] + match["name"]: match["rest"] for match in _elements_of(context.turn.previous)}
    for match in _elements_of(context.turn.observation):
        key, rest = match["role"] + match["name"], match["rest"]
        if before.get(key, rest) == rest:
            continue
        element = rf"(?m)\b{re.escape(match['role'])} {_quote_pattern(match['name'])}"
        if _FOCUSED.search(rest) and not _FOCUSED.search(before[key]) and _moves_focus_to(match, context):
            value = match["name"][1:-1]
            yield {
                "type": "regex",
                "pattern": rf"(?m)\b{re.escape(match['role'])} [\"'](.*?)[\"'][^\"'\n]*\bfocused\b",
            } | {"value": value}
        for state in re.findall(rf"\b(?:{_STATES})\b", rest)[:3]:
            if state != "focused" and not re.search(rf"\b{state}\b", before[key]):
                yield {"type": "regex", "pattern": rf"{element}[^\"'\n]*\b({_STATES})\b", "value": state}
        valued = re.search(r"value=([\"'])([^\"'\n]+)\1", rest)
        if valued and context.told(valued[2]):
            yield {"type": "regex", "pattern": rf"{element}[^\n]*?value=[\"']([^\"'\n]*)", "value": valued[2]}


def _moves_focus_to(element: re.Match[str], context: Context) -> bool:
    """Return True if an action can move the focus to an element: it names no other shown element, or presses keys."""
    if _KEYS.search(context.turn.tool):
        return True
    named = [value for value in context.turn.values if value[:1] == "#"]
    number = element[0].split(maxsplit=1)[0]
    shown_marks = {line.split(maxsplit=1)[0] for line in context.turn.observation.split("\n") if line.strip()}
    return not named or number in named or not any(value in shown_marks for value in named)


def _elements_of(text: str) -> Iterator[re.Match[str]]:
    lines = islice((line for line in text.split("\n") if len(line) < 1000), 2000)
    return (match for match in map(_ELEMENT.match, lines) if match)


def _quote_pattern(text: str) -> str:
    """Return an RE2 pattern that matches a literal text."""
    return "".join(
        character
        if character.isalnum() or character in "_ "
        else f"\\{character}"
        if character.isascii()
        else character
        for character in text
    )


def _json_values(context: Context) -> Iterator[dict[str, Any]]:
    value = reward.document_in(context.turn.observation)
    if value is None:
        return
    count = 0
    for path, leaf in islice(_at_paths(value), 400):
        if count == 4:
            return
        name = path.rpartition("['")[2].removesuffix("']") if path.endswith("']") else ""
        if isinstance(leaf, list | dict):
            check = {"type": "json_path", "path": path, "of": "length", "value": len(leaf)}
        elif leaf is None or (isinstance(leaf, str) and (not leaf or len(leaf) > _LONGEST)):
            continue
        elif isinstance(leaf, float) and math.isfinite(leaf):
            check = {"type": "numeric", "path": path, "value": leaf, "tol": _tolerance(repr(leaf))}
        else:
            check = {"type": "json_path", "path": path, "value": leaf}
        computed = name in _COMPUTED and (not isinstance(leaf, str) or len(leaf) <= _WORD or context.knowable(leaf))
        if computed or (isinstance(leaf, str | int) and context.told(str(leaf))):
            count += 1
            yield check


def _at_paths(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield (normalized path, value) of all lists and leaves in document order, without deeply nested ones."""
    stack: list[tuple[str, Any]] = [("$", value)]
    while stack:
        path, item = stack.pop()
        if isinstance(item, Mapping):
            keys = [key for key in item if "'" not in key and "\\" not in key and "]" not in key]
            stack.extend((f"{path}['{key}']", item[key]) for key in reversed(keys))
            continue
        yield path, item
        if isinstance(item, list) and path.count("[") < 6:
            stack.extend((f"{path}[{index}]", element) for index, element in reversed(list(enumerate(item[:20]))))


def _numbers(context: Context) -> Iterator[dict[str, Any]]:
    lines = context.lines
    if context.turn.form in reward.STATES:
        return
    if len(lines) == 1 and re.fullmatch(r"[-+]?\d[\d,]{0,20}(?:\.\d{1,20})?", lines[0]):
        yield {"type": "numeric", **_near(lines[0])}
    for line in lines[:_LINES]:
        match = _LABELLED.match(line) if len(line) < 120 else None
        if match and context.knowable(match["before"]) and words(match["before"]):
            yield {"type": "numeric", "before": match["before"].rstrip(), **_near(match["number"])}


def _near(text: str) -> dict[str, float]:
    return {"value": float(text.replace(",", "")), "tol": _tolerance(text)}


def _tolerance(text: str) -> float:
    """Return the tolerance of a decimal number.

    It is half a unit in the last place for one or two decimals, and ten units in the last place for more.
    """
    digits = len(text.partition(".")[2])
    return 0.0 if not digits else float(f"5e-{digits + 1}") if digits < 3 else float(f"1e-{digits - 1}")


def _known_lines(context: Context) -> Iterator[dict[str, Any]]:
    """Yield lines that could be predicted, starting with those that the fewest other answers have."""
    typed = tuple(
        {line.strip() for value in context.turn.values for line in value.split("\n") if len(line.strip()) > 2}
    )
    counts = context.line_counts
    is_tree = context.turn.form in reward.STATES and context.turn.domain in _SHOWN_AS_TREES
    lines = [
        line
        for line in dict.fromkeys(context.lines)
        if _SHORTEST <= len(line) <= _LONGEST and line not in context.before
    ]
    lines = [line for line in lines if re.search(r"\w{3}", line) and not line.endswith(typed)]
    lines = [line for line in lines if not line.startswith(("[exit code", "[timed out"))]
    if context.turn.form not in reward.STATES:
        # each word may be known, but only the environment knows that they occur together there
        lines = [line for line in lines if not _PLACED.match(line) and not _is_counted(line, context.turn.domain)]
    lines.sort(key=lambda line: (counts[line], -len(line)))
    known = (
        line
        for line in lines
        if (context.knowable_element if is_tree or NUMBERED.match(line) else context.knowable_line)(line)
    )
    yield from ({"type": "contains", "line": line} for line in islice(known, _LINES))


def _is_counted(line: str, domain: str) -> bool:
    return domain == "search" and any(re.search(pattern, line) for pattern in COUNTED)


_MAKERS: Final[Sequence[Callable[[Context], Iterator[dict[str, Any]]]]] = (
    _no_change,
    _read_back,
    _database_values,
    _exact,
    _elements,
    _titles,
    _json_values,
    _classes,
    _counts,
    _exit,
    _numbers,
    _known_lines,
)
