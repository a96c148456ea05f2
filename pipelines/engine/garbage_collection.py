"""Python's garbage collector in processes of ours, whose objects live long or hold no cycles.

Records hold no cycles, so reference counting frees nearly all that a part makes. It changes no result.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_ALLOCATIONS: Final = 50_000
"""New containers, beyond those freed, after which the collector looks at them; Python's default is 700."""


def collect_rarely() -> None:
    """Has the collector run rarely in this process from now on.

    What is loaded stays, and is some 100,000 objects: to look at them again and again takes a tenth of a small run.
    """
    gc.set_threshold(_ALLOCATIONS, *gc.get_threshold()[1:])


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
