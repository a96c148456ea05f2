"""Pairing of messages of a web socket with their answers: by the numbers that they bear, where they bear any.

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
    late_indexes: set[int] = set()
    for path in asked.keys() & answered.keys():
        when = {number: at for at, number in asked[path]}
        if len(asked[path]) < _FEWEST or len(when) < len(asked[path]):
            continue
        own: set[int] = set()
        late: set[int] = set()
        for at, number in answered[path]:
            sent_in = when.get(number)
            if sent_in == at:
                own.add(at)
            elif sent_in is not None and sent_in < at:
                late.add(at)
        late_indexes |= late - own
    return late_indexes


def _by_place(runs: Sequence[Sequence[Message]]) -> dict[Place, list[tuple[int, int | str]]]:
    """Group the numbers in messages by their path: the run of each message, and its number there."""
    by_path: dict[Place, list[tuple[int, int | str]]] = {}
    for at, messages in enumerate(runs):
        for message in messages:
            for path, number in _numbers(message):
                by_path.setdefault(path, []).append((at, number))
    return by_path


def _numbers(message: Message) -> Iterator[tuple[Place, int | str]]:
    """Yield the scalars of a message with their paths, as far as they may be numbers of messages."""
    text = message.body.text
    if text is not None and len(text) <= _LONGEST and text.startswith("{"):
        yield from _scalars(value_or_none(text), ())


def _scalars(value: Any, around: Place) -> Iterator[tuple[Place, int | str]]:
    if isinstance(value, dict) and len(around) < _DEEPEST:
        for key, member in value.items():
            yield from _scalars(member, (*around, key))
    elif type(value) in (int, str):
        yield around, value
