"""A small file that names the inputs which a process is reading, so that it is known what it died over.

A lock holds the file as long as the process works. It lies in the output folder under the name of an unfinished file,
which a killed run leaves to the next one; where that folder is in a store, in the user's cache.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from trajmill.pipelines.execution.server_process import cache_folder
from trajmill.pipelines.storage.folders import Folder, is_unfinished, unfinished_name

_NAME: Final = "inputs-at-hand"


def at_hand_folder(out: Folder) -> Path:
    """Where the files of an output folder lie."""
    if out.is_local:
        return Path(out.path())
    return cache_folder() / "at-hand" / hashlib.sha256(out.url.encode()).hexdigest()[:16]


class InputAtHand:
    """The file of this process, while it normalizes a part.

    Args:
        folder: where it lies; None writes none.
    """

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else folder / unfinished_name(_NAME)
        self._file = -1

    def __enter__(self) -> Self:
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
            with suppress(OSError):  # file systems of a network may lock no files
                fcntl.flock(self._file, fcntl.LOCK_EX)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._file)

    def note(self, *uris: str) -> None:
        """Name the inputs that are worked on from now on."""
        if self._path is not None:
            data = json.dumps(uris).encode()
            os.pwrite(self._file, data, 0)
            os.ftruncate(self._file, len(data))


def take_dead(folder: Path) -> list[tuple[str, ...]]:
    """Return the uris that each dead process was working on, and remove their files."""
    found = []
    for path in sorted(one for one in folder.glob(f".*-{_NAME}") if is_unfinished(one.name)):
        with suppress(OSError, ValueError), path.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found.append(tuple(map(str, json.load(stream))))
            path.unlink()
    return [uris for uris in found if uris]
