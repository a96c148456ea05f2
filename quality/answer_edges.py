"""Edges of answers: the skeletons of their first and last lines, by which `harness_text` finds the frames of a harness.

A skeleton is a line without numbers, ids, times, paths and quotations of the call. JSON documents, screens and trees
have no such edges, and prompts of a terminal are none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.quality.fingerprint import struct_text, text_hashes
from trajmill.quality.sets import ranges
from trajmill.quality.signal import Measured, MeasuredBatches
from trajmill.quality.texts import Texts
from trajmill.quality.variety import commands_of, plain

Records = npt.NDArray[np.void]

Hashes = npt.NDArray[np.uint64]

Numbers = npt.NDArray[np.int64]

VERSION: Final = 3

LINES: Final = 8
"""Lines at each end of an answer that are examined."""

REACH: Final = 2048
"""Characters at each end of an answer that contain these lines."""

PLACES: Final = ("head", "tail", "head_label", "tail_label")
"""Places of a skeleton: a line among the first or the last, the beginning of one of the first lines up to a sign such
as `:`, or the end of one of the last lines from a bracket on.
"""

HEAD, TAIL, HEAD_LABEL, TAIL_LABEL = range(len(PLACES))

COMPARED: Final = 200
"""Characters of a line that are compared."""

EDGE: Final = np.dtype([("skeleton", "<u8"), ("begin", "<u4"), ("size", "<u4"), ("place", "u1"), ("depth", "u1")])
"""Skeleton at an edge of an answer: its beginning and length in characters, and the number of lines from the edge."""

EDGES_SCHEMA: Final = pa.schema(
    [
        pa.field("group", pa.uint64(), nullable=False, metadata={"doc": "hash of agent and version; 0: not looked at"}),
        pa.field("size", pa.uint32(), nullable=False, metadata={"doc": "characters of the answer"}),
        pa.field("programs", pa.binary(), nullable=False, metadata={"doc": "hashes of the programs in its command"}),
        pa.field("edges", pa.binary(), nullable=False, metadata={"doc": "records of dtype EDGE"}),
    ]
)
"""One row a transition, aligned to the transitions."""

_PATH, _DAY, _NUMBER, _ID, _CALL = "\x02", "\x03", "0", "\x04", "\x01"
"""Signs for the varying parts of a line, and for quotations of the call."""

_VARIES: Final = re.compile(
    r"(?<!\w)(?:(?<!<)(?P<path>(?:[A-Za-z]:\\|[a-z]{1,8}+://|[~.]{0,2}/)[^\s'\"`<>|:;,)\]}]+)"
    r"|(?P<day>(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}\b)"
    r"|(?<!-)(?:(?P<number>\d++(?:[.,:]\d++)*+(?![\w-]))|(?P<id>[A-Za-z_-]*+\d[\w-]*+|[A-Fa-f]{8,}\b)))"
)

_MAY_VARY: Final = re.compile(r"[\d/\\MTWFSJADNO]|[A-Fa-f]{8}")
"""Whatever `_VARIES` finds holds a digit, a slash, the initial of a day or month, or eight hexadecimal letters."""

_SIGNS: Final = {"path": _PATH, "day": _DAY, "number": _NUMBER, "id": _ID}

_MATCHES: Final = {
    _CALL: r"[^\n]+",
    _PATH: r"[^\s]+",
    _DAY: r"\w+",
    _NUMBER: r"\d[\d.,:]*",
    _ID: r"[\w-]+",
}

_ONE_DIGIT: Final = bytes.maketrans(b"123456789", b"000000000")

_DIGIT_OF_A_WORD: Final = re.compile(r"0(?<=[\w-]0)")
"""Digit that a skeleton retains: the sign of a number never follows a word or a hyphen."""

_LEAST_QUOTED: Final = 3

_LETTERS: Final = re.compile(r"[^A-Za-z]*+[A-Za-z]{3}|(?:[\W\d_]*+[^\W\d_]){3}")
"""Three letters; mostly, the first are letters of ASCII and adjoin."""

_PUNCTUATION: Final = re.compile(r"(?:[^!-/:-@\[-`{-~]*+[!-/:-@\[-`{-~]){2}")

_BEGIN_OF_JSON: Final = r"^[ \t\r\n]*[{\[]"

_HEAD_LABEL: Final = re.compile(r"[^\n:>=\])\"{]{2,60}+[:>=\])]++ ?")

_TAIL_LABEL_CHARS: Final = 61

_TAIL_LABEL: Final = re.compile(r"[\[(<](?!/)[^\n\[(<{\"]{2,60}+\Z")

_BEFORE_PROGRAM: Final = r";|\||&|\(|`|\n|" + "|".join(
    rf"{word}(?<=\b{word})\s" for word in ("do", "then", "else", "sudo", "xargs", "env", "time")
)
"""Text before a program within a command. Each alternative begins with a literal, which `re` finds fastest."""

_PROGRAM: Final = r"\s*(?:[A-Za-z_]\w*=\S*\s+)*(?:[\w.~-]*/)*([A-Za-z][\w.+-]*)"

_FIRST_PROGRAM: Final = re.compile(_PROGRAM)

_NEXT_PROGRAM: Final = re.compile(rf"(?:{_BEFORE_PROGRAM}){_PROGRAM}")

_MOST_PROGRAMS: Final = 16

_COMMAND: Final = 4096
"""Characters of a command that are searched for programs."""


class EdgeLines:
    """Edges of each answer of a file: batches of `EDGES_SCHEMA`, aligned to the transitions.

    Args:
        measured: Measured batches that are shared with other measurers.
    """

    def __init__(self, measured: MeasuredBatches | None = None) -> None:
        self._measured = measured or MeasuredBatches()

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the edges of `batch`, of `encode_schema()`."""
        if batch.num_rows:
            yield measure_edges(self._measured.measure(batch))

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Return no batches: no edge waits for later rows."""
        return iter(())


@dataclass(eq=False, slots=True)
class _Answer:
    """Text of an answer, with the prompt of a terminal, if the answer ends with one.

    The answer without its last line ends has `size` characters, and the last `REACH` of these begin at `reach`.
    """

    text: str
    prompt: str
    size: int
    reach: int

    @classmethod
    def from_text(cls, text: str) -> _Answer:
        """Return the answer of a text."""
        size = len(text.rstrip("\n"))
        return cls(text, _prompt(text), size, max(size - REACH, 0))


def measure_edges(view: Measured) -> pa.RecordBatch:
    """Return the edges, of `EDGES_SCHEMA`, of the answers of a batch of `encode_schema()`.

    The lines of an answer are examined from either edge on, up to the first whose skeleton follows no other call of the
    batch: no line behind it can be a frame.
    """
    group = _groups(view)
    looked = np.flatnonzero(group)
    answers = _answers(view, looked)
    calls, quoted = _calls(view.batch, looked)
    sizes = np.zeros(len(group), np.uint32)
    sizes[looked] = [len(answer.text) for answer in answers]
    skeletons = _Skeletons()
    blocks = [*_examine(answers, calls, quoted, skeletons)]
    numbers = np.concatenate([np.zeros(0, np.int64), *(numbers for numbers, _ in blocks)])
    edges = np.concatenate([np.zeros(0, EDGE), *(edges for _, edges in blocks)])
    edges["skeleton"] = skeletons.hashes()[edges["skeleton"]]
    order = np.lexsort((edges["place"], edges["depth"], edges["place"] % HEAD_LABEL, numbers))
    packed = _packed(looked[numbers[order]], edges[order], len(group))
    columns = [pa.array(group), pa.array(sizes), _programs(view, group > 0), packed]
    return pa.RecordBatch.from_arrays(columns, schema=EDGES_SCHEMA)


def _groups(view: Measured) -> Hashes:
    """Return the hash of each row's agent and version, 0 for the answers that are not looked at."""
    names = view.texts("agent", "name").over(view.texts("provenance", "connector"))
    versions = view.texts("agent", "version")
    pairs = names.index * (len(versions.texts) + 1) + versions.index
    _, rows, inverse = np.unique(pairs, return_index=True, return_inverse=True)
    name, version = (plain(Texts(texts.texts, texts.index[rows])) for texts in (names, versions))
    hashes = _hashes(pc.binary_join_element_wise(name, pc.fill_null(version, ""), "\n"))
    return np.where(_is_looked_at(view), np.maximum(hashes, 1)[inverse], 0).astype(np.uint64)


