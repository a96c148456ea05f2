"""Conversation tree of a Claude Code log: turns and notes instead of lines, and the paths that become trajectories.

The chain of `parentUuid` is not the conversation. Bookkeeping lines stand between messages. The calls of one API
message are separate lines, and the answer to the first call may be a sibling of the second call. A compaction starts a
new root. This module gathers lines into nodes: a *turn* is one message of the model, a *note* is a message to the
model, and all other lines are passed through. The forks that remain are real: an edited prompt, a retry, or a session
that was resumed twice.

File order decides only which of several branches is the last, and what a line follows if the file does not hold its
parent. The module looks at content only to tell a replica from a second event.

A log may have millions of lines, so entries, nodes, calls and results are numbers here: the position of an entry in the
log, the order in which nodes and calls were met when the tree grew (see `nodes`), and the `packed` position of a
result.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from typing import Final

from trajmill.connectors.agents.claude_code.kept import BEGINS, BESIDE, KEEPS, LOST, EntryStore, unpack
from trajmill.connectors.agents.claude_code.nodes import NONE, Nodes, grow_nodes
from trajmill.schemas.record import record

_MISSING: Final = -2


@record
class Branch:
    """A path from a root to a turn that no turn follows, and the notes after it.

    Attributes:
        turn: the last turn, which identifies the branch.
        end: the last note after that turn, or the turn itself.
        own: turns of the branch that no earlier branch of the log holds, in order.
    """

    turn: int
    end: int
    own: Sequence[int]


@record
class Family:
    """Branches of a conversation, of a session (`agent` is None) or a sub-agent; the one that ends last is first."""

    session: str
    agent: str | None
    branches: tuple[Branch, ...]


@record
class Tree:
    """The log as families in order of their beginnings, sub-agents last.

    `unmatched` holds results without a call (False) and results of a call that already has another answer (True).
    """

    nodes: Nodes
    families: tuple[Family, ...]
    unmatched: tuple[tuple[int, bool], ...]


def tree(store: EntryStore) -> Tree:
    """Build the tree of the log's entries and free the store's columns that only the tree needs."""
    links = _links(store)
    store.seen, store.parents = {}, []
    nodes = grow_nodes(store, links, _parents_first(links))
    unmatched = _match_results(nodes, links)
    nodes.call_keys, store.results, store.result_keys = [], array("q"), []
    return Tree(nodes, _families(nodes), unmatched)


def _links(store: EntryStore) -> array[int]:
    """Find the position of the entry that each entry follows; `NONE` where a conversation begins.

    An entry follows its parent if the log holds the parent in the same conversation. An entry follows the line before
    it if its parent is missing (a cut or damaged log), if it states that it follows none but cannot begin a
    conversation, or if its conversation has no links at all.

    Lines about hooks form a chain beside the turn in which they ran, and the next prompt may name the last of them as
    its parent. Such a chain is written after the turn, and follows the line before it.
    """
    seen, settings, flags, talks = store.seen, store.settings, store.flags, store.conversations
    links, linked = array("i"), set[int]()
    for position, named in enumerate(store.parents):
        parent = _MISSING if named is None else seen.get(named, _MISSING)
        if flags[position] & KEEPS or (parent >= 0 and settings[parent] != settings[position]):
            parent = _other_parent(store, position, parent)
        elif parent < 0 or parent == position:
            parent = _MISSING
        links.append(parent)
        if parent != _MISSING:
            linked.add(talks[settings[position]])
    latest: dict[int, int] = {}
    for position, named in enumerate(store.parents):
        talk, link = talks[settings[position]], links[position]
        if link == _MISSING or flags[position] & KEEPS:
            if link == _MISSING:
                begins = flags[position] & BEGINS and named is None and talk in linked
                links[position] = link = NONE if begins else latest.get(talk, NONE)
            if named is not None and link >= 0 and seen.get(named) != link:
                flags[position] |= LOST
        elif flags[position] & BESIDE and _is_above(links, link, before := latest.get(talk, NONE)):
            links[position] = before
        latest[talk] = position
    return links


def _is_above(links: Sequence[int], above: int, position: int) -> bool:
    """Check if the path from an entry to its root, in the order of the log, meets the entry `above`."""
    while position > above and links[position] < position:
        position = links[position]
    return position == above >= 0


def _other_parent(store: EntryStore, position: int, parent: int) -> int:
    """Find the parent that a compaction names, or the parent of an entry whose setting differs from its parent's.

    The result is `NONE` if the parent belongs to the conversation that started this one. The parent of a compaction
    stands before it, because a message that was kept may be attached again after the summary.
    """
    flags = store.flags[position]
    if flags & KEEPS:
        earlier = (
            candidate
            for uuid in store[position].kept or ()
            if 0 <= (candidate := store.seen.get(uuid, _MISSING)) < position
        )
        parent = parent if 0 <= parent < position else next(earlier, _MISSING)
    if parent < 0 or parent == position:
        return _MISSING
    agent, parent_agent = store.setting(position).agent, store.setting(parent).agent
    if agent == parent_agent or (agent is not None and parent_agent is not None and not (agent and parent_agent)):
        return parent
    return NONE if agent is not None and flags & BEGINS else _MISSING


def _parents_first(links: array[int]) -> Sequence[int]:
    """Order positions so that each comes after the one it follows; a cycle is cut where it was entered."""
    if all(link < position for position, link in enumerate(links)):
        return range(len(links))
    order = array("i")
    state = bytearray(len(links))
    for position in range(len(links)):
        waiting = array("i")
        node = position
        while node >= 0 and state[node] == 0:
            state[node] = 1
            waiting.append(node)
            node = links[node]
        if node >= 0 and state[node] == 1:
            links[waiting[-1]] = NONE
        for member in reversed(waiting):
            state[member] = 2
            order.append(member)
    return order


def _match_results(nodes: Nodes, links: Sequence[int]) -> tuple[tuple[int, bool], ...]:
    """Match results to calls by id, and return the results without a call.

    Where an id repeats, results are matched in the order of the log, to calls of the turn before them first.
    """
    if not nodes.kept.results:
        return ()
    matching = _Matching(nodes)
    for result, key in zip(nodes.kept.results, nodes.kept.result_keys, strict=True):
        link = links[unpack(result)[0]]
        matching.add(result, key, nodes.of_entry[link] if link >= 0 else NONE)
    return tuple(matching.unmatched)


class _Waiting:
    """Queues of items by key. An item is skipped once it is done.

    Args:
        keys: the key of each item.
        done: a value per item, negative while it still waits.
    """

    def __init__(self, keys: Iterable[Hashable], done: Sequence[int]) -> None:
        self._done = done
        self._items: dict[Hashable, deque[int]] = {}
        for item, key in enumerate(keys):
            self._items.setdefault(key, deque()).append(item)

    def first(self, key: Hashable) -> int:
        """Return the first item that waits under the key; -1 if there is none."""
        items = self._items.get(key, ())
        while items and self._done[items[0]] >= 0:
            items.popleft()
        return items[0] if items else -1


class _Matching:
    """Matcher of results to calls by id. Repeated ids are matched in log order, with calls of the turn before first."""

    def __init__(self, nodes: Nodes) -> None:
        self.unmatched: list[tuple[int, bool]] = []
        self._nodes = nodes
        self._answers = nodes.answers
        turns = map(nodes.of_call, range(len(nodes.calls)))
        self._near = _Waiting(zip(nodes.call_keys, turns, strict=True), nodes.answers)
        self._far: tuple[_Waiting, _Waiting] | None = None
        self._last: dict[str, int] | None = None

    def add(self, result: int, key: str, node: int) -> None:
        """Assign the result to its call; `node` is the node of the result's line."""
        call = self._near.first((key, node))
        if call < 0:
            talk, alone = self._far_calls()
            call = talk.first((key, self._conversation(result)))
            call = alone.first(key) if call < 0 else call
        last = self._last
        if call >= 0:
            self._answers[call] = result
            if last is not None:
                last[key] = call
            return
        if last is None:
            last = self._last = self._last_answered()
        call = last.get(key, -1)
        before = None if call < 0 else self._nodes.answer(call)
        if before is None or before.content != self._nodes.result(result).content:
            self.unmatched.append((result, before is not None))

    def _conversation(self, packed: int) -> int:
        return self._nodes.kept.conversation(unpack(packed)[0])

    def _far_calls(self) -> tuple[_Waiting, _Waiting]:
        """Return the calls by id within a conversation and by id alone. They are built on first use, which is rare."""
        if self._far is None:
            keys = self._nodes.call_keys
            talks = zip(keys, map(self._conversation, self._nodes.calls), strict=True)
            self._far = _Waiting(talks, self._answers), _Waiting(keys, self._answers)
        return self._far

    def _last_answered(self) -> dict[str, int]:
        """Return the call that was answered last, by its id. It is built on first use."""
        last: dict[str, int] = {}
        for call, key in enumerate(self._nodes.call_keys):
            before = last.get(key, -1)
            if self._answers[call] >= 0 and (before < 0 or self._answers[before] < self._answers[call]):
                last[key] = call
        return last


