"""Writes fresh raw logs for measuring speed: varied content, the shape of real logs, the same bytes for the same seed.

    python -m benchmarks.generate asciicast --megabytes 200 --seed 7 --out DIR

Each log draws from its own source, chosen by (seed, format, place), so a larger corpus begins with the smaller one. The
content means nothing; it says nothing of quality, only of time and memory.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from benchmarks.logs import android, terminal
from benchmarks.logs.text import Text
from benchmarks.processes import run_to_end
from samples.writing.files import write_file

Generator = Callable[[Text, int], Iterator[tuple[str, bytes]]]
"""Yields the files (name within the log's folder, bytes) of one log of at most about so many bytes."""

FORMATS: Final[dict[str, Generator]] = {
    "asciicast": terminal.recordings,
    "asciicast_output": terminal.output_recordings,
    "claude_code": terminal.sessions,
    "uiautomator": android.uiautomator,
    "appagent": android.appagent,
    "droidbot": android.droidbot,
}


def files(name: str, size: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Path and bytes of each file of a corpus of about `size` bytes, a folder for each log.

    Args:
        name: a key of `FORMATS`.
        size: bytes wanted; the corpus ends with the log that reaches them, which is cut short for it.
        seed: the same gives the same files.
    """
    left, number = size, 0
    while left > 0:
        for path, data in FORMATS[name](Text(seed, f"{name}/{number}"), left):
            left -= len(data)
            yield f"log_{number:06}/{path}", data
        number += 1


def write(name: str, size: int, seed: int, out: Path) -> tuple[int, int]:
    """Write the files below `out`; return how many files and bytes."""
    count = total = 0
    for path, data in files(name, size, seed):
        write_file(out / path, data)
        count, total = count + 1, total + len(data)
    return count, total


def write_apart(name: str, megabytes: float, out: Path) -> str:
    """Writes so many MB in a process of its own, whose memory is not the caller's, and says how fast."""
    asked = [name, "--megabytes", str(megabytes), "--out", str(out)]
    return run_to_end([sys.executable, "-m", "benchmarks.generate", *asked])[0].decode()


def main() -> None:
    """Writes what the command line asks for and says how much and how fast."""
    parser = argparse.ArgumentParser(description="Writes fresh raw logs for measuring speed.")
    parser.add_argument("format", choices=FORMATS)
    parser.add_argument("--megabytes", type=float, default=200, help="millions of bytes")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    begun = time.process_time()
    count, total = write(asked.format, int(asked.megabytes * 1e6), asked.seed, asked.out)
    spent = time.process_time() - begun
    print(f"{count} files, {total / 1e6:.1f} MB in {spent:.1f} CPU seconds, {total / 1e6 / spent:.1f} MB/s")


if __name__ == "__main__":
    main()