def _answers(view: Measured, rows: Numbers) -> list[_Answer]:
    """Return the answers of the rows."""
    contents = view.texts("next_observation", "content")
    distinct, answer_of = np.unique(contents.index[rows], return_inverse=True)
    texts = contents.texts.take(pa.array(distinct)).to_numpy(zero_copy_only=False).tolist()
    answers = [_Answer.from_text(text) for text in texts]
    return [answers[number] for number in answer_of.tolist()]


class _Skeletons:
    """Numbers of the skeletons of a batch; 0 for none."""

    def __init__(self) -> None:
        self._numbers: dict[str | None, int] = {None: 0}

    def number(self, lines: Sequence[str]) -> Numbers:
        """Return the number of the skeleton of each line, whose quotations are replaced.

        Digits matter only where a skeleton retains them, so all other lines are looked up with zeros as digits.
        """
        cut = [line[:COMPARED] for line in lines]
        alike = "\n".join(cut).encode().translate(_ONE_DIGIT).decode().split("\n")
        skeletons = [*map(_skeleton_of_alike, alike)]
        for at in [at for at, skeleton in enumerate(skeletons) if skeleton == _NUMBER]:
            skeletons[at] = _skeleton_of(cut[at])
        numbers = self._numbers
        return np.array([numbers.setdefault(skeleton, len(numbers)) for skeleton in skeletons], np.int64)

    def hashes(self) -> Hashes:
        """Return the hash of each skeleton, by number."""
        return _hashes(pa.array(self._numbers, pa.string()))


