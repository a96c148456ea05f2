"""Values of an action: the agent's own content, decoded, without the names of tool and parameters.

The values of JSON arguments are their strings, numbers and words, one a line; keys and punctuation are left out. The
values of keystrokes are the keys, without durations. A text that is not JSON is a value as it is.

The values in JSON texts are found by column arithmetic over the Arrow buffer: no text becomes a Python object. Each
text is assumed to be JSON; the result for other text is meaningless.
"""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.quality.sets import marks_before
from trajmill.quality.shingle import Flags, Offsets, blocks, translate_bytes
from trajmill.quality.signal import Measured
from trajmill.quality.texts import Texts
from trajmill.schemas import KEYSTROKES

_QUOTE: Final = ord('"')
_COLON: Final = ord(":")
_BACKSLASH: Final = ord("\\")
_LINE_FEED: Final = ord("\n")
_BLANK: Final = ord(" ")
_SPACES: Final = np.isin(np.arange(256), list(b" \t\r\n"))
_BARE: Final = (~np.isin(np.arange(256), list(b'{}[],:" \t\r\n'))).tobytes()
"""Table with 1 for bytes of numbers and of the words true, false and null."""


def leaves(texts: pa.StringArray) -> pa.StringArray:
    """The strings, numbers and words that each JSON text holds, in order, one a line; keys are none of them.

    An escape of two characters becomes one blank; one by number (`\\u00e9`) stays as it is written.
    """
    blocks_of_values, sizes = [], [np.zeros(1, np.int64)]
    for _, data, starts in blocks(texts):
        some, number = _of_block(data.copy(), starts)
        blocks_of_values.append(some)
        sizes.append(number)
    offsets = np.cumsum(np.concatenate(sizes)).astype(np.int32)
    data = np.concatenate([*blocks_of_values, np.zeros(0, np.uint8)])
    return pa.StringArray.from_buffers(len(texts), pa.py_buffer(offsets), pa.py_buffer(data))


def _of_block(data: npt.NDArray[np.uint8], starts: Offsets) -> tuple[npt.NDArray[np.uint8], Offsets]:
    """Return the bytes of a block's values, and their number for each text; `data` is modified."""
    escaped = _escaped_positions(data)
    quotes = data == _QUOTE
    quotes[escaped] = False
    quoted = np.flatnonzero(quotes)
    opens, closes = quoted[::2], quoted[1::2]
    value = ~_before_colon(data, closes)
    bare = translate_bytes(data, _BARE).view(np.bool_) & ~_within(opens, closes + 1, len(data))
    is_value = bare | _within(opens[value] + 1, closes[value], len(data))
    is_value[closes[value]] = True
    is_value[1:] |= bare[:-1]
    data[closes[value]] = _LINE_FEED
    data[1:][bare[:-1] & ~bare[1:]] = _LINE_FEED
    is_value[starts[1:-1]] &= bare[starts[1:-1]]  # a number that is all of a text has no byte behind it
    simple = escaped[data[escaped] != ord("u")]
    data[simple - 1] = _BLANK
    is_value[simple] = False
    return data[is_value], np.diff(marks_before(is_value, starts))


def _within(begin: Offsets, end: Offsets, size: int) -> Flags:
    """Flag the bytes between each beginning and its end; the ranges do not overlap."""
    edges = np.zeros(2 * len(begin) + 2, np.int64)
    edges[1:-1:2], edges[2:-1:2], edges[-1] = begin, end, size
    return np.repeat(np.arange(len(edges) - 1) % 2 == 1, np.diff(edges))


def _escaped_positions(data: npt.NDArray[np.uint8]) -> Offsets:
    """Return the positions of escaped bytes, those behind their backslash."""
    backslashes = np.flatnonzero(data == _BACKSLASH)
    if not len(backslashes):
        return backslashes
    number = np.arange(len(backslashes))
    begins = np.ones(len(backslashes), np.bool_)
    begins[1:] = np.diff(backslashes) > 1
    within = number - np.maximum.accumulate(np.where(begins, number, 0))
    return backslashes[within % 2 == 0] + 1


def _before_colon(data: npt.NDArray[np.uint8], closes: Offsets) -> Flags:
    """Flag the closing quotes followed by a colon, blanks aside."""
    behind = np.append(data, np.uint8(0))
    positions = closes + 1
    some = np.flatnonzero(_SPACES[behind[positions]])
    while len(some):
        positions[some] += 1
        some = some[_SPACES[behind[positions[some]]]]
    flags: Flags = behind[positions] == _COLON
    return flags


_STRING: Final = r'"(?:[^"\\]|\\.)*"'
_LEAF: Final = rf'(?s)(?:[{{}}\[\],\s]|{_STRING}\s*:)*(?:"((?:[^"\\]|\\.)*)"|([^"{{}}\[\],:\s]+))?'
"""Pattern of punctuation and keys, then a value."""
_DURATION: Final = r', "duration": -?[0-9.eE+-]+'
_BARE_CALL: Final = r'^\{"name": "(?:[^"\\]|\\.)*", "arguments": \{\}\}$'


def _leaves(value: Any) -> list[str]:
    """Return the values in a decoded JSON value, in order."""
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in _leaves(item)]
    if isinstance(value, list):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value if isinstance(value, str) else json.dumps(value)]


def decode_json_like(texts: pa.StringArray) -> pa.StringArray:
    """Return the values as `decode_leaves` does, for texts that look like JSON and may not be."""
    values = pc.replace_substring_regex(texts, _LEAF, "\\1\\2\n")
    return _whole(texts, pc.replace_substring_regex(values, r'\\["\\/bfnrt]', " "))


def decode_leaves(texts: pa.StringArray) -> pa.StringArray:
    """The values that each JSON text holds, one a line, without blanks around them all.

    By column, but for the few texts with escapes by number (`\\u00e9`), which are read one by one. An escaped quote,
    backslash or control character becomes a blank: no word holds one.
    """
    return _whole(texts, leaves(texts))


def _whole(texts: pa.StringArray, values: pa.StringArray) -> pa.StringArray:
    values = pc.utf8_trim_whitespace(values)
    numbered = pc.match_substring_regex(texts, r"\\u[0-9a-fA-F]{4}")
    if not pc.any(numbered).as_py():
        return values
    slow = [_read(text) for text in texts.filter(numbered).to_pylist()]
    return pc.replace_with_mask(values, numbered, pa.array(slow, pa.string()))


def _read(text: str) -> str:
    try:
        leaves = _leaves(json.loads(text))
    except (ValueError, RecursionError):  # a text that only looks like JSON
        return text
    return "\n".join(leaves).encode("utf-8", "replace").decode().strip()


def action_values(measured: Measured) -> Texts:
    """Return the values of each row's action, as text."""
    keys = measured.texts("action", "name").matching(f"^{KEYSTROKES}$")
    arguments = measured.texts("action", "arguments").at(~keys)
    arguments = arguments.mapped(decode_leaves(arguments.texts))
    texts = measured.texts("action", "text").at(arguments.index < 0)
    plain = pc.replace_substring_regex(texts.texts, _BARE_CALL, "{}")
    plain = pc.replace_substring_regex(plain, _DURATION, "")
    is_json = pc.match_substring_regex(plain, r"^\s*[\[{]")
    return arguments.over(texts.mapped(pc.if_else(is_json, decode_json_like(plain), plain)))
