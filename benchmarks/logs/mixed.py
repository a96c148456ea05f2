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


def _generate(name: str, seed: int) -> Callable[[int], Files]:
    def of(index: int) -> Files:
        for path, data in FORMATS[name](Text(seed, f"{name}/{index}"), 1 << 40):
            yield f"log_{index:06}/{path}", data

    return of


def _session(name: str, seed: int) -> Callable[[int], Files]:
    file, domain, write, _ = MADE[name]

    def of(index: int) -> Files:
        number = index - 1 if index % _AGAIN in (1, 2) else index
        current = session(domain, seed * 1_000_000 + number)
        if index % _AGAIN == 2:
            current = replace(current, acts=current.acts[: len(current.acts) // 2])
        log: Any = write(current)
        for member, data in log.items() if isinstance(log, dict) else [(file, log)]:
            # rows of one commit of a repository would all be of one group
            yield f"log_{index:06}/{member}", data.replace(_COMMIT, f"{current.number:08x}".encode())

    return of


def mix_logs(size: int, seed: int = 7) -> Files:
    """Path and bytes of each file of about `size` bytes of logs: always a log of the format that lacks most."""
    makers = {name: (_generate if name in FORMATS else _session)(name, seed) for name in SHARES}
    places = {name: count() for name in SHARES}
    written = dict.fromkeys(SHARES, 0)
    while sum(written.values()) < size:
        name = min(SHARES, key=lambda format_name: written[format_name] / SHARES[format_name])
        for path, data in makers[name](next(places[name])):
            written[name] += len(data)
            yield f"{name}/{path}", data


def write_mixed(folder: Path, size: int, seed: int = 7) -> int:
    """Write such logs below the folder and return the number of bytes; files of a smaller corpus of that seed stay."""
    total = 0
    for path, data in mix_logs(size, seed):
        total += len(data)
        if not (folder / path).exists():
            write_file(folder / path, data)
    return total
