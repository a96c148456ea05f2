"""Packages that others load when they find them, though nothing of ours asks for what they give.

pyarrow imports pandas at its first `pa.array`, to know a Series when it meets one; that takes as long as a small recipe
and all its signals. Beam imports it with itself, as long again. A process of ours never meets a frame.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Final

_UNUSED: Final = "pandas"


class _Hidden:
    """Says of a package that it is not installed."""

    def find_spec(self, name: str, *_: object) -> None:
        """What the import system calls; others are left to those that come after."""
        if name == _UNUSED:
            raise ModuleNotFoundError(name=name)


@contextmanager
def pandas_hidden() -> Iterator[None]:
    """While it lasts, what is imported does without pandas where it can."""
    hidden = _Hidden()
    sys.meta_path.insert(0, hidden)
    try:
        yield
    finally:
        sys.meta_path.remove(hidden)


@cache
def without_pandas() -> None:
    """Has pyarrow do without pandas in this process, unless something asks it for a frame: then it imports it still.

    It is called where Arrow may be used first, which it loads.
    """
    import pyarrow as pa

    with pandas_hidden():
        pa.array([""])