def _examine(
    answers: Sequence[_Answer], calls: Numbers, quoted: Sequence[Sequence[str]], skeletons: _Skeletons
) -> Iterator[tuple[Numbers, Records]]:
    """Yield the edges of the answers, with the number of the answer of each, a line at either side of every answer at a
    time.

    The field `skeleton` of the edges holds a number of `skeletons`.
    """
    waiting: list[tuple[int, ...]] = [
        (number, side, 0, position)
        for number, answer in enumerate(answers)
        for side, position in ((HEAD, 0), (TAIL, answer.size))
    ]
    while waiting:
        lines: list[str] = []
        edges: list[int] = []
        for number, side, lines_before, position in waiting:
            answer, quotes = answers[number], quoted[number]
            next_line, find_label = _SIDES[side]
            bounds = next_line(answer, lines_before, position)
            if bounds is None:
                continue
            depth, begin, end = bounds
            text = answer.text
            line = text[begin:end]
            is_quoting = any(map(line.__contains__, quotes))
            lines.append(_replace_quotes(line, quotes) if is_quoting else line)
            edges += number, side, depth, begin, end
            label = find_label(text, begin, end)
            if label is not None:
                first, last = label
                line = text[first:last]
                lines.append(_replace_quotes(line, quotes) if is_quoting else line)
                edges += number, side + HEAD_LABEL, depth, first, last
        if not lines:
            return
        numbers, places, depths, begins, ends = np.array(edges, np.int64).reshape(-1, 5).T
        records = np.zeros(len(lines), EDGE)
        records["skeleton"] = skeleton = skeletons.number(lines)
        records["place"], records["depth"], records["begin"], records["size"] = places, depths, begins, ends - begins
        yield numbers, records
        is_line = places < HEAD_LABEL
        looks_past = np.where(skeleton == 0, is_line, _recur(len(PLACES) * skeleton + places, calls[numbers]))
        looks_past[:-1] |= looks_past[1:] & ~is_line[1:]
        past = looks_past & is_line
        following = np.where(places == HEAD, ends + 1, begins - 1)
        waiting = [*zip(*(column[past].tolist() for column in (numbers, places, depths + 1, following)), strict=True)]


def _recur(keys: Numbers, calls: Numbers) -> npt.NDArray[np.bool_]:
    """Flag the small numbers that go with several calls."""
    call_of = np.zeros(int(keys.max()) + 1, np.int64)
    call_of[keys] = calls
    recurs = np.zeros(len(call_of), np.bool_)
    recurs[keys[call_of[keys] != calls]] = True
    return recurs[keys]


def _programs(view: Measured, looked_at: npt.NDArray[np.bool_]) -> pa.Array:
    """Return the hashes of the programs in each row's command, for the examined rows."""
    commands = commands_of(view)
    rows = np.flatnonzero(looked_at & (commands.index >= 0))
    distinct, command_of = np.unique(commands.index[rows], return_inverse=True)
    numbers: dict[str, int] = {}
    programs: list[int] = []
    ends = [0]
    for command in commands.texts.take(pa.array(distinct)).to_numpy(zero_copy_only=False).tolist():
        names = dict.fromkeys(_find_programs((command or "")[:_COMMAND]))
        programs += [numbers.setdefault(name, len(numbers)) for name in islice(names, _MOST_PROGRAMS)]
        ends.append(len(programs))
    begins, counts = np.array(ends)[command_of], np.diff(ends)[command_of]
    hashes = _hashes(pa.array(numbers, pa.string()))[np.array(programs, np.int64)]
    return _packed(np.repeat(rows, counts), hashes[ranges(begins, counts)], len(looked_at))


