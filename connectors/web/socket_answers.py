"""Pairing of web socket messages with their answers by the numbers in them, if they have any.

Messages of JSON-RPC, Firebase and many others are objects, and an answer repeats the number of the message that it
answers at the same path. This module knows no protocol. A path counts as that of such numbers if no two sent messages
have the same value there, and received messages repeat some of the values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

from trajmill.connectors.reading.values import value_or_none
from trajmill.connectors.web.exchange import Message

_LONGEST: Final = 1 << 20
_DEEPEST: Final = 3
_FEWEST: Final = 2
"""Smallest number of messages that shows whether the numbers at a path differ."""

Place: TypeAlias = tuple[str, ...]


def late_runs(runs: Sequence[tuple[Sequence[Message], Sequence[Message]]]) -> set[int]:
    """Return the indices of runs whose received messages answer earlier messages, and none of those sent just before.

    Args:
        runs: runs of a socket, in order: consecutive sent messages, and the messages received after them.
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
    """Yield the scalars of a message with their paths, if they may be numbers of messages."""
    text = message.body.text
    if text is not None and len(text) <= _LONGEST and text.startswith("{"):
        yield from _scalars(value_or_none(text), ())


def _scalars(value: Any, around: Place) -> Iterator[tuple[Place, int | str]]:
    if isinstance(value, dict) and len(around) < _DEEPEST:
        for key, member in value.items():
            yield from _scalars(member, (*around, key))
    elif type(value) in (int, str):
        yield around, value
