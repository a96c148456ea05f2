"""Fresh logs of several domains beside each other in one folder, for runs over the recipe `all`.

The same seed gives the same files, and a larger corpus begins with the smaller one. Of the sessions some are there
twice and some have another end, as rollouts of one task have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, Final

from benchmarks.generate import FORMATS
from benchmarks.logs.session_logs import MADE
from benchmarks.logs.sessions import session
from benchmarks.logs.text import Text
from samples.writing.files import write_file

Files = Iterator[tuple[str, bytes]]

SHARES: Final = {
    "claude_code": 0.3,
    "asciicast": 0.15,
    "uiautomator": 0.15,
    "droidbot": 0.05,
    "chat_tools": 0.15,
    "openhands": 0.15,
    "swe_rows": 0.05,
}
"""Of the bytes, by format."""

_COMMIT: Final = b"0a1b2c3d"
_AGAIN: Final = 8
"""One session of so many is there twice, and the next has another end."""


def _generated(name: str, seed: int) -> Callable[[int], Files]:
    def of(place: int) -> Files:
        for path, data in FORMATS[name](Text(seed, f"{name}/{place}"), 1 << 40):
            yield f"log_{place:06}/{path}", data

    return of


def _session(name: str, seed: int) -> Callable[[int], Files]:
    file, domain, write, _ = MADE[name]

    def of(place: int) -> Files:
        number = place - 1 if place % _AGAIN in (1, 2) else place
        one = session(domain, seed * 1_000_000 + number)
        if place % _AGAIN == 2:
            one = replace(one, acts=one.acts[: len(one.acts) // 2])
        made: Any = write(one)
        for member, data in made.items() if isinstance(made, dict) else [(file, made)]:
            # rows of one commit of a repository would all be of one group
            yield f"log_{place:06}/{member}", data.replace(_COMMIT, f"{one.number:08x}".encode())

    return of


def mixed(size: int, seed: int = 7) -> Files:
    """Path and bytes of each file of about `size` bytes of logs: always a log of the format that lacks most."""
    makers = {name: (_generated if name in FORMATS else _session)(name, seed) for name in SHARES}
    places = {name: count() for name in SHARES}
    written = dict.fromkeys(SHARES, 0)
    while sum(written.values()) < size:
        name = min(SHARES, key=lambda one: written[one] / SHARES[one])
        for path, data in makers[name](next(places[name])):
            written[name] += len(data)
            yield f"{name}/{path}", data


def write_mixed(folder: Path, size: int, seed: int = 7) -> int:
    """How many bytes were written below the folder; what lies there of a smaller corpus of that seed stays."""
    total = 0
    for path, data in mixed(size, seed):
        total += len(data)
        if not (folder / path).exists():
            write_file(folder / path, data)
    return total
