"""Inputs of a check: an action with its answer, the texts known before it, and other answers of the tool.

Nothing here reads or writes files. `check_candidates` and `checks` derive the checks.
"""

from __future__ import annotations

import heapq
import re
from bisect import insort
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property, lru_cache
from itertools import islice, pairwise
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import xxhash

from trajmill.connectors.reading.values import value_or_none
from trajmill.quality.shingle import buffers
from trajmill.schemas.record import remembering_record

Head: TypeAlias = tuple[str, str, str]
Spans: TypeAlias = tuple[tuple[int, int, str], ...]
"""Code points [begin, end) of a shown observation, each with its class."""

_WORD: Final = re.compile(r"\w+")
_COMMANDS: Final = ("command", "cmd", "keystrokes", "script", "code")
_COMMANDED: Final = re.compile(rf'"(?:{"|".join(_COMMANDS)})"')
_LISTED: Final = re.compile(r"\s*\[")
"""Pattern of arguments that may hold a command, as an object's value or as the first text of an array."""

_PASSED_OVER: Final = re.compile(
    r"^(?:\s*(?:cd\s+\S+|export\s+\S+|set\s+-\w+|source\s+\S+|\w+=\S*)\s*(?:&&|;|\n)|\s*(?:sudo|time|env)\s+)*"
)
_HEAD: Final = re.compile(r"\s*([\w./+-]+)")
_PATHS: Final = ("path", "file_path", "filePath", "filename", "target_file", "file", "name", "id")
_TEXTS: Final = ("file_text", "content", "text", "new_str", "new_string", "body")
_WRITING: Final = re.compile(rf'<<|"(?:{"|".join(_TEXTS)})"')
"""Pattern in the arguments of an action that writes a file."""

_HEREDOC: Final = re.compile(r"cat\s*>+\s*(\S+)\s*<<-?\s*['\"]?(\w+)['\"]?\n")
LONGEST: Final = 32_768
"""Length of an answer, in characters, above which it is not used as a distractor."""


@remembering_record
class Answered:
    """One action and the environment's answer.

    Attributes:
        key: key of the turn; choices by hash use it.
        domain: one of the seven domains.
        form: form of the observation: screen, stream, state or response.
        tool: the action's name.
        arguments: JSON text of the arguments, or None.
        action: the action in the form that a model reads.
        observation: the observation as shown, with the line that states how a command ended.
        previous: the text shown before: the state before the action, else the previous answer; None if there is
            neither.
        volatile: spans of the observation that no model can know.
        spans: classes of the observation's spans.
        scrubbed: whether the observation holds placeholders.
        stored: values that the action's run wrote into a database, from the database's difference.
    """

    key: str
    domain: str
    form: str
    tool: str
    arguments: str | None
    action: str
    observation: str
    previous: str | None = None
    volatile: tuple[tuple[int, int], ...] = ()
    spans: Spans = ()
    scrubbed: bool = False
    stored: tuple[str, ...] = ()

    @cached_property
    def given(self) -> Any:
        """The parsed arguments; None if there are none."""
        return value_or_none(self.arguments) if self.arguments else None

    @cached_property
    def values(self) -> tuple[str, ...]:
        """Texts among the argument values, and numbers as text, in order, at any depth."""
        return tuple(_leaves(self.given))

    @cached_property
    def words(self) -> set[str]:
        """Words of the action and the observation."""
        return words(self.action) | words(self.observation)

    @cached_property
    def written(self) -> tuple[tuple[str, str], ...]:
        """(path, text) of the files that the action writes."""
        return tuple(_writes(self)) if self.arguments and _WRITING.search(self.arguments) else ()

    @cached_property
    def head(self) -> Head:
        """(domain, tool, first word of the command)."""
        return head_of(self.domain, self.tool, self.arguments)


def head_of(domain: str, tool: str, arguments: str | None) -> Head:
    """Return (domain, tool, first word of the command); answers of one head are distinguished from each other."""
    may_hold = tool == "keystrokes" or (arguments and (_COMMANDED.search(arguments) or _LISTED.match(arguments)))
    value, command = value_or_none(arguments) if may_hold and arguments else None, None
    if isinstance(value, dict):
        command = next((value[name] for name in _COMMANDS if isinstance(value.get(name), str)), None)
    elif isinstance(value, list):
        command = next((text for text in _leaves(value) if text.strip()), None)
    if tool == "keystrokes" and command is None:
        command = next(_leaves(value), None)
    match = _HEAD.match(_PASSED_OVER.sub("", command[:2000], count=1)) if command else None
    return (domain, tool, match[1].rpartition("/")[2] if match else "")


