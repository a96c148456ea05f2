"""The values of an action: what the agent wrote into it, decoded, without the names of tool and parameters.

Of JSON arguments the strings, numbers and words are values, one a line; keys and punctuation are not. Of keystrokes the
keys are, how long was waited is not. A text that is no JSON is a value as it stands.
"""

from __future__ import annotations

import json
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from trajmill.quality.json_leaves import leaves
from trajmill.quality.signal import Measured
from trajmill.quality.texts import Texts
from trajmill.schemas import KEYSTROKES

_STRING: Final = r'"(?:[^"\\]|\\.)*"'
_LEAF: Final = rf'(?s)(?:[{{}}\[\],\s]|{_STRING}\s*:)*(?:"((?:[^"\\]|\\.)*)"|([^"{{}}\[\],:\s]+))?'
"""Punctuation and keys, then a value."""
_DURATION: Final = r', "duration": -?[0-9.eE+-]+'
_BARE_CALL: Final = r'^\{"name": "(?:[^"\\]|\\.)*", "arguments": \{\}\}$'


def _leaves(value: Any) -> list[str]:
    """The values in a decoded JSON value, in order."""
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in _leaves(item)]
    if isinstance(value, list):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value if isinstance(value, str) else json.dumps(value)]


def looked_like(texts: pa.StringArray) -> pa.StringArray:
    """What `decoded` gives, of texts that look like JSON and may be none."""
    found = pc.replace_substring_regex(texts, _LEAF, "\\1\\2\n")
    return _whole(texts, pc.replace_substring_regex(found, r'\\["\\/bfnrt]', " "))


def decoded(texts: pa.StringArray) -> pa.StringArray:
    """The values that each JSON text holds, one a line, without blanks around them all.

    By column, but for the few texts with escapes by number (`\\u00e9`), which are read one by one. An escaped quote,
    backslash or control character becomes a blank: no word holds one.
    """
    return _whole(texts, leaves(texts))


def _whole(texts: pa.StringArray, found: pa.StringArray) -> pa.StringArray:
    found = pc.utf8_trim_whitespace(found)
    numbered = pc.match_substring_regex(texts, r"\\u[0-9a-fA-F]{4}")
    if not pc.any(numbered).as_py():
        return found
    slow = [_read(text) for text in texts.filter(numbered).to_pylist()]
    return pc.replace_with_mask(found, numbered, pa.array(slow, pa.string()))


def _read(text: str) -> str:
    try:
        leaves = _leaves(json.loads(text))
    except (ValueError, RecursionError):  # a text that only looks like JSON
        return text
    return "\n".join(leaves).encode("utf-8", "replace").decode().strip()


def action_values(measured: Measured) -> Texts:
    """The values of each row's action, as text."""
    keys = measured.texts("action", "name").matching(f"^{KEYSTROKES}$")
    arguments = measured.texts("action", "arguments").at(~keys)
    arguments = arguments.mapped(decoded(arguments.texts))
    texts = measured.texts("action", "text").at(arguments.index < 0)
    plain = pc.replace_substring_regex(texts.texts, _BARE_CALL, "{}")
    plain = pc.replace_substring_regex(plain, _DURATION, "")
    is_json = pc.match_substring_regex(plain, r"^\s*[\[{]")
    return arguments.over(texts.mapped(pc.if_else(is_json, looked_like(plain), plain)))