def _find_programs(command: str) -> list[str]:
    """Return the names of the programs that a command runs, in order."""
    first = _FIRST_PROGRAM.match(command)
    return _NEXT_PROGRAM.findall(command) if first is None else [first[1], *_NEXT_PROGRAM.findall(command, first.end())]


def _packed(rows: npt.NDArray[np.int64], values: npt.NDArray[Any], number: int) -> pa.Array:
    """Return the values of each of `number` rows as bytes; `rows` holds the row of each value, in order."""
    offsets = (np.searchsorted(rows, np.arange(number + 1)) * values.itemsize).astype(np.int32)
    return pa.BinaryArray.from_buffers(
        pa.binary(), number, [None, pa.py_buffer(offsets), pa.py_buffer(values.tobytes())]
    )


def find_example(row: Mapping[str, Any], wanted_place: int, skeleton: int) -> tuple[str, str]:
    """Return the skeleton and the text behind it from a transition, as a dict, whose answer has that skeleton."""
    quoted = _quotes(row["action"]["name"] or "", row["action"]["arguments"] or "{}")
    answer = _Answer.from_text(row["next_observation"]["content"])
    for line in _lines(answer, wanted_place):
        example = make_skeleton(line, quoted)
        if example and int(_hashes(pa.array([example]))[0]) == skeleton:
            return example, line
    raise ValueError("the answer has no such edge")


def _hashes(texts: pa.Array) -> Hashes:
    return np.where(texts.is_valid().to_numpy(zero_copy_only=False), text_hashes(texts)[:, 0], 0).astype(np.uint64)


def _is_looked_at(view: Measured) -> npt.NDArray[np.bool_]:
    """Flag the answers that may have harness lines: texts of the environment that an agent received.

    A result object of MCP is excluded, since it contains the server's own text.
    """
    text = view.texts("next_observation", "content")
    recorded = view.texts("next_observation", "form").matching("^stream$") & (view.texts("agent", "name").index < 0)
    flags = view.texts("next_observation", "origin").matching("^environment$") & text.matching(r"\S")
    flags &= view.texts("next_observation", "envelope").index < 0
    flags &= view.texts("next_observation", "form").matching("^(?:response|stream)$") & ~recorded
    flags &= ~view.texts("next_observation", "dialect").matching(".")
    documents = text.at(flags & text.matching(_BEGIN_OF_JSON))
    return flags & ~documents.spread(np.array([_is_json(text_of.as_py()) for text_of in documents.texts], np.bool_))


def _is_json(text: str) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def _lines(answer: _Answer, wanted_place: int) -> Iterator[str]:
    """Yield the lines at a place of an answer, or their labels, from the edge on."""
    side = wanted_place % HEAD_LABEL
    next_line, find_label = _SIDES[side]
    depth, position = 0, 0 if side == HEAD else answer.size
    while line := next_line(answer, depth, position):
        depth, begin, end = line
        span = (begin, end) if wanted_place == side else find_label(answer.text, begin, end)
        if span is not None:
            yield answer.text[slice(*span)]
        depth, position = depth + 1, end + 1 if side == HEAD else begin - 1


def _first_line(answer: _Answer, depth: int, begin: int) -> tuple[int, int, int] | None:
    """Return (depth, begin, end) of the first line from `begin` on without the prompt; None if no line is left."""
    text = answer.text
    while depth < LINES and begin <= len(text):
        end = text.find("\n", begin, REACH)
        if end < 0:
            end = len(text)
            if end > REACH:
                return None
        if not (answer.prompt and text.startswith(answer.prompt, begin, end)):
            return depth, begin, end
        depth, begin = depth + 1, end + 1
    return None


def _last_line(answer: _Answer, depth: int, end: int) -> tuple[int, int, int] | None:
    """Return (depth, begin, end) of the last line up to `end` without the prompt; None if no line is left."""
    text = answer.text
    while depth < LINES and end >= 0:
        begin = text.rfind("\n", answer.reach, end) + 1
        if not begin and answer.reach:
            return None
        if not (answer.prompt and text.startswith(answer.prompt, begin, end)):
            return depth, begin, end
        depth, end = depth + 1, begin - 1
    return None


def _head_label(text: str, begin: int, end: int) -> tuple[int, int] | None:
    """Return (begin, end) of the label at the beginning of a line."""
    label = _HEAD_LABEL.match(text, begin, end)
    return (begin, label.end()) if label and label.end() < end else None


