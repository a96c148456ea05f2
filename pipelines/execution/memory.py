"""Memory while a part is worked on, and after it.

Python's garbage collector is told to leave alone what lives longer than the part: records hold no cycles, so reference
counting frees nearly all that a part makes. What was freed goes back to the system. Neither changes a result.

Arrow is told to use the C library's allocator where it is loaded (`pipelines/__init__.py`).
"""

from __future__ import annotations

import atexit
import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

_ALLOCATIONS: Final = 50_000
"""New containers, beyond those freed, after which the collector looks at them; Python's default is 700."""


_SPARINGLY: Final = (4 << 20, 64 << 20)
"""Bytes from which on a block is asked from the system by itself and given back when freed, and freed bytes at the
end of the heap that are kept for what comes."""

_KEEPING: Final = (32 << 20, 256 << 20)
"""The same where speed counts: the system sets every page to zero that it gives, a third of what mixing takes."""

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
"""What glibc calls the two in `malloc.h`."""


def tune_memory() -> None:
    """Set allocator and garbage collector for the rest of this process."""
    allocate_sparingly()
    collect_rarely()


def allocate_sparingly() -> None:
    """Has large blocks go back to the system one by one from now on.

    By itself the C library takes ever larger ones, up to 32 MB, from its heap once such were freed, and what small
    things stand behind them keeps them: a row group has columns of just that size, and a process that works through a
    long log grew by their remains.
    """
    _allocate(*_SPARINGLY)


@contextmanager
def keeping_freed() -> Iterator[None]:
    """A block in which freed memory is kept for what comes: for work whose size is bounded, again and again."""
    _allocate(*_KEEPING)
    try:
        yield
    finally:
        _allocate(*_SPARINGLY)


def _allocate(large: int, kept: int) -> None:
    if (tell := _of_libc("mallopt")) is not None:
        tell(_M_MMAP_THRESHOLD, large)
        tell(_M_TRIM_THRESHOLD, kept)


def collect_rarely() -> None:
    """Has the collector run rarely in this process from now on.

    What is loaded stays, and is some 100,000 objects: to look at them again and again takes a tenth of a small run, and
    as much again when the process ends, whose memory the system takes anyway.
    """
    gc.set_threshold(_ALLOCATIONS, *gc.get_threshold()[1:])
    atexit.register(gc.freeze)


@contextmanager
def rare_collections() -> Iterator[None]:
    """A block in which the collector runs rarely, and never over what existed before.

    A part makes objects fast enough that all modules, several 100,000 objects with Beam's, are otherwise looked at
    again and again: a quarter of the time of scrubbing. All is as before when the block ends.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def give_back_memory() -> None:
    """Gives what was freed back to the system: after a large part, allocators hold several hundred megabytes of it."""
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
