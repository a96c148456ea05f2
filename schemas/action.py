"""Actions of the agent: the Python form of the `action` column, and the text forms that a model reads.

Two text forms cover all domains: a call (`{"name": …, "arguments": {…}}`) and, for terminals, a list of keystrokes with
durations, in the form of Terminus-2 and of Qwen-AgentWorld (arXiv 2606.24597, table 1).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from json import encoder
from math import isfinite
from typing import Any, Final

from trajmill.schemas.record import record

WAIT: Final = "wait"
"""Name of the action that only lets time pass. A keystroke with a duration is an ordinary action."""

COMPLETE: Final = "task_complete"
"""Name of the action by which the agent declares its task done."""

KEYSTROKES: Final = "keystrokes"
"""Name of terminal input; `keystrokes_text` builds its text."""

MESSAGE: Final = "message"
"""Name of a message to the user without a call, a keystroke or a wait. It counts as an empty action."""


@record
class Action:
    """One action, with the fields of the `action` column. `arguments` is JSON text as of `json_text`.

    `sensitive` belongs to no column. It lists secrets of the action that its texts only mask; scrubbing hides them
    wherever else the trajectory contains them.
    """

    name: str
    text: str
    arguments: str | None = None
    call_id: str | None = None
    message: str | None = None
    reasoning: str | None = None
    sampled: str | None = None
    sensitive: tuple[str, ...] = ()


def _writer(make: Any) -> Callable[[Any], str]:
    """Return a function that writes a JSON value as text.

    Args:
        make: CPython's C encoder, which needs half the time of the documented `JSONEncoder` for the arguments of a
            call; None where it does not exist. A test compares the output of both.
    """
    if make is None:
        return json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False).encode
    pieces = make(None, json.JSONEncoder().default, _quote, None, ": ", ", ", False, False, False)
    return lambda value: "".join(pieces(value, 0))


_quote: Final = encoder.encode_basestring
_written: Final = _writer(getattr(encoder, "c_make_encoder", None))


def json_text(value: Any) -> str:
    """Return `value` as compact JSON text. The keys keep their order, and non-ASCII characters are not escaped.

    Numbers without a JSON form (not a number, infinities) become null.

    Raises:
        RecursionError: The value is nested too deeply.
        TypeError: The value is not a JSON value.
    """
    if type(value) is str:
        return _quote(value)
    try:
        return _written(value)
    except ValueError:
        return _written(_finite(value))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(element) for key, element in value.items()}
    return [_finite(element) for element in value] if isinstance(value, list | tuple) else value


def sampled_text(token_ids: Any, logprobs: Any) -> str | None:
    """Return the text of `Action.sampled`; None unless there are ids, and each is a whole number of 0 … 2**31 - 1.

    Args:
        token_ids: as a log has them, of any type.
        logprobs: beside them; left out unless there is a finite number for each id.
    """
    if not isinstance(token_ids, list) or not token_ids:
        return None
    if not all(type(token_id) is int and 0 <= token_id < 1 << 31 for token_id in token_ids):
        return None
    is_measured = isinstance(logprobs, list) and len(logprobs) == len(token_ids) and all(map(_is_finite, logprobs))
    return json_text({"token_ids": token_ids, "logprobs": logprobs if is_measured else None})


def _is_finite(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1e30


def call_text(name: str, arguments: Mapping[str, Any] | None) -> str:
    """Return the text of a call: a JSON object of `name` and `arguments` ({} if there are none)."""
    plain_arguments = arguments if type(arguments) is dict else dict(arguments or {})
    return f'{{"name": {_quote(name)}, "arguments": {json_text(plain_arguments)}}}'


@lru_cache(1024)
def _quote_name(name: str) -> str:
    return _quote(name)


def call_text_of(name: str, arguments: str | None) -> str:
    """Return the text of a call, as `call_text` does, for arguments that are already JSON text."""
    return f'{{"name": {_quote_name(name)}, "arguments": {arguments or "{}"}}}'


def keystrokes(strokes: Sequence[tuple[str, float | None]]) -> list[dict[str, Any]]:
    """Return terminal input as a JSON array of keystrokes, each with the seconds waited after it if known.

    Args:
        strokes: Pairs of the typed keys, control characters included, and of seconds, rounded to milliseconds. Empty
            keys with a duration are a wait; an empty sequence means that the task is complete.
    """
    return [
        {"keystrokes": keys} if seconds is None else {"keystrokes": keys, "duration": round(seconds, 3)}
        for keys, seconds in strokes
    ]


def keystrokes_text(strokes: Sequence[tuple[str, float | None]]) -> str:
    """Return the text of terminal input; `strokes` as of `keystrokes`."""
    return json_text(keystrokes(strokes))
