"""The entries of a Claude Code log in their order: all of a short log in memory, of a long one the last.

Any line may hang on any other, so the tree is made when all are read. What it is made of is a few bytes a line and
stands in arrays; the entries themselves go to a file, and come back as copies.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from functools import partial
from typing import Any, Final

from trajmill.connectors.agents.claude_code.entry import Call, Entry, Result, Said, Setting
from trajmill.schemas import Attachment
from trajmill.schemas.spool import Pile

BEGINS: Final = 1
"""Flag of an entry: a conversation may begin with it."""
SPEAKS: Final = 2
"""It holds parts or texts."""
ANSWERS: Final = 16
"""It holds results."""
KEEPS: Final = 4
"""It is a compaction, which names messages that it kept."""
LOST: Final = 8
"""It follows another line than the one that it names."""

_ENTRY_BYTES: Final = 1024
"""What an entry takes in memory besides its texts, roughly; the texts take about what the line does."""

_INDEX_BITS: Final = 24
"""Bits for the place of a part within its entry: a line of `LINE_BYTES` has room for five million."""

Conversation = tuple[str, str | None]
"""Session and agent of a setting."""


def packed(place: int, index: int) -> int:
    """A part or a result of an entry as one number, in the order of the log."""
    return place << _INDEX_BITS | index


def unpacked(number: int) -> tuple[int, int]:
    """The place of the entry and the index within it."""
    return number >> _INDEX_BITS, number & ((1 << _INDEX_BITS) - 1)


class Kept:
    """The entries of a log, by their place in it.

    Attributes:
        seen: places by the id of the line; `lines.entries` fills it.
        parents: id of the line that each one says it follows, None if it says that it follows none.
        settings: number of each one's setting, for `setting`.
        conversations: number of each setting's conversation.
        acts: whether any entry holds a call.
        flags: `BEGINS`, `SPEAKS`, `ANSWERS`, `KEEPS`, `LOST` of each one.
        results: `packed` place of each result, in the order of the log.
        result_keys: id of the call that each result names.
    """

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}
        self.parents: list[str | None] = []
        self.settings = array("i")
        self.conversations = array("i")
        self.flags = bytearray()
        self.acts = False
        self.results = array("q")
        self.result_keys: list[str] = []
        self._table: list[Setting] = []
        self._numbers: dict[Setting, int] = {}
        # not methods of this object, which would hold itself then and stay in memory when nothing else holds it
        self._pile: Pile[Entry] = Pile(partial(_packed, self._numbers), partial(_unpacked, self._table))
        self._named: dict[Conversation, int] = {}
        self._setting: Setting | None = None
        self._number = 0
        self._offset = 0
        self._files = array("q")
        self._members: list[str] = []
        self._read: tuple[int, Entry | None] = (-1, None)

    def begin(self, member: str) -> None:
        """Takes the entries that follow for those of another file."""
        self._files.append(len(self.flags))
        self._members.append(member)
        self._offset = 0

    def member(self, place: int) -> str:
        """The file that the line at a place stands in."""
        return self._members[bisect_right(self._files, place) - 1]

    def add(self, entry: Entry) -> None:
        """Takes in the next entry."""
        offset, _, parent, begins, setting, _, parts, said, results, _, _, _, compacted = entry
        if setting is not self._setting:
            self._setting, self._number = setting, self._number_of(setting)
        self.settings.append(self._number)
        self.parents.append(parent)
        flags = BEGINS if begins else 0
        if parts:
            flags |= SPEAKS
            self.acts = self.acts or any(isinstance(part, Call) for part in parts)
        elif said:
            flags |= SPEAKS
        if results:
            flags |= ANSWERS
            place = len(self.flags)
            for index, result in enumerate(results):
                self.results.append(packed(place, index))
                self.result_keys.append(result.call_id)
        if compacted is not None:
            flags |= KEEPS
        self.flags.append(flags)
        texts = sum(len(result.content or "") for result in results)  # which may stand in another file than the line
        self._pile.append(entry, _ENTRY_BYTES + max(offset - self._offset, texts))
        self._offset = offset

    def results_of(self, place: int) -> range:
        """Which of `results` are those of an entry."""
        begin = bisect_left(self.results, packed(place, 0))
        return range(begin, bisect_left(self.results, packed(place + 1, 0), begin))

    def _number_of(self, setting: Setting) -> int:
        number = self._numbers.get(setting)
        if number is None:
            number = self._numbers[setting] = len(self._table)
            self._table.append(setting)
            self.conversations.append(self._named.setdefault(setting[:2], len(self._named)))
        return number

    def __len__(self) -> int:
        return len(self._pile)

    def __getitem__(self, place: int) -> Entry:
        """The entry at a place; the one asked for last is remembered."""
        before, entry = self._read
        if before != place or entry is None:
            entry = self._pile[place]
            self._read = place, entry
        return entry

    def setting(self, place: int) -> Setting:
        """Where the line was written."""
        return self._table[self.settings[place]]

    def conversation(self, place: int) -> int:
        """Number of the conversation that the line was written in."""
        return self.conversations[self.settings[place]]


def _packed(numbers: dict[Setting, int], entry: Entry) -> tuple[Any, ...]:
    """The entry as plain values; its setting is one of those that have `numbers`."""
    return (
        *entry[:4],
        numbers[entry.setting],
        entry.at,
        tuple(map(tuple, entry.parts)),
        tuple((*one[:4], _attached(one.attachments)) for one in entry.said),
        tuple((*one[:5], _attached(one.attachments), *one[6:]) for one in entry.results),
        *entry[9:],
    )


def _unpacked(table: list[Setting], values: tuple[Any, ...]) -> Entry:
    """The inverse of `_packed`; `table` are the settings by their numbers."""
    parts, said, results = values[6:9]
    return Entry._make(
        (
            *values[:4],
            table[values[4]],
            values[5],
            tuple(one if len(one) == 2 else Call._make(one) for one in parts),
            tuple(Said._make((*one[:4], _attachments(one[4]))) for one in said),
            tuple(Result._make((*one[:5], _attachments(one[5]), *one[6:])) for one in results),
            *values[9:],
        )
    )


def _attached(attachments: tuple[Attachment, ...]) -> tuple[Any, ...]:
    return tuple((one.sha256, one.role, one.media_type, one.name) for one in attachments)


def _attachments(values: tuple[Any, ...]) -> tuple[Attachment, ...]:
    return tuple(Attachment(*one) for one in values)
