"""What is looked at: a run's folder, opened whatever its size, or a raw log, read through its connector before any run.

Both answer alike, so that a page need not know which of them it shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import polars as pl

from pipelines.face.looking.index import by_key, trajectory_index
from pipelines.face.looking.raw_bytes import RawPlaces
from pipelines.face.looking.rejects import excerpt_of, reject_index
from pipelines.face.looking.run_files import Judged, RunFiles
from pipelines.face.looking.trajectory_rows import Rows, RunRows
from pipelines.face.looking.why import rules_of


class Contents(Protocol):
    """What pages ask for.

    Attributes:
        title: what is looked at, for a person.
        index: of trajectories; see `index.SCHEMA`.
        rows: where their rows are read.
        places: where raw bytes are read.
        rules: of the recipe, by name; empty for a raw log.
        files: of the run; None for a raw log.
        notes: what a person should know of it, such as that only its beginning is shown.
        rejects: what was not carried on; see `rejects.COLUMNS`.
        searchable: files of transitions, in which texts are looked for.
    """

    title: str
    index: pl.DataFrame
    rows: Rows
    places: RawPlaces
    rules: Mapping[str, Mapping[str, Any]]
    files: RunFiles | None
    notes: tuple[str, ...]
    rejects: pl.DataFrame
    searchable: Sequence[Judged]

    def trajectory(self, key: str) -> dict[str, Any] | None:
        """The row of the index with that key; None if there is none."""
        ...

    def excerpt(self, reject: Mapping[str, Any]) -> str:
        """The excerpt of a reject."""
        ...

    def attachment(self, sha256: str) -> bytes | None:
        """The bytes of an attachment, by a digest that a row names; None if they were not kept."""
        ...


@dataclass
class RunContents:
    """A run's folder; see `Contents`. It is read when it is asked, but for the index, which is made at once.

    Args:
        out: the folder.

    Raises:
        ConfigError: it holds no run.
        ShardError: a file of it is damaged.
    """

    out: str
    title: str = field(init=False)
    index: pl.DataFrame = field(init=False)
    rows: Rows = field(init=False)
    places: RawPlaces = field(init=False)
    rules: Mapping[str, Mapping[str, Any]] = field(init=False)
    files: RunFiles | None = field(init=False)
    notes: tuple[str, ...] = ()
    rejects: pl.DataFrame = field(init=False)
    searchable: Sequence[Judged] = field(init=False)

    def __post_init__(self) -> None:
        self.files = self._run = RunFiles(self.out)
        self.title = self._run.root.name or str(self._run.root)
        self.index = trajectory_index(self._run.judged, self._run.draws)
        self._by_key = by_key(self.index)
        self.rejects = reject_index(self._run.rejects)
        self.searchable = self._run.judged
        self.rows = RunRows(self._run.judged)
        self.places = RawPlaces(self._run.plans)
        self.rules = rules_of(self._run.recipe)

    def trajectory(self, key: str) -> dict[str, Any] | None:
        """See `Contents`."""
        place = self._by_key.get(key)
        return self.index.row(place, named=True) if place is not None else None

    def excerpt(self, reject: Mapping[str, Any]) -> str:
        """See `Contents`."""
        return excerpt_of(self._run.rejects, reject)

    def attachment(self, sha256: str) -> bytes | None:
        """See `Contents`."""
        found = self._run.blob(sha256)
        return found.read_bytes() if found is not None else None
