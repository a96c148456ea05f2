"""Nodes of a Claude Code log, while the tree grows and afterwards: its turns and notes, calls and results.

A node is a number, and its properties are in arrays under that number. As objects, the nodes of a log of 2 GB would
take more than a gigabyte. Texts and calls are read from the entries. See `branches` for the definition of a node.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterator, Sequence
from hashlib import blake2b
from typing import Final

from trajmill.connectors.agents.claude_code.entry import Call, Entry, Part, Result, Said
from trajmill.connectors.agents.claude_code.kept import ANSWERS, LOST, SPEAKS, EntryStore, pack, unpack

NONE: Final = -1
"""Value that marks the absence of a node, an entry, a call or a result."""

_RANDOM_ID: Final = 16
"""Length from which a message id counts as random. Some proxies give every message the same id."""


class Nodes:
    """Turns and notes by number, each after its parent.

    Attributes:
        parents: the node that each node follows, or `NONE`.
        firsts: the first entry of each node.
        lasts: the last entry of each node in the order of the log, replicas included.
        tails: of a turn, the entry that was added last.
        turns: 1 for a turn, 0 for a note.
        acts: 1 if the node or a node above it holds a call.
        followed: 1 if a later turn is below the node.
        of_entry: the node that each entry belongs to or follows, or `NONE`.
        calls: packed position of each call (see `pack`), in the order of growth; the calls of an entry are adjacent.
        call_keys: id of each call, empty if it has none.
        answers: packed position of the result of each call, or `NONE`.
    """

    def __init__(self, store: EntryStore) -> None:
        self.kept = store
        self.parents = array("i")
        self.firsts = array("i")
        self.lasts = array("i")
        self.tails = array("i")
        self.turns = bytearray()
        self.acts = bytearray()
        self.followed = bytearray()
        self.of_entry = array("i", [NONE]) * len(store)
        self.calls = array("q")
        self.call_keys: list[str] = []
        self.answers = array("q")
        self._tops = array("i")
        self._next = array("i", [NONE]) * len(store)
        self._first_call = array("i", [NONE]) * len(store)
        self._fresh: dict[int, tuple[int, ...]] = {}

    def __len__(self) -> int:
        return len(self.parents)

    def add(self, parent: int, position: int, turn: bool) -> int:
        """Add a node whose first entry is at the position, and return its number."""
        node = len(self.parents)
        self.parents.append(parent)
        self._tops.append(node if parent < 0 else self._tops[parent])
        self.firsts.append(position)
        self.lasts.append(position)
        self.tails.append(position)
        self.turns.append(turn)
        self.acts.append(0)
        self.followed.append(0)
        return node

    def gather(
        self, node: int, position: int, parts: Sequence[Part], fresh: tuple[int, ...] | None
    ) -> list[tuple[Call, str]]:
        """Add an entry and its `parts` to a turn; `fresh` are the indices of the parts new to the turn, None for all.

        Return the new calls, each with its id.
        """
        if self.firsts[node] != position:
            self._next[self.tails[node]] = position
            self.tails[node] = position
            self.lasts[node] = max(self.lasts[node], position)
        if fresh is not None:
            self._fresh[position] = fresh
        calls = []
        for index in range(len(parts)) if fresh is None else fresh:
            part = parts[index]
            if isinstance(part, Call):
                calls.append((part, part.call_id or ""))
                self.calls.append(pack(position, index))
        if calls:
            self._first_call[position] = len(self.answers)
            self.call_keys.extend([key for _, key in calls])
            self.answers.extend([NONE] * len(calls))
            self.acts[node] = 1
        return calls

    def top(self, node: int) -> int:
        """Return the first node of the path to a node."""
        return self._tops[node]

    def path(self, end: int) -> array[int]:
        """Return the nodes from the root to `end`."""
        path = array("i")
        while end >= 0:
            path.append(end)
            end = self.parents[end]
        path.reverse()
        return path

    def entries(self, node: int) -> Iterator[int]:
        """Yield the positions of a turn's entries."""
        position = self.firsts[node]
        while position >= 0:
            yield position
            position = self._next[position]

    def parts(self, node: int) -> Iterator[tuple[Part, int]]:
        """Yield the parts of a turn without repetitions, each with the number of its call or `NONE`."""
        for position in self.entries(node):
            parts = self.kept[position].parts
            call = self._first_call[position]
            for index in self._fresh.get(position, range(len(parts))):
                part = parts[index]
                if isinstance(part, Call):
                    yield part, call
                    call += 1
                else:
                    yield part, NONE

    def calls_of(self, node: int) -> Iterator[int]:
        """Yield the numbers of a turn's calls."""
        for position in self.entries(node):
            call = self._first_call[position]
            while 0 <= call < len(self.calls) and unpack(self.calls[call])[0] == position:
                yield call
                call += 1

    def of_call(self, call: int) -> int:
        """Return the turn of a call."""
        return self.of_entry[unpack(self.calls[call])[0]]

    def said(self, node: int) -> tuple[Said, ...]:
        """Return the texts of a note."""
        return self.kept[self.firsts[node]].said

    def result(self, number: int) -> Result:
        """Return the result at a packed position."""
        position, index = unpack(number)
        return self.kept[position].results[index]

    def answer(self, call: int) -> Result | None:
        """Return the result of a call; None if it has none."""
        number = self.answers[call]
        return None if number < 0 else self.result(number)


