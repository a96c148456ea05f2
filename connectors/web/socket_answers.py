"""Which messages of a web socket are answered by which: by the numbers that they bear, where they bear any.

Messages of JSON-RPC, of Firebase and of many others are objects, and an answer repeats the number of what it answers in
the same place. No protocol is known here: a place counts as that of such numbers where no two messages that were sent
have the same there, and messages that came repeat some of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

from trajmill.connectors.reading.values import value_or_none
from trajmill.connectors.web.exchange import Message

_LONGEST: Final = 1 << 20
_DEEPEST: Final = 3
_FEWEST: Final = 2
"""Messages that tell whether numbers in a place differ."""

Place: TypeAlias = tuple[str, ...]


def late_runs(runs: Sequence[tuple[Sequence[Message], Sequence[Message]]]) -> set[int]:
    """The places of runs in which what came answers earlier messages, and none of those that were sent just before.

    Args:
        runs: of a socket, in order: messages sent in a row, and those that then came.
    """
    asked, answered = _by_place([run[0] for run in runs]), _by_place([run[1] for run in runs])
    found: set[int] = set()
    for place in asked.keys() & answered.keys():
        when = {number: at for at, number in asked[place]}
        if len(asked[place]) < _FEWEST or len(when) < len(asked[place]):
            continue
        own: set[int] = set()
        late: set[int] = set()
        for at, number in answered[place]:
            told = when.get(number)
            if told == at:
                own.add(at)
            elif told is not None and told < at:
                late.add(at)
        found |= late - own
    return found


def _by_place(runs: Sequence[Sequence[Message]]) -> dict[Place, list[tuple[int, int | str]]]:
    """What messages say by place: the run that each is in, and what it says there."""
    found: dict[Place, list[tuple[int, int | str]]] = {}
    for at, messages in enumerate(runs):
        for message in messages:
            for place, number in _numbers(message):
                found.setdefault(place, []).append((at, number))
    return found


def _numbers(message: Message) -> Iterator[tuple[Place, int | str]]:
    """What a message says by place, as far as it may be a number of messages."""
    text = message.body.text
    if text is not None and len(text) <= _LONGEST and text.startswith("{"):
        yield from _scalars(value_or_none(text), ())


def _scalars(value: Any, around: Place) -> Iterator[tuple[Place, int | str]]:
    if isinstance(value, dict) and len(around) < _DEEPEST:
        for key, one in value.items():
            yield from _scalars(one, (*around, key))
    elif type(value) in (int, str):
        yield around, value
