"""Inputs that end the process that reads them, as by a crash in a library.

Such an input costs only itself, not the run.

A process names the input that it is reading in a small file, on which it holds a lock as long as it works. The input of
a dead process is tried once more, alone, in a separate process. If that dies too, or if the input is being read at a
second death, it becomes a reject.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from trajmill.pipelines.execution.pool import WorkerDiedError, died_alone
from trajmill.pipelines.execution.server_process import cache_folder
from trajmill.pipelines.storage.folders import Folder, is_unfinished, make_unfinished_name

WORKER_DIED: Final = "worker_died"
"""Reason of the reject."""

_ALONE: Final = "reading it ended its process with {}, and again when it was read alone"
_TWICE: Final = "reading it among others ended two processes, the second with {}"
_NAME: Final = "inputs-at-hand"

Result = TypeVar("Result")


def at_hand_folder(out: Folder) -> Path:
    """Return the folder of the files that name the inputs being read, for runs into an output folder.

    It is the output folder, where a killed run leaves them to the next one under the names of unfinished files; if that
    is in a store, it is a folder in the user's cache.
    """
    if out.is_local:
        return Path(out.path())
    return cache_folder() / "at-hand" / hashlib.sha256(out.url.encode()).hexdigest()[:16]


class InputAtHand:
    """File in which a process names the inputs that it reads.

    Args:
        folder: folder of the file; None writes none.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder, self._file = folder, -1
        self._path = Path() if folder is None else folder / make_unfinished_name(_NAME)
        self._made: list[Path] = []

    def __reduce__(self) -> tuple[type[InputAtHand], tuple[Path | None]]:
        return InputAtHand, (self._folder,)

    def __enter__(self) -> Self:
        if self._folder is not None:
            self._made = [folder for folder in (self._folder, *self._folder.parents) if not folder.exists()]
            self._folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
            with suppress(OSError):  # file systems of a network may lock no files
                fcntl.flock(self._file, fcntl.LOCK_EX)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self._folder is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = -1
            with suppress(OSError):  # others may have written there
                for folder in self._made:
                    folder.rmdir()

    def note(self, *uris: str) -> None:
        """Name the inputs that are read from now on."""
        if self._file >= 0:
            data = json.dumps(uris).encode()
            os.pwrite(self._file, data, 0)
            os.ftruncate(self._file, len(data))


def take_dead(folder: Path) -> list[tuple[str, ...]]:
    """Return the uris that each dead process was reading, and remove their files."""
    uris_of_processes = []
    for path in sorted(file for file in folder.glob(f".*-{_NAME}") if is_unfinished(file.name)):
        with suppress(OSError, ValueError), path.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            uris_of_processes.append(tuple(map(str, json.load(stream))))
            path.unlink()
    return [uris for uris in uris_of_processes if uris]


@dataclass(frozen=True, slots=True)
class Deaths:
    """Deaths of a run's processes, and of those that an earlier run left behind.

    Attributes:
        folder: folder of the files that name inputs being read; None if none are written.
        earlier: for each process of an earlier run, the uris over which it died.
    """

    folder: Path | None = None
    earlier: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def left_in(cls, out: Folder) -> Deaths:
        """Collect the deaths of earlier runs into an output folder."""
        folder = at_hand_folder(out)
        return cls(folder, tuple(take_dead(folder)))

    def survive(
        self,
        work: Callable[[Mapping[str, str], bool], Result],
        read_alone: Callable[[str], Callable[[], object] | None],
    ) -> Result:
        """Do work until no process dies over it.

        Args:
            work: function that is called with the inputs that it must not read, uri → detail, and a flag that tells
                whether it must not read any in this process.
            read_alone: function that returns a picklable reader of a single input; None if there is no input of that
                uri.

        Raises:
            WorkerDiedError: a process died that was reading no input, or died again over several.
        """
        deadly: dict[str, str] = {}
        suspects: set[tuple[str, ...]] = set()
        died, ending = list(self.earlier), ""
        while True:
            for uris in died:
                for uri in uris:
                    read = read_alone(uri)
                    if read is not None and (alone := died_alone(_call, read)):
                        deadly[uri] = _ALONE.format(alone)
                if deadly.keys().isdisjoint(uris) and uris in suspects:
                    if len(uris) > 1:
                        raise WorkerDiedError(ending)
                    deadly[uris[0]] = _TWICE.format(ending)
                suspects.add(uris)
            try:
                return work(deadly, bool(suspects))
            except WorkerDiedError as error:
                ending = error.ending
                died = take_dead(self.folder) if self.folder is not None else []
                if not died:
                    raise


def _call(function: Callable[[], Any]) -> None:
    with suppress(Exception):  # whatever else comes of it
        function()
