"""Entries of a Claude Code log in order: those of a short log in memory, of a long one only the last.

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
"""Approximate memory of an entry besides its texts, in bytes; the texts take about what the line does."""

_INDEX_BITS: Final = 24
"""Bits for the place of a part within its entry: a line of `LINE_BYTES` has room for five million."""

Conversation = tuple[str, str | None]
"""Session and agent of a setting."""


def pack(position: int, index: int) -> int:
    """Pack the position of an entry and the index of a part or result in it into a number, in the order of the log."""
    return position << _INDEX_BITS | index


def unpack(number: int) -> tuple[int, int]:
    """Unpack the position of the entry and the index within it."""
    return number >> _INDEX_BITS, number & ((1 << _INDEX_BITS) - 1)


class EntryStore:
    """Entries of a log, by position.

    Attributes:
        seen: places by the id of the line; `lines.entries` fills it.
        parents: id of the line that each one says it follows, None if it says that it follows none.
        settings: number of each one's setting, for `setting`.
        conversations: number of each setting's conversation.
        acts: whether any entry holds a call.
        flags: `BEGINS`, `SPEAKS`, `ANSWERS`, `KEEPS`, `LOST` of each one.
        results: `pack` place of each result, in the order of the log.
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
        self._pile: Pile[Entry] = Pile(partial(_pack_entry, self._numbers), partial(_unpack_entry, self._table))
        self._named: dict[Conversation, int] = {}
        self._setting: Setting | None = None
        self._number = 0
        self._offset = 0
        self._files = array("q")
        self._members: list[str] = []
        self._read: tuple[int, Entry | None] = (-1, None)

    def begin(self, member: str) -> None:
        """Begin another file: the entries that follow belong to it."""
        self._files.append(len(self.flags))
        self._members.append(member)
        self._offset = 0

    def member(self, position: int) -> str:
        """Name the file that holds the line at a position."""
        return self._members[bisect_right(self._files, position) - 1]

    def add(self, entry: Entry) -> None:
        """Take in the next entry."""
        offset, _, parent, begins, setting, _, parts, texts_said, results, _, _, _, compacted = entry
        if setting is not self._setting:
            self._setting, self._number = setting, self._number_of(setting)
        self.settings.append(self._number)
        self.parents.append(parent)
        flags = BEGINS if begins else 0
        if parts:
            flags |= SPEAKS
            self.acts = self.acts or any(isinstance(part, Call) for part in parts)
        elif texts_said:
            flags |= SPEAKS
        if results:
            flags |= ANSWERS
            position = len(self.flags)
            for index, result in enumerate(results):
                self.results.append(pack(position, index))
                self.result_keys.append(result.call_id)
        if compacted is not None:
            flags |= KEEPS
        self.flags.append(flags)
        texts = sum(len(result.content or "") for result in results)  # which may stand in another file than the line
        self._pile.append(entry, _ENTRY_BYTES + max(offset - self._offset, texts))
        self._offset = offset

    def results_of(self, position: int) -> range:
        """Return the range of `results` that belongs to an entry."""
        begin = bisect_left(self.results, pack(position, 0))
        return range(begin, bisect_left(self.results, pack(position + 1, 0), begin))

    def _number_of(self, setting: Setting) -> int:
        number = self._numbers.get(setting)
        if number is None:
            number = self._numbers[setting] = len(self._table)
            self._table.append(setting)
            self.conversations.append(self._named.setdefault(setting[:2], len(self._named)))
        return number

    def __len__(self) -> int:
        return len(self._pile)

    def __getitem__(self, position: int) -> Entry:
        """Read the entry at a position; the one asked for last is remembered."""
        before, entry = self._read
        if before != position or entry is None:
            entry = self._pile[position]
            self._read = position, entry
        return entry

    def setting(self, position: int) -> Setting:
        """Return the setting in which the line was written."""
        return self._table[self.settings[position]]

    def conversation(self, position: int) -> int:
        """Number of the conversation that the line was written in."""
        return self.conversations[self.settings[position]]


def _pack_entry(numbers: dict[Setting, int], entry: Entry) -> tuple[Any, ...]:
    """Pack the entry into plain values; its setting must be one of those that have `numbers`."""
    return (
        *entry[:4],
        numbers[entry.setting],
        entry.at,
        tuple(map(tuple, entry.parts)),
        tuple((*item[:4], _pack_attachments(item.attachments)) for item in entry.said),
        tuple((*item[:5], _pack_attachments(item.attachments), *item[6:]) for item in entry.results),
        *entry[9:],
    )


def _unpack_entry(table: list[Setting], values: tuple[Any, ...]) -> Entry:
    """The inverse of `_pack_entry`; `table` are the settings by their numbers."""
    parts, texts, results = values[6:9]
    return Entry._make(
        (
            *values[:4],
            table[values[4]],
            values[5],
            tuple(item if len(item) == 2 else Call._make(item) for item in parts),
            tuple(Said._make((*item[:4], _unpack_attachments(item[4]))) for item in texts),
            tuple(Result._make((*item[:5], _unpack_attachments(item[5]), *item[6:])) for item in results),
            *values[9:],
        )
    )


def _pack_attachments(attachments: tuple[Attachment, ...]) -> tuple[Any, ...]:
    return tuple(
        (attachment.sha256, attachment.role, attachment.media_type, attachment.name) for attachment in attachments
    )


def _unpack_attachments(values: tuple[Any, ...]) -> tuple[Attachment, ...]:
    return tuple(Attachment(*cells) for cells in values)
