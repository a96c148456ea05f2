r"""Prompts of a typescript without timing, and its output as events with pauses where typing began.

Only the order of such output is known. A prompt of a shell or of an interpreter is at the beginning of a line and
recurs after each command, perhaps in another folder: prompts are alike if they begin and end alike. A prompt is
accepted if it occurs twice, or follows the switch to bracketed paste in an unmistakable form; a prompt of an unknown
form is accepted if it is also the first in the recording. The text after a prompt on its line was typed, key by key as
the terminal echoed it. Questions of a program in between, and the answers to them, stay in the program's output.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterator, Set
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO, Final

from trajmill.connectors.recordings.script.timing import PIECE_BYTES
from trajmill.connectors.recordings.script.typescripts import Typescript
from trajmill.connectors.recordings.session import Event

_PASTING: Final = b"\x1b[?2004h"
_TITLE: Final = (b"\x1b]0;", b"\x1b]2;")
_SEGMENT: Final = re.compile(rb"(?=\x1b\[\?2004h)|(?<!\x1b\[\?2004h)(?=\x1b\][02];)")
_ESCAPE: Final = r"\x1b\][^\x07\x1b]{0,300}(?:\x07|\x1b\\)|\x1b\[[0-9;?]*[A-Za-z]"
_HIDDEN: Final = re.compile(rf"{_ESCAPE}|\r")
_CELL: Final = re.compile(rf"(?:{_ESCAPE}|\r)*(.)", re.DOTALL)
_KEYS: Final = re.compile(rf"\x08(?: \x08|\x1b\[[KJP])|(?:{_ESCAPE})*(?:.|\Z)", re.DOTALL)
_ENTER: Final = re.compile(r"\r*\n\Z")
_PLAIN: Final = r"(?:ba|da|z|k)?sh-\d[\d.]{0,10}[$#] "
_CERTAIN: Final = re.compile(
    rf"(?:\([\w.-]{{1,60}}\) )?[\w.-]{{1,60}}@[\w.-]{{1,100}}:[~/][^\s$#%>]{{0,300}}[$#] |{_PLAIN}"
)
"""An unmistakable prompt: Debian's `user@host:folder$ ` and bash's own `bash-5.2$ `."""

_KNOWN: Final = re.compile(
    rf"(?:\([\w.-]{{1,60}}\) )?\[?[\w.-]{{1,60}}@[\w.-]{{1,100}}(?:[:\s][^\n$#%>]{{0,200}})?\]?[$#%>] |{_PLAIN}"
    r"|>>> |\.\.\. |\([A-Za-z]{2,12}\) |[a-z]{2,12}> "
)
"""Forms of prompts: those with `user@host`, bash's own, and those of interpreters (`>>> `, `(gdb) `, `sqlite> `)."""

_ANY: Final = re.compile(r"[^\n$#%>❯➜]{0,200}[$#%>❯➜] ")
_WRAP: Final = re.compile(r"([^\n\r\x08]{20,}) \r(?![\r\n])")
"""Bytes with which a line editor continues in the next row, which reveal the width of the terminal."""

_NAME_END: Final = re.compile(r"[:~/\s]")
COLUMNS: Final = 80
"""Columns of a terminal of unknown size."""

_HEAD_BYTES: Final = 2048
_KINDS: Final = 4096
_PAUSE_SECONDS: Final = 1.0
_KEY_SECONDS: Final = 0.1

Kind = tuple[str, str]
"""Key by which prompts are alike: the name at the beginning, and the last two characters."""


@dataclass(frozen=True, slots=True)
class Prompts:
    """The kinds of prompts in a block, and properties of its lines.

    Attributes:
        kinds: kinds of prompts.
        is_plain: whether lines have lost their carriage returns.
        columns: columns of a terminal on which lines with a prompt break only where line editors broke them.
    """

    kinds: Set[Kind]
    is_plain: bool
    columns: int