def _leaves(value: Any) -> Iterator[str]:
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, Mapping):
            stack.extend(reversed(list(node.values())))
        elif isinstance(node, list):
            stack.extend(reversed(node))
        elif isinstance(node, str) or (isinstance(node, int | float) and not isinstance(node, bool)):
            yield str(node)


_PARTED: Final = "".join(chr(code) if code < 128 and _WORD.match(chr(code)) else " " for code in range(256)).encode()
"""Table that maps each ASCII word character to itself and every other byte to a blank."""


def words(text: str) -> set[str]:
    """Return the words of a text: runs of letters, digits and underscores."""
    if text.isascii():  # in half the time
        return set(text.encode().translate(_PARTED).decode().split())
    return set(_WORD.findall(text))


@lru_cache(maxsize=512)
def words_of(text: str) -> frozenset[str]:
    """Return the words of a text from a cache."""
    return frozenset(words(text))


_LEADING: Final = re.compile(r"^(?:[^\S\n]*\d+[\t→:|]|[+-](?![+-]))", re.MULTILINE)
PIECE: Final = re.compile(r'"((?:[^"\\\n]|\\.)*)"|\'([^\'\n]*)\'|(\[-?\d+,-?\d+\]\[-?\d+,-?\d+\])')
"""Pattern of a text that a line of a state contains as a whole: a quoted string, or a box of pixels."""


def bare(line: str) -> str:
    """Strip a line of blanks, and of a leading line number or diff mark."""
    plain = line.strip()
    # the first character rules out both for most lines
    return _LEADING.sub("", line, count=1).strip() if plain[:1].isdecimal() or plain[:1] in "+-" else plain


BOX: Final = re.compile(r"\[-?\d+,-?\d+\]\[-?\d+,-?\d+\]")
_DIGITS: Final = re.compile(r"\d+")


def pieces(text: str) -> Iterator[str]:
    """Yield the quoted strings and boxes of a text, without quotes."""
    return (match[1] if match[1] is not None else match[2] or match[3] or "" for match in PIECE.finditer(text))


def mask_numbers(piece: str) -> str:
    """Mask the numbers of a piece, so that pieces that differ only in numbers are equal."""
    return _DIGITS.sub("#", piece)


class Known:
    """Texts and written files that a trajectory has shown so far, computed on demand.

    The caller asks for the checks of a turn first and adds the turn afterwards, in the order of the trajectory.
    Alternatively it keeps a snapshot (`now`) and asks later in any order. All snapshots share one record of when each
    text was first shown.
    """

    def __init__(self, shown: _Shown | None = None, end: int | None = None) -> None:
        """Start from the first `end` texts of `shown`, which may grow."""
        self._shown = shown or _Shown()
        self._end = end
        self._last: str | None = None

    def add(self, turn: Answered) -> None:
        """Add a turn: the texts that it showed and the files that its action wrote."""
        self._shown.of.append(turn)
        self._last = turn.observation

    def saw(self, text: str | None) -> None:
        """Add a text that was shown otherwise: the initial state in the system prompt, or a state before an action."""
        if text and text != self._last:
            self._shown.of.append(text)

    def now(self) -> Known:
        """Return a snapshot that ignores texts added later."""
        return Known(self._shown, len(self._shown.of))

    def _until(self) -> int:
        return len(self._shown.of) if self._end is None else self._end

    def _holds(self, first: Mapping[str, int], some: Iterable[str], end: int) -> bool:
        return all(first.get(text, end) < end for text in some)

    def has_words(self, some: Iterable[str]) -> bool:
        """Return True if all of these words were shown."""
        end = self._until()
        return self._holds(self._shown.read(end).words, some, end)

    def has_line(self, line: str) -> bool:
        """Return True if a bare line was shown."""
        end = self._until()
        return self._holds(self._shown.read(end).lines, (line,), end)

    def has_piece(self, piece: str) -> bool:
        """Return True if a line of a state contained this piece as a whole."""
        end = self._until()
        return self._holds(self._shown.split_pieces(end).pieces, (piece,), end)

    def has_masked_piece(self, piece: str) -> bool:
        """Return True if a line of a state contained this piece up to its numbers. Boxes do not count."""
        end = self._until()
        return self._holds(self._shown.split_pieces(end).masked, (mask_numbers(piece),), end)

    def has_piece_words(self, some: Iterable[str]) -> bool:
        """Return True if all of these words occurred in pieces of states."""
        end = self._until()
        return self._holds(self._shown.split_pieces(end).piece_words, some, end)

    def lines_with(self, some: Set[str], most: int = 32) -> Iterator[set[str]]:
        """Yield the words of shown lines that contain all the given words, in order of first appearance.

        At most `most` lines are yielded.
        """
        longest = max(some, key=len, default="")
        if longest and self.has_words(some):
            lines = self._shown.first_lines(self._until())
            candidates = (words(line) for line in lines if longest in line)
            yield from islice((line_words for line_words in candidates if some <= line_words), most)

    @property
    def written(self) -> Mapping[str, str]:
        """Written texts by path."""
        turns = (turn_or_text for turn_or_text in self._shown.of[: self._until()] if isinstance(turn_or_text, Answered))
        return {path: text for turn in turns for path, text in turn.written}


