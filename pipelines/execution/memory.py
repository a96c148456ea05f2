"""Memory settings of a process that works on parts. Neither allocator nor collector changes a result.

Arrow uses the C library's allocator (`trajmill/__init__.py`), so that these settings apply to it too.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
from functools import cache
from typing import Any, Final

_ALLOCATIONS: Final = 50_000
"""Number of new containers, minus those freed, after which the collector runs; Python's default is 700."""

_MALLOPT: Final = {-3: 4 << 20, -1: 64 << 20}
"""glibc's M_MMAP_THRESHOLD and M_TRIM_THRESHOLD.

Blocks from 4 MB on are returned to the system when freed. By default, glibc raises this threshold up to 32 MB and takes
larger blocks from its heap, where small objects after them keep their memory from being returned. The columns of a long
log's row groups have just that size, and a process that worked through one grew steadily.
"""

_FREE_BYTES: Final = 96 << 20
"""Freed memory that a process keeps for the next part, since new pages for each part take 5 % of a run."""


def tune_memory() -> None:
    """Set allocator and garbage collector for the rest of this process.

    Loaded code stays, as some 100,000 objects. Scanning them repeatedly takes a tenth of a small run, and as much again
    when the process ends, although the system then frees its memory anyway.
    """
    if (mallopt := _of_libc("mallopt")) is not None:
        for option, size in _MALLOPT.items():
            mallopt(option, size)
    gc.set_threshold(_ALLOCATIONS, *gc.get_threshold()[1:])
    atexit.register(gc.freeze)


def give_back_memory() -> None:
    """Return freed memory to the system if there is much. After a large part, allocators hold several hundred megabytes
    of it.
    """
    if (mallinfo := _of_libc("mallinfo2")) is not None:
        mallinfo.restype = _Mallinfo
        if mallinfo().sizes[8] < _FREE_BYTES:
            return
    import pyarrow as pa  # here, since commands that read no data set these limits too

    pa.default_memory_pool().release_unused()
    if (trim := _of_libc("malloc_trim")) is not None:
        trim(0)


class _Mallinfo(ctypes.Structure):
    """glibc's `struct mallinfo2`: ten sizes, of which number 8 is that of the free blocks."""

    _fields_ = (("sizes", ctypes.c_size_t * 10),)


@cache
def _of_libc(name: str) -> Any:
    """Return a function of the C library; None if it does not exist."""
    try:
        return getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return None