def iterate_untimed_events(
    stream: BinaryIO, block: Typescript, prompts: Prompts, uri: str, member: str
) -> Iterator[Event]:
    """Yield the output of a block as events, with a pause after each prompt and between the keys typed there."""
    offset, now = block.begin, 0.0
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for segment, may_prompt in _segments(stream, block):
        end = (_prompt_end(segment, prompts.kinds) if may_prompt else None) or 0
        if end:
            yield offset, now, "o", decoder.decode(segment[:end])
            now += _PAUSE_SECONDS
        text = decoder.decode(segment[end:])
        text = text.replace("\n", "\r\n") if prompts.is_plain else text
        for keys in _keys(text) if end and not segment.startswith(_PASTING) else [text] if text else []:
            yield offset + end, now, "o", keys
            now += _KEY_SECONDS if end else 0.0
        offset += len(segment)
    if text := decoder.decode(b"", True):
        yield offset, now, "o", text
    yield from block.ending(now, uri, member)


def _keys(typed: str) -> Iterator[str]:
    """Yield the keys of a line that was typed by itself, one by one, then the end of the line."""
    enter = _ENTER.search(typed)
    end = len(typed) if enter is None else enter.start()
    yield from (keys for keys in _KEYS.findall(typed[:end]) if keys)
    if enter is not None:
        yield enter[0]


def _segments(stream: BinaryIO, block: Typescript) -> Iterator[tuple[bytes, bool]]:
    """Yield the lines of a block, also split where a shell marks a prompt, and whether each may begin with a prompt."""
    left, starts_line = block.size, True
    stream.seek(block.begin)
    while left and (line := stream.readline(min(left, PIECE_BYTES))):
        left -= len(line)
        for segment in _SEGMENT.split(line):
            if segment:
                yield segment, starts_line or segment.startswith((_PASTING, *_TITLE))
                starts_line = segment.endswith(b"\n")


def prompts_of(stream: BinaryIO, block: Typescript) -> Prompts:
    """Find the prompts of a block by reading it once."""
    counts: Counter[Kind] = Counter()
    certain: set[Kind] = set()
    first: Kind | None = None
    is_first = is_plain = True
    longest, broken = 0, set[int]()
    for segment, may_prompt in _segments(stream, block):
        is_plain = is_plain and not segment.endswith(b"\r\n")
        text = _visible(segment)
        is_pasting = segment.startswith(_PASTING)
        if not text.strip() or not may_prompt:
            continue
        known = _KNOWN.match(text)
        match = known or _ANY.match(text)
        kind = None if match is None else _kind(match[0])
        first, is_first = (kind, False) if is_first else (first, False)
        if kind is not None and (known or kind == first) and (kind in counts or len(counts) < _KINDS):
            counts[kind] += 1
            certain |= {kind} if is_pasting and _CERTAIN.match(text) else set()
            line = text.partition("\n")[0]
            longest = max(longest, len(line))
            if (wrap := _WRAP.match(_head(segment))) is not None:
                broken.add(len(_HIDDEN.sub("", wrap[1])))
    kinds = certain | {kind for kind, count in counts.items() if count > 1}
    return Prompts(kinds, is_plain, min(broken) if broken else min(max(COLUMNS, longest + 1), _HEAD_BYTES))


def _prompt_end(segment: bytes, prompts: Set[Kind]) -> int | None:
    """Return the end of the prompt at the beginning of a segment; None if there is no prompt."""
    text = _visible(segment)
    for form in (_KNOWN, _ANY):
        match = form.match(text)
        if match is not None and _kind(match[0]) in prompts:
            raw = _head(segment)
            cells = islice(_CELL.finditer(raw), match.end())
            *_, last = (cell.end() for cell in cells)
            return len(raw[:last].encode("utf-8", "surrogateescape"))
    return None


def _kind(prompt: str) -> Kind:
    name = _NAME_END.split(prompt, maxsplit=1)[0]
    return (name if len(name) > 1 else prompt), prompt[-2:]


def _head(segment: bytes) -> str:
    return segment[:_HEAD_BYTES].decode("utf-8", "surrogateescape")


def _visible(segment: bytes) -> str:
    """Return the beginning of a segment without characters that take up no cell."""
    return _HIDDEN.sub("", _head(segment))
