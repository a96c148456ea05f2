"""Contents of the viewer: a run's folder of any size, or a raw log, read through its connector before any run.

Both have the same interface, so that a page need not distinguish them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

import polars as pl

from trajmill.app.pages.index import PATIENCE_S, IndexReading, SoFar
from trajmill.app.pages.raw_bytes import RawPlaces
from trajmill.app.pages.rejects import excerpt_of, reject_index
from trajmill.app.pages.run_files import Judged, RunFiles
from trajmill.app.pages.trajectory_rows import Rows
from trajmill.app.pages.why import rules_of


class Contents(Protocol):
    """Interface that pages read from.

    Attributes:
        index: Index of trajectories; see `index.SCHEMA`.
        places: Reader of raw bytes.
        rules: Rules of the recipe, by name; empty for a raw log.
        files: Files of the run; None for a raw log.
        notes: Notes for a person, such as that only the beginning is shown.
        rejects: Rejects; see `rejects.COLUMNS`.
        searchable: Files of transitions in which texts can be searched.
    """

    title: str
    rows: Rows
    places: RawPlaces
    rules: Mapping[str, Mapping[str, Any]]
    files: RunFiles | None
    notes: tuple[str, ...]
    searchable: Sequence[Judged]

    @property
    def index(self) -> pl.DataFrame: ...

    @property
    def rejects(self) -> pl.DataFrame: ...

    def so_far(self, patience: float = PATIENCE_S) -> SoFar:
        """Return the index as far as it is read after so many seconds; for a run, at least its first file."""
        ...

    @cached_property
    def _by_key(self) -> dict[str, int]:
        return {key: number for number, key in enumerate(self.index["key"])}

    def trajectory(self, key: str) -> dict[str, Any] | None:
        """Return the row of the index with that key; None if there is none."""
        row_number = self._by_key.get(key)
        return self.index.row(row_number, named=True) if row_number is not None else None

    def excerpt(self, reject: Mapping[str, Any]) -> str:
        """Return the excerpt of a reject."""
        ...

    def attachment(self, sha256: str) -> bytes | None:
        """Return the bytes of an attachment by the digest in a row; None if they were not kept."""
        ...


class RunContents(Contents):
    """A run's folder. Reading of its index starts at once, and access waits for it.

    Raises:
        ConfigError: The folder holds no run.
    """

    def __init__(self, out: str) -> None:
        self._run = RunFiles(out)
        self._reading = IndexReading(self._run.judged, self._run.draws)
        self.files = self._run
        self.title = self._run.root.name or str(self._run.root)
        self.searchable = self._run.judged
        self.rows = Rows(self._run.judged)
        self.places = RawPlaces(self._run.plans)
        self.rules = rules_of(self._run.recipe)
        self.notes = ()

    @property
    def index(self) -> pl.DataFrame:
        """See the base class.

        Raises:
            ShardError: A file is damaged.
        """
        return self._reading.whole

    def so_far(self, patience: float = PATIENCE_S) -> SoFar:
        """See the base class; raises as `index`."""
        return self._reading.so_far(patience)

    @cached_property
    def rejects(self) -> pl.DataFrame:
        return reject_index(self._run.rejects)

    def excerpt(self, reject: Mapping[str, Any]) -> str:
        return excerpt_of(self._run.rejects, reject)

    def attachment(self, sha256: str) -> bytes | None:
        file = self._run.blob(sha256)
        return file.read_bytes() if file is not None else None