def grow_nodes(store: EntryStore, links: Sequence[int], order: Sequence[int]) -> Nodes:
    """Build the nodes of the log. Each entry follows the entry at its link, which comes before it in `order`."""
    growth = _Growth(store, links)
    for position in order:
        growth.add(position)
    return growth.nodes


def _digest(text: str) -> bytes:
    """Return a digest of 16 bytes of a text."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class _Growth:
    """The tree while it grows, entry by entry, each after the entry that it follows."""

    def __init__(self, store: EntryStore, links: Sequence[int]) -> None:
        self.nodes = Nodes(store)
        self._kept = store
        self._links = links
        self._direct = bytearray(len(store))
        self._messages: list[str | None] = []
        self._requests: list[str | None] = []
        self._siblings: dict[Hashable, int] = {}
        self._keyed = bytearray()
        self._keys: set[tuple[int, bytes]] = set()
        self._answered: set[str] = set()
        self._open = array("i")
        self._waiting: dict[str, list[int]] = {}

    def add(self, position: int) -> None:
        """Add the entry at a position, after its parent."""
        link, flags, nodes = self._links[position], self._kept.flags[position], self.nodes
        node = nodes.of_entry[link] if link >= 0 else NONE
        # the log does not hold the parent, which may have been an answer, so this entry does not follow directly
        direct = link >= 0 and not flags & LOST and self._direct[link] == 1
        if flags & ANSWERS:
            for number in self._kept.results_of(position):
                self._result(self._kept.result_keys[number])
        if flags & SPEAKS:
            entry = self._kept[position]
            if entry.parts:
                node, direct = self._turn(position, entry, node, direct), True
            else:
                node, direct = self._note(position, entry, node), False
        elif flags & ANSWERS:
            direct = False
        nodes.of_entry[position] = node
        if direct:
            self._direct[position] = 1

    def _result(self, key: str) -> None:
        """Record that the log holds a result for the calls of that id."""
        self._answered.add(key)
        for turn in self._waiting.pop(key, ()):
            self._open[turn] -= 1

    def _turn(self, position: int, entry: Entry, parent: int, direct: bool) -> int:
        """Return the turn that the entry belongs to.

        The entry continues the turn before it if it is part of the same API message, even if results of the first calls
        arrived while the model was still writing. It also continues that turn if nothing stands between them and the
        turn has an open call or no call, because the client cannot make the next request before every call is answered.
        """
        node, nodes = NONE, self.nodes
        message, request = entry.message_id, entry.request_id
        if parent >= 0 and nodes.turns[parent]:
            same = self._is_message(parent, entry, message, request)
            if same or (direct and self._unfinished(parent)):
                node = parent
        if node < 0 and message is not None:
            node = self._siblings.get((message, parent), NONE)
        fresh = None
        if node < 0:
            node = self._new(position, parent, True)
            if message is not None:
                self._siblings[message, parent] = node
        else:
            fresh = self._new_parts(node, entry)
        self._messages[node], self._requests[node] = message, request
        for call, key in nodes.gather(node, position, entry.parts, fresh):
            # a call is open until a result names it; a call without an id stays open
            if call.call_id is None:
                self._open[node] += 1
            elif key not in self._answered:
                self._open[node] += 1
                self._waiting.setdefault(key, []).append(node)
        return node

    def _unfinished(self, turn: int) -> bool:
        """Return True if the turn has no call yet or an unanswered call."""
        return not self.nodes.acts[turn] or self._open[turn] > 0

    def _is_message(self, turn: int, entry: Entry, message: str | None, request: str | None) -> bool:
        """Return True if the entry belongs to the API message of the turn's last entry."""
        if message is None or self._messages[turn] != message:
            return False
        if request is not None and self._requests[turn] is not None:
            return request == self._requests[turn]
        return len(entry.message_id or "") >= _RANDOM_ID

    def _new_parts(self, turn: int, entry: Entry) -> tuple[int, ...] | None:
        """Return the indices of the parts that are new to the turn, None for all. A compaction repeats lines."""
        if not self._keyed[turn]:
            self._keyed[turn] = 1
            for part in self._kept[self.nodes.firsts[turn]].parts:
                self._is_new(turn, part)
        fresh = tuple(index for index, part in enumerate(entry.parts) if self._is_new(turn, part))
        return None if len(fresh) == len(entry.parts) else fresh

    def _is_new(self, turn: int, part: Part) -> bool:
        """Return True on the first request for this part of the turn; a call without an id is always new."""
        if isinstance(part, Call):
            if not part.call_id:
                return True
            key = turn, _digest(f"{part.call_id}\0{part.arguments}")
        else:
            key = turn, _digest(repr(part))
        if key in self._keys:
            return False
        self._keys.add(key)
        return True

    def _note(self, position: int, entry: Entry, parent: int) -> int:
        """Return the note of the entry: a new note, or the one that it repeats at the same time under another id."""
        key = _digest(repr((entry.at, entry.said))), parent
        node = self._siblings.get(key, NONE) if entry.at is not None else NONE
        if node < 0:
            node = self._new(position, parent, False)
            self._siblings[key] = node
        self.nodes.lasts[node] = max(self.nodes.lasts[node], position)
        return node

    def _new(self, position: int, parent: int, turn: bool) -> int:
        node = self.nodes.add(parent, position, turn)
        self._messages.append(None)
        self._requests.append(None)
        self._open.append(0)
        self._keyed.append(0)
        return node
