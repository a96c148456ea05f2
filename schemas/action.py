"""What the agent did: the Python form of the `action` column, and the text forms that a model reads.

Two text forms serve all domains: a call (`{"name": …, "arguments": {…}}`) and, for terminals, a list of keystrokes with
durations, the form of Terminus-2 and of Qwen-AgentWorld (arXiv 2606.24597, table 1).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from json import encoder
from math import isfinite
from typing import Any, Final

from schemas.record import record

WAIT: Final = "wait"
"""Name of the action that only lets time pass; with a duration it is an action like any other."""

COMPLETE: Final = "task_complete"
"""Name of the action by which the agent declares its task done."""

KEYSTROKES: Final = "keystrokes"
"""Name of terminal input; its text is that of `keystrokes_text`."""

MESSAGE: Final = "message"
"""Name of what is said to the user without acting: no call, no keystroke and no wait, so an empty action."""


@record
class Action:
    """One action; the fields are those of the schema. `arguments` is JSON text, see `json_text`."""

    name: str
    text: str
    arguments: str | None = None
    call_id: str | None = None
    message: str | None = None
    reasoning: str | None = None


def json_writer(quoted: Callable[[str], str], *, allow_nan: bool = True) -> Callable[[Any, int], Iterable[str]]:
    """The standard library's encoder of JSON values, to be called as `writer(value, 0)` for the pieces of the text.

    `json.JSONEncoder`, the way to it that is documented, makes one for each value: 1.7 instead of 1.0 µs for arguments
    of 50 characters, up to 6 % of what a parser takes; and it quotes texts itself. That both write the same is tested.

    Args:
        quoted: a text as a JSON string.
        allow_nan: as in `json.dumps`.
    """
    make: Any = encoder.c_make_encoder  # type: ignore[attr-defined]
    made: Callable[[Any, int], Iterable[str]] = make(
        None, json.JSONEncoder().default, quoted, None, ": ", ", ", False, False, allow_nan
    )
    return made


_quote: Final = encoder.encode_basestring
_pieces: Final = json_writer(_quote)


def json_text(value: Any) -> str:
    """`value` as compact JSON text in the order of its keys, with non-ASCII characters as they are."""
    return _quote(value) if type(value) is str else "".join(_pieces(value, 0))


def call_text(name: str, arguments: Mapping[str, Any] | None) -> str:
    """The text of a call: a JSON object of `name` and `arguments` ({} if there are none)."""
    given = arguments if type(arguments) is dict else dict(arguments or {})
    return f'{{"name": {_quote(name)}, "arguments": {"".join(_pieces(given, 0))}}}'


@lru_cache(1024)
def _quoted_name(name: str) -> str:
    return _quote(name)


def call_text_of(name: str, arguments: str | None) -> str:
    """What `call_text` gives for arguments that are JSON text already."""
    return f'{{"name": {_quoted_name(name)}, "arguments": {arguments or "{}"}}}'


def keystrokes_text(strokes: Sequence[tuple[str, float | None]]) -> str:
    """The text of terminal input: a JSON array of keystrokes, each with the seconds waited after it if known.

    Args:
        strokes: (keys as typed, control characters included; seconds, rounded to milliseconds). Empty keys with a
            duration are a wait; an empty sequence means that the task is complete.
    """
    return f"[{', '.join([_stroke_text(keys, seconds) for keys, seconds in strokes])}]"


def _stroke_text(keys: str, seconds: float | None) -> str:
    # Put together by hand: the encoder is three times as fast on a string as on a list of objects.
    if seconds is None:
        return f'{{"keystrokes": {_quote(keys)}}}'
    rounded = round(seconds, 3)
    plain = type(rounded) is float and isfinite(rounded)
    return f'{{"keystrokes": {_quote(keys)}, "duration": {repr(rounded) if plain else json_text(rounded)}}}'
