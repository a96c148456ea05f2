"""The index of a run's trajectories while it is made: file by file, in a thread of its own.

Who needs all of it waits; who shows a list shows as much as is there, and how much that is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import polars as pl
import pyarrow as pa

from trajmill.app.pages.index import file_index, joined
from trajmill.app.pages.run_files import Judged
from trajmill.schemas import ShardError

DAMAGED: Final = (pa.ArrowException, pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
"""What reading a damaged file raises."""

PATIENCE_S: Final = 0.05
"""How long a page waits for the rest: a small run is shown whole at once."""


@dataclass(frozen=True, slots=True)
class SoFar:
    """What is there of an index.

    Attributes:
        index: of the files that are read; see `index.SCHEMA`.
        read: how many these are.
        files: how many there are.
        seconds: since reading began.
    """

    index: pl.DataFrame
    read: int
    files: int
    seconds: float

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing."""
        return self.read == self.files


class IndexReading:
    """The index of files of transitions, which is being made from the moment that this is.

    Args:
        files: as the index counts them.
        draws: tables of what was drawn (`RunFiles.draws`).
    """

    def __init__(self, files: Sequence[Judged], draws: Sequence[Path]) -> None:
        self._files, self._draws = files, draws
        self._parts: list[pl.DataFrame] = []
        self._fault: Exception | None = None
        self._told, self._begin = threading.Condition(), time.monotonic()
        self._thread = threading.Thread(target=self._read, name="index", daemon=True)
        self._thread.start()

    @cached_property
    def whole(self) -> pl.DataFrame:
        """All of it, once it is there.

        Raises:
            ShardError: a file is damaged, or of other transitions than the verdicts beside it.
            ConfigError: a file is of a version of the schema that is not known.
        """
        self._thread.join()
        self._raise_fault()
        return joined(self._parts, self._draws)

    def so_far(self, patience: float = PATIENCE_S) -> SoFar:
        """What is there after so many seconds, or sooner if it is all; at least one file's. Raises as `whole`."""
        until = time.monotonic() + patience
        with self._told:
            self._told.wait_for(lambda: self._parts or self._is_over)
            self._told.wait_for(lambda: self._is_over, until - time.monotonic())
            self._raise_fault()
            parts = list(self._parts)
        index = self.whole if len(parts) == len(self._files) else joined(parts, self._draws)
        return SoFar(index, len(parts), len(self._files), time.monotonic() - self._begin)

    @property
    def _is_over(self) -> bool:
        return self._fault is not None or len(self._parts) == len(self._files)

    def _raise_fault(self) -> None:
        if self._fault is not None:
            raise self._fault

    def _read(self) -> None:
        for number, file in enumerate(self._files):
            fault: Exception | None = None
            try:
                part = file_index(number, file)
            except DAMAGED as error:
                line = (str(error).splitlines() or [type(error).__name__])[0]
                fault = ShardError(f"{file.transitions} cannot be read: {line}")
            except Exception as error:  # noqa: BLE001 - who asks is told
                fault = error
            with self._told:
                self._fault = fault
                if fault is None:
                    self._parts.append(part)
                self._told.notify_all()
            if fault is not None:
                return
