"""Entries of a Claude Code log in order. A short log stays in memory; of a long log only the last entries do.

Any line may be linked to any other, so the tree is built after all lines are read. The data for it take a few bytes per
line and are kept in arrays. The entries themselves go to a file and are read back as copies.
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
"""Flag of an entry: it holds parts or texts."""
ANSWERS: Final = 16
"""Flag of an entry: it holds results."""
KEEPS: Final = 4
"""Flag of an entry: it is a compaction, which names the messages that it kept."""
LOST: Final = 8
"""Flag of an entry: it follows another line than the one that it names."""
BESIDE: Final = 32
"""Flag of an entry: it stands beside the conversation."""

_ENTRY_BYTES: Final = 1024
"""Approximate memory of an entry without its texts, in bytes; the texts take about as much as the line."""

_INDEX_BITS: Final = 24
"""Bits for the index of a part within its entry. A line of `LINE_BYTES` has room for five million parts."""

Conversation = tuple[str, str | None]
"""Session and agent of a setting."""


def pack(position: int, index: int) -> int:
    """Pack the position of an entry and the index of a part or result into one number that sorts in log order."""
    return position << _INDEX_BITS | index


def unpack(number: int) -> tuple[int, int]:
    """Unpack the position of the entry and the index within it."""
    return number >> _INDEX_BITS, number & ((1 << _INDEX_BITS) - 1)


class EntryStore:
    """Entries of a log, by position.

    Attributes:
        seen: positions by the id of the line; filled by `lines.entries`.
        parents: id of the line that each entry states it follows; None if it states that it follows none.
        settings: number of each entry's setting, for `setting`.
        conversations: number of each setting's conversation.
        acts: whether any entry holds a call.
        flags: `BEGINS`, `SPEAKS`, `ANSWERS`, `KEEPS`, `LOST`, `BESIDE` of each entry.
        results: packed position of each result (see `pack`), in the order of the log.
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
        # not bound methods, which would make a reference cycle and keep this object in memory
        self._pile: Pile[Entry] = Pile(partial(_pack_entry, self._numbers), partial(_unpack_entry, self._table))
        self._named: dict[Conversation, int] = {}
        self._setting: Setting | None = None
        self._number = 0
        self._offset = 0
        self._files = array("q")
        self._members: list[str] = []
        self._read: tuple[int, Entry | None] = (-1, None)

    def begin(self, member: str) -> None:
        """Begin another file, which holds the entries that follow."""
        self._files.append(len(self.flags))
        self._members.append(member)
        self._offset = 0

    def member(self, position: int) -> str:
        """Return the file that holds the line at a position."""
        return self._members[bisect_right(self._files, position) - 1]

    def add(self, entry: Entry) -> None:
        """Append the next entry."""
        offset, _, parent, begins, setting, _, parts, texts_said, results, _, _, _, compacted, beside = entry
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
        if beside:
            flags |= BESIDE
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
        """Read the entry at a position. The entry of the last request is cached."""
        before, entry = self._read
        if before != position or entry is None:
            entry = self._pile[position]
            self._read = position, entry
        return entry

    def setting(self, position: int) -> Setting:
        """Return the setting of the line at a position."""
        return self._table[self.settings[position]]

    def conversation(self, position: int) -> int:
        """Return the number of the conversation that the line at a position belongs to."""
        return self.conversations[self.settings[position]]


def _pack_entry(numbers: dict[Setting, int], entry: Entry) -> tuple[Any, ...]:
    """Pack the entry into plain values; its setting must be one of `numbers`."""
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
    """Invert `_pack_entry`; `table` holds the settings by their numbers."""
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
