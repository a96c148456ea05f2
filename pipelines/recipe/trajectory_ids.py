"""Files of trajectory ids, one a line, as the viewer saves them."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Final

_ID: Final = re.compile(r"[0-9a-f]{32}")


def read_ids(path: str) -> frozenset[str]:
    """Read the ids in a file; empty lines count for nothing.

    Raises:
        ValueError: the file cannot be read, or a line holds something else.
    """
    try:
        return _read(Path(path), Path(path).stat().st_mtime_ns)
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"the file cannot be read: {error}") from error


@lru_cache(4)
def _read(path: Path, _changed: int) -> frozenset[str]:
    lines = path.read_text("utf-8").split("\n")
    ids = {line.strip(): number for number, line in enumerate(lines, 1) if line.strip()}
    for line, number in ids.items():
        if _ID.fullmatch(line) is None:
            raise ValueError(f"line {number} is no trajectory id: {line[:40]!r}")
    return frozenset(ids)
