"""Records of a service: members of an answer that say again what was written or shown of the same thing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from trajmill.quality.derivable.known_texts import KnownTexts

RECORD_BYTES: Final = 1 << 18
"""Of all records of a trajectory that are remembered."""

_LONGEST: Final = 1 << 17
"""Characters of an answer beyond which it is not read."""

_MOST: Final = 256
"""Records of a list that are read."""

_TOOLS: Final = 256
"""Tools of a trajectory whose keys are remembered, and keys of each."""

_BLANKS: Final = re.compile(r"[ \t\r\n]*")
_DECODER: Final = json.JSONDecoder()


class Member(NamedTuple):
    """A member of an object, `"key": value`, as characters [begin, end) of the text.

    The bracket or comma before it is part of it, and behind the last member the bracket that ends the object.
    """

    key: str
    value: Any
    begin: int
    value_begin: int
    end: int


class Records:
    """What is remembered of records, by the key and value that name each.

    Attributes:
        checked: of the last answer how many members were known beforehand, and how many of these it says otherwise.
    """

    def __init__(self) -> None:
        self.checked = (0, 0)
        self._known = KnownTexts(RECORD_BYTES)
        self._keys: dict[str, set[str]] = {}

    def told(self, tool: str, text: str, given: Mapping[str, Any]) -> list[tuple[int, int, str]]:
        """(begin, end, label) of the members of an answer that could be told beforehand; the answer is remembered.

        `action`: the member stands among the arguments, under the same key. `derivable`: the same record had it.
        `frame`: of any other member its key, if an answer of the tool before had it.

        Args:
            tool: that was called.
            text: the answer.
            given: the arguments of the call.
        """
        self.checked = (0, 0)
        if len(text) > _LONGEST or text[:1] not in "{[" or not text:
            return []
        found: list[tuple[int, int, str]] = []
        keys = self._keys.setdefault(tool, set()) if tool in self._keys or len(self._keys) < _TOOLS else set()
        met: set[str] = set()
        try:
            for members in _objects(text):
                found += self._of_record(members, given, keys)
                met |= {one.key for one in members}
        except (ValueError, RecursionError):
            return []
        if len(keys) + len(met) <= _TOOLS:
            keys |= met
        return found

    def _of_record(
        self, members: list[Member], given: Mapping[str, Any], keys: set[str]
    ) -> Iterator[tuple[int, int, str]]:
        name = _name(members)
        held = self._known.get(name) if name else None
        before: dict[str, Any] = json.loads(held) if held else {}
        for one in members:
            sources = [source for source in (given, before) if one.key in source]
            is_wrong = bool(sources) and not any(_same(source[one.key], one.value) for source in sources)
            self.checked = (self.checked[0] + bool(sources), self.checked[1] + is_wrong)
            if one.key in given and _same(given[one.key], one.value):
                yield one.begin, one.end, "action"
            elif one.key in before and _same(before[one.key], one.value):
                yield one.begin, one.end, "derivable"
            elif one.key in keys:
                yield one.begin, one.value_begin, "frame"
        if name:
            self._known.put(name, json.dumps({one.key: one.value for one in members}, ensure_ascii=False))


def _same(left: Any, right: Any) -> bool:
    """Whether two values are one as JSON, where 1, 1.0 and true are not."""
    return json.dumps(left) == json.dumps(right)


def _name(members: list[Member]) -> str | None:
    """What names a record: its `id`, or the first member whose key ends so."""
    keys = {one.key: one.value for one in members}
    key = "id" if "id" in keys else next((key for key in keys if re.search(r"(?:_id|Id|_ID)$", key)), None)
    value = keys.get(key) if key else None
    return f"{key}={value}" if isinstance(value, str | int) and value != "" else None


def _objects(text: str) -> Iterator[list[Member]]:
    """The members of the object that the text is, or of each object of the list that it is."""
    at = _after_blanks(text, 0)
    if text[at] == "{":
        members, end = _members(text, at)
        if text[end:].strip():
            raise ValueError
        yield members
        return
    at = _after_blanks(text, at + 1)
    for _ in range(_MOST):
        if text[at : at + 1] != "{":
            return
        members, at = _members(text, at)
        yield members
        at = _after_blanks(text, at)
        if text[at : at + 1] != ",":
            return
        at = _after_blanks(text, at + 1)


def _members(text: str, at: int) -> tuple[list[Member], int]:
    found: list[Member] = []
    begin, at = at, _after_blanks(text, at + 1)
    while text[at : at + 1] == '"':
        key, at = _DECODER.raw_decode(text, at)
        at = _after_blanks(text, at)
        if text[at : at + 1] != ":":
            raise ValueError
        value_begin = _after_blanks(text, at + 1)
        value, at = _DECODER.raw_decode(text, value_begin)
        found.append(Member(key, value, begin, value_begin, at))
        begin = at
        at = _after_blanks(text, at)
        if text[at : at + 1] == ",":
            at = _after_blanks(text, at + 1)
    if text[at : at + 1] != "}":
        raise ValueError
    if found:
        found[-1] = found[-1]._replace(end=at + 1)
    return found, at + 1


def _after_blanks(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    return match.end() if match else at
