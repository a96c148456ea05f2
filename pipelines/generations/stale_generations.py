"""Generations that were begun and never committed: what killed runs left of them goes.

On this machine a lock tells that nobody works there. In a store the marker of a generation's folder is its lease: who
works there writes it, and all else, again and again, and once more right before the commit. What nobody has written to
for a day is taken over by that marker, under the version that was seen, and then removed; what is younger stays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from secrets import token_hex
from typing import Final

from trajmill.pipelines.generations.generations import GENERATIONS
from trajmill.pipelines.storage.folders import MARKER, Folder, OvertakenError
from trajmill.pipelines.storage.object_store import Listed

LEASE: Final = timedelta(days=1)
_FOLDER: Final = re.compile(r"([0-9a-f]{16})/(.+)", re.DOTALL)
_AT_ONCE: Final = 64
"""Files that are removed before it is looked whether another run began there since."""


def clear_abandoned(out: Folder, kept: Iterable[str], lease: timedelta | None = None) -> tuple[str, ...]:
    """Removes what nobody committed and nobody works on, and returns what may still be worked on.

    Args:
        out: the output folder; one on this machine is locked by the caller, and its marker in a store was just written.
        kept: folders of generations, relative to it, that are committed or that the caller works on.
        lease: how long nobody may have written to what is removed; `LEASE` by default.
    """
    held = {name.removeprefix(f"{GENERATIONS}/") for name in kept}
    if out.is_local:
        for name in (out / GENERATIONS).names(unfinished=True):
            found = _FOLDER.fullmatch(name)
            if found and found[1] not in held:
                out.remove(f"{GENERATIONS}/{name}")
        return ()
    begun: dict[str, dict[str, Listed]] = {}
    for name, one in (out / GENERATIONS).listed().items():
        found = _FOLDER.fullmatch(name)
        if found and found[1] not in held:
            begun.setdefault(found[1], {})[found[2]] = one
    if not begun:
        return ()
    told = out.told(MARKER)
    now = told.written if told is not None else None
    last = None if now is None else now - (LEASE if lease is None else lease)
    left = [name for name, files in sorted(begun.items()) if not _removed(out / GENERATIONS / name, files, last)]
    return tuple(f"{GENERATIONS}/{name}" for name in left)


def _removed(folder: Folder, files: Mapping[str, Listed], last: datetime | None) -> bool:
    """Whether nobody wrote into a folder after a time of the store's own clock, and all is gone."""
    written = [one.written for one in files.values()]
    if last is None or any(one is None or one > last for one in written):
        return False
    marker, seen = folder.latest(MARKER)
    if seen != (files[MARKER].version if MARKER in files else ""):
        return False
    taken = json.loads(marker or b"{}") | {"token": token_hex(16)}  # it names the files still: a kill may come
    with suppress(OvertakenError):
        mine = folder.write_over(MARKER, json.dumps(taken).encode(), seen)
        for number, name in enumerate(sorted(files.keys() - {MARKER})):
            if number % _AT_ONCE == 0 and folder.version(MARKER) != mine:
                return False
            folder.remove(name)
        folder.remove(MARKER)
        return True
    return False