class _Shown:
    """Texts that a trajectory shows, in order, and the number of the text that first showed each word, line and piece.

    Attributes:
        of: texts, and turns, which show their action, its values and the observation.
        lines: bare lines.
        pieces: pieces of the lines of states.
        masked: pieces other than boxes, with their numbers masked.
        piece_words: words of the pieces other than boxes.
    """

    def __init__(self) -> None:
        self.of: list[str | Answered] = []
        self.words: dict[str, int] = {}
        self.lines: dict[str, int] = {}
        self.pieces: dict[str, int] = {}
        self.masked: dict[str, int] = {}
        self.piece_words: dict[str, int] = {}
        self._raw: set[str] = set()
        self._held: list[int] = []  # lines that were known when each was read
        self._unparted: deque[tuple[int, str]] = deque()

    def read(self, end: int) -> _Shown:
        """Read at least the first `end` texts, and return the object itself."""
        while len(self._held) < end:
            number = len(self._held)
            entry = self.of[number]
            texts = (entry,) if isinstance(entry, str) else (entry.action, entry.observation, *entry.values)
            # neither a word nor a piece goes over the end of a line
            new_lines = "\n".join([line for text in texts for line in self._take(text, number)])
            self.words |= dict.fromkeys(words(new_lines).difference(self.words), number)
            self._unparted.append((number, new_lines))
            self._held.append(len(self.lines))
        return self

    def _take(self, text: str, number: int) -> Iterable[str]:
        """Add the lines of a text, and return those whose bare line is new."""
        fresh = [line for line in text.split("\n") if line not in self._raw]
        if not fresh:
            return ()
        self._raw.update(fresh)
        new = {bare_line: line for line in fresh if (bare_line := bare(line)) not in self.lines and bare_line}
        self.lines |= dict.fromkeys(new, number)
        return new.values()

    def first_lines(self, end: int) -> Iterator[str]:
        """Return the bare lines of the first `end` texts, in order of first appearance."""
        return islice(self.read(end).lines, self._held[end - 1] if end else 0)

    def split_pieces(self, end: int) -> _Shown:
        """Extract the pieces of at least the first `end` texts, and return the object itself."""
        self.read(end)
        while self._unparted:
            number, lines = self._unparted.popleft()
            for piece in set(pieces(lines)).difference(self.pieces):
                self.pieces[piece] = number
                if not BOX.fullmatch(piece):
                    self.masked.setdefault(mask_numbers(piece), number)
                    for word in words(piece):
                        self.piece_words.setdefault(word, number)
        return self


def _writes(turn: Answered) -> Iterator[tuple[str, str]]:
    """Yield (path, text) of each file that an action writes."""
    value = turn.given
    if isinstance(value, dict):
        path = next((value[name] for name in _PATHS if isinstance(value.get(name), str)), None)
        text = next((value[name] for name in _TEXTS if isinstance(value.get(name), str)), None)
        if path and text:
            yield path, text
    for value_text in turn.values:
        for match in islice(_HEREDOC.finditer(value_text), 20) if "<<" in value_text else ():
            end = value_text.find(f"\n{match[2]}", match.end() - 1)
            if end >= match.end():
                yield match[1].strip("'\""), value_text[match.end() : end]


def read_path(turn: Answered, known: Known) -> str | None:
    """Return the path of a previously written file that the action names without writing it; None if there is none."""
    if turn.written:
        return None
    written = known.written
    named = [word for value in turn.values for word in (value, *value.split()) if word in written] if written else []
    return named[-1] if named else None


_KEYS: Final = 1024
"""Largest number of heads, and of tools, whose answers are kept, since a corpus may have any number."""

HELD: Final = pa.schema([("domain", pa.string()), ("tool", pa.string()), ("head", pa.string()), ("text", pa.string())])
"""Schema of kept answers: one row per text of a head, or of a tool, where `head` is null."""