def _tail_label(text: str, begin: int, end: int) -> tuple[int, int] | None:
    """Return (begin, end) of the label at the end of a line."""
    label = _TAIL_LABEL.search(text, max(end - _TAIL_LABEL_CHARS, begin), end)
    if label is None:
        return None
    first = label.start()
    first -= first > begin and text[first - 1] == " "
    return (first, end) if first > begin else None


_SIDES: Final = {HEAD: (_first_line, _head_label), TAIL: (_last_line, _tail_label)}
"""Functions that find a line, and the label of a line, at either side of an answer."""


def _prompt(text: str) -> str:
    """Return the prompt of a terminal: the last line of an answer, if another line begins with it; otherwise empty."""
    body = text.rstrip()
    last = body[body.rfind("\n") + 1 :]
    before = len(body) - len(last)
    is_prompt = last and (body.find(f"\n{last}", 0, before) >= 0 or (before and body.startswith(last)))
    return last if is_prompt else ""


def _calls(batch: pa.RecordBatch, rows: Numbers) -> tuple[Numbers, list[list[str]]]:
    """Return the number of the call of each row, equal for equal calls, and the texts that its answer may quote."""
    names, arguments = (
        Texts.of(struct_text(batch, "action", name).take(pa.array(rows))).to_pylist() for name in ("name", "arguments")
    )
    known: dict[tuple[str, str], tuple[int, list[str]]] = {}
    calls = []
    for name, text in zip(names, arguments, strict=True):
        call = name, text or "{}"
        if call not in known:
            known[call] = len(known), _quotes(*call)
        calls.append(known[call])
    return np.array([number for number, _ in calls], np.int64), [quotes for _, quotes in calls]


def _quotes(name: str, arguments: str) -> list[str]:
    """Return the texts of a call that its answer may quote."""
    quotes = [name]
    for value in orjson.loads(arguments).values():
        if isinstance(value, str):
            quotes += value.split("\n", LINES)[:LINES]
    return [quote for quote in quotes if len(quote) >= _LEAST_QUOTED]


def make_skeleton(line: str, quoted: Sequence[str] = ()) -> str | None:
    """Reduce a line to its skeleton, without numbers, ids, times, paths and quotations of its call; None if too little
    remains.

    Args:
        line: Line, of which the first `COMPARED` characters count after quotations are replaced.
        quoted: Texts of its call.
    """
    return _skeleton_of(_replace_quotes(line, quoted)[:COMPARED])


def _replace_quotes(line: str, quoted: Sequence[str]) -> str:
    """Replace the quotations of a call in a line, the longest first."""
    # a text with the sign of a quotation may appear only when others are replaced
    quotes = sorted([value for value in quoted if value in line or _CALL in value])
    for value in sorted(quotes, key=len, reverse=True):
        line = line.replace(value, _CALL)
    return line


@lru_cache(1 << 14)  # a harness says the same lines again and again
def _skeleton_of_alike(line: str) -> str | None:
    """Return the skeleton of all lines with other digits in place of the zeros; `_NUMBER` if theirs differ."""
    skeleton = _skeleton_of(line)
    return _NUMBER if skeleton is not None and _DIGIT_OF_A_WORD.search(skeleton) else skeleton


def _skeleton_of(line: str) -> str | None:
    found = " ".join(map(_replace_varying, line.split()))
    return found if _LETTERS.match(found) or (_CALL in found and _PUNCTUATION.match(found)) else None


@lru_cache(1 << 14)
def _replace_varying(word: str) -> str:
    return _VARIES.sub(lambda match: _SIGNS[match.lastgroup or ""], word) if _MAY_VARY.search(word) else word


def make_pattern(skeleton: str) -> str:
    """Return a regular expression for the texts that a skeleton stands for."""
    pattern = "".join(_MATCHES.get(sign) or re.escape(sign) for sign in skeleton)
    return pattern.replace(r"\ ", " ")


def edge_records(edges: pa.Table) -> tuple[npt.NDArray[np.int64], Records]:
    """Return the row of each edge, and the edges of dtype `EDGE`, of a table of `EDGES_SCHEMA`, by row."""
    return unpacked(edges["edges"], EDGE)


def unpacked(column: pa.ChunkedArray, dtype: npt.DTypeLike) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Return the row of each value, and the values, of a column that `_packed` made."""
    packed = column.combine_chunks()
    numbers = pc.binary_length(packed).to_numpy(zero_copy_only=False) // np.dtype(dtype).itemsize
    return np.repeat(np.arange(len(numbers)), numbers), np.frombuffer(b"".join(packed.to_pylist()), dtype)