def _families(nodes: Nodes) -> tuple[Family, ...]:
    """Collect every turn that no turn follows, with the path to it, by conversation."""
    parents, turns, acts, followed = nodes.parents, nodes.turns, nodes.acts, nodes.followed
    for node, above in enumerate(parents):
        if above >= 0 and acts[above]:
            acts[node] = 1
        before = above if turns[node] else NONE
        while before >= 0 and not followed[before]:
            followed[before] = 1
            before = parents[before]
    members: dict[tuple[str, str | None, int], list[int]] = {}
    notes = []
    for node, is_followed in enumerate(followed):
        if is_followed:
            continue
        if turns[node]:
            session, agent = nodes.kept.setting(nodes.tails[node])[:2]
            members.setdefault((session, agent, nodes.top(node) if agent == "" else 0), []).append(node)
        else:
            notes.append(node)
    return _order_families(nodes, members, _trailing(nodes, notes))


def _order_families(
    nodes: Nodes, members: dict[tuple[str, str | None, int], list[int]], trailing: dict[int, int]
) -> tuple[Family, ...]:
    """Order the families: sessions, then sub-agents, by their first branch; a resumed one after its origin."""
    entries = []
    for (session, agent, _), leaves in members.items():
        begin = nodes.firsts[nodes.top(leaves[0])]
        if len(leaves) > 1:
            begin = min(nodes.firsts[nodes.top(leaf)] for leaf in leaves)
            leaves.sort(key=nodes.firsts.__getitem__)
            leaves.insert(0, leaves.pop(max(range(len(leaves)), key=lambda index: nodes.lasts[leaves[index]])))
        root = nodes.kept[nodes.firsts[nodes.top(leaves[0])]]
        name = (root.uuid or f"line-{root.offset}") if agent == "" else agent
        resumed = root.setting.session != session
        entries.append((agent is not None, begin, resumed, session or f"line-{root.offset}", name, leaves))
    entries.sort(key=lambda entry: entry[:3])
    seen = bytearray(len(nodes))
    return tuple(
        Family(session, agent, tuple(_branch(nodes, leaf, trailing, seen) for leaf in leaves))
        for *_, session, agent, leaves in entries
    )


def _trailing(nodes: Nodes, notes: list[int]) -> dict[int, int]:
    """Map each leaf to the last of the `notes` after it; if several such paths exist, to the last in the log."""
    seen = bytearray(len(nodes))
    last_notes: dict[int, int] = {}
    for note in sorted(notes, key=lambda node: -nodes.lasts[node]):
        above = note
        while above >= 0 and not nodes.turns[above] and not seen[above]:
            seen[above] = 1
            above = nodes.parents[above]
        if above >= 0 and nodes.turns[above] and not nodes.followed[above]:
            last_notes.setdefault(above, note)
    return last_notes


def _branch(nodes: Nodes, leaf: int, trailing: dict[int, int], seen: bytearray) -> Branch:
    own = array("i")
    node = leaf
    while node >= 0 and not seen[node]:
        seen[node] = 1
        if nodes.turns[node]:
            own.append(node)
        node = nodes.parents[node]
    own.reverse()
    return Branch(leaf, trailing.get(leaf, leaf), own)
