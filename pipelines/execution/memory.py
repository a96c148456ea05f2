"""Memory of a process that works on parts: neither allocator nor collector changes a result.

Arrow uses the C library's allocator (`trajmill/__init__.py`), so that what is set here holds for it too.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
from functools import cache
from typing import Any, Final

_ALLOCATIONS: Final = 50_000
"""New containers, beyond those freed, after which the collector looks at them; Python's default is 700."""

_MALLOPT: Final = {-3: 4 << 20, -1: 64 << 20}
"""glibc's M_MMAP_THRESHOLD and M_TRIM_THRESHOLD: blocks from 4 MB on go back to the system when freed. By itself glibc
takes ever larger ones, up to 32 MB, from its heap, where small things behind them keep them: a process that works
through a long log, whose row groups have columns of just that size, grew by their remains."""


def tune_memory() -> None:
    """Set allocator and garbage collector for the rest of this process.

    What is loaded stays, and is some 100,000 objects: to look at them again and again takes a tenth of a small run, and
    as much again when the process ends, whose memory the system takes anyway.
    """
    if (mallopt := _of_libc("mallopt")) is not None:
        for option, size in _MALLOPT.items():
            mallopt(option, size)
    gc.set_threshold(_ALLOCATIONS, *gc.get_threshold()[1:])
    atexit.register(gc.freeze)


def give_back_memory() -> None:
    """Give what was freed back to the system: after a large part, allocators hold several hundred megabytes of it."""
    import pyarrow as pa  # here, since commands that read no data set these limits too

    pa.default_memory_pool().release_unused()
    if (trim := _of_libc("malloc_trim")) is not None:
        trim(0)


@cache
def _of_libc(name: str) -> Any:
    """A function of the C library; None where it has no such thing."""
    try:
        return getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return None
