"""Packages that others load when they find them, though nothing of ours asks for what they give.

pyarrow imports pandas at its first `pa.array`, to know a Series when it meets one; that takes as long as a small recipe
and all its signals. A process of ours never meets one.
"""

from __future__ import annotations

import sys
from typing import Final

_UNUSED: Final = "pandas"


class _Hidden:
    """Says of a package that it is not installed."""

    def find_spec(self, name: str, *_: object) -> None:
        """What the import system calls; others are left to those that come after."""
        if name == _UNUSED:
            raise ModuleNotFoundError(name=name)


def without_pandas() -> None:
    """Has pyarrow do without pandas in this process, unless something asks it for a frame: then it imports it still."""
    import pyarrow as pa

    hidden = _Hidden()
    sys.meta_path.insert(0, hidden)
    try:
        pa.array([""])
    finally:
        sys.meta_path.remove(hidden)