class Distractors:
    """Other answers of the same tool, on which checks are tried.

    For each head and each tool, the answers with the smallest hashes are kept, so the result does not depend on the
    order in which turns are added.
    """

    def __init__(self, limit: int = 32) -> None:
        """Keep up to `limit` distinct answers per head and per tool."""
        self._limit = limit
        self._held: dict[tuple[str, ...], dict[int, str]] = {}
        self._heaps: dict[tuple[str, ...], list[int]] = {}
        self._ranks: dict[int, list[tuple[int, tuple[str, ...]]]] = {}
        self._of: dict[tuple[str, ...], tuple[str, ...]] = {}

    def add(self, head: Head, text: str) -> None:
        """Take in an answer to an action of that head, unless it is very long."""
        if len(text) <= LONGEST:
            number = _hash(text)
            for key in (head, head[:2]):
                self._hold(key, text, number)

    def add_all(self, heads: Sequence[Head], texts: pa.StringArray) -> None:
        """Take in an answer to an action of each head, as `add` does. Only texts that may be kept become strings."""
        numbers: dict[Head, int] = {}
        head = np.array([numbers.setdefault(head, len(numbers)) for head in heads], np.int64)
        data, starts = buffers(texts)
        content, ends = data.data, pairwise(starts.tolist())
        hashes = np.array([xxhash.xxh3_64_intdigest(content[begin:end]) for begin, end in ends], np.uint64)
        order = np.lexsort((hashes, head))
        is_new = np.ones(len(order), np.bool_)
        is_new[1:] = (np.diff(head[order]) != 0) | (np.diff(hashes[order]) != 0)
        order = order[is_new]
        smaller = np.arange(len(order)) - np.searchsorted(head[order], head[order])
        for row in order[smaller < self._limit].tolist():
            self.add(heads[row], texts[row].as_py())

    def _hold(self, key: tuple[str, ...], text: str, number: int) -> None:
        if key not in self._held and not self._admits(key):
            return
        answers, heap = self._held.setdefault(key, {}), self._heaps.setdefault(key, [])
        if number in answers:
            return
        if len(heap) < self._limit:
            heapq.heappush(heap, -number)
        elif number < -heap[0]:
            del answers[-heapq.heappushpop(heap, -number)]
        else:
            return
        answers[number] = text
        self._of.clear()

    def _admits(self, key: tuple[str, ...]) -> bool:
        """Return True if a new head or tool is among those with the smallest hashes; drop one that is displaced."""
        rank = (_hash("\0".join(key)), key)
        of_kind = self._ranks.setdefault(len(key), [])
        if len(of_kind) == _KEYS and rank >= of_kind[-1]:
            return False
        insort(of_kind, rank)
        if len(of_kind) > _KEYS:
            gone = of_kind.pop()[1]
            del self._held[gone], self._heaps[gone]
        return True

    def take(self, batch: pa.RecordBatch) -> None:
        """Add the answers of another collection, from its `batch`."""
        for row in batch.to_pylist():
            key = (row["domain"], row["tool"]) if row["head"] is None else (row["domain"], row["tool"], row["head"])
            self._hold(key, row["text"], _hash(row["text"]))

    def batch(self) -> pa.RecordBatch:
        """Return all kept answers as a batch of the schema `HELD`, sorted."""
        rows = [
            (*key, *([None] if len(key) == 2 else []), text)
            for key, answers in sorted(self._held.items())
            for _, text in sorted(answers.items())
        ]
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(HELD)
        arrays = [pa.array(list(column), field.type) for column, field in zip(columns, HELD, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=HELD)

    def of(self, turn: Answered) -> tuple[str, ...]:
        """Return the answers of the turn's head, then those of its tool, each part in the order of hashes."""
        if turn.head not in self._of:
            answers = {
                number: text
                for key in (turn.head, turn.head[:2])
                for number, text in sorted(self._held.get(key, {}).items())
            }
            self._of[turn.head] = tuple(answers.values())
        return self._of[turn.head]


def _hash(text: str) -> int:
    return xxhash.xxh3_64_intdigest(text.encode("utf-8", "replace"))


def turn_of(
    row: Mapping[str, Any],
    observation: str,
    previous: str | None,
    volatile: Sequence[tuple[int, int]] = (),
    spans: Sequence[tuple[int, int, str]] = (),
) -> Answered:
    """Build the turn of a row from its texts as shown.

    Args:
        row: a transition as a dict, with row_id, domain, scrubbed, action (name, arguments, text) and next_observation
            (form), and optionally `written`, the values that its run wrote into a database.
        observation: the observation as shown, with the line that states how a command ended.
        previous: the state before the action, else the answer that was shown before; None if there is neither.
        volatile: volatile code points [begin, end) of the observation.
        spans: code points [begin, end) of the observation with their classes.
    """
    action = row["action"]
    return Answered(
        key=row["row_id"],
        domain=row["domain"],
        form=row["next_observation"]["form"],
        tool=action["name"] or "",
        arguments=action["arguments"],
        action=action["text"] or "",
        observation=observation,
        previous=previous,
        volatile=tuple(volatile),
        spans=tuple(spans),
        scrubbed=bool(row["scrubbed"]),
        stored=tuple(row.get("written") or ()),
    )
