"""Which trajectories are to be forgotten: by source, by id, by licence, or by when they began."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from difflib import get_close_matches
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_table
from trajmill.schemas import ConfigError

_COLUMNS = ("trajectory_id", "step", "source", "started_at", "provenance.uri", "provenance.licence")
_COMPARED: Final = 20_000
"""Names with which one that is not there is compared, the shortest first."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What is to be forgotten: whatever any of these says.

    Attributes:
        sources: names of corpora as rows have them, logs by uri, or folders of logs.
        trajectories: ids.
        licences: as rows have them.
        before: the day (UTC) before which trajectories began; those that do not tell when they began are left.
    """

    sources: tuple[str, ...] = ()
    trajectories: tuple[str, ...] = ()
    licences: tuple[str, ...] = ()
    before: date | None = None

    def __post_init__(self) -> None:
        if not (self.sources or self.trajectories or self.licences or self.before):
            raise ConfigError(
                "Nothing is named to be forgotten: --source, --trajectory, --licence or --before is wanted."
            )

    def selected(self, rows: pa.Table) -> list[bool]:
        """Of each row of first steps whether its trajectory is selected."""
        return [self._is_selected(row) for row in rows.to_pylist()]

    def _is_selected(self, row: dict[str, object]) -> bool:
        provenance = row["provenance"]
        assert isinstance(provenance, dict)
        uri, licence, begun = provenance["uri"] or "", provenance["licence"], row["started_at"]
        if row["trajectory_id"] in self.trajectories or (licence is not None and licence in self.licences):
            return True
        if any(row["source"] == one or uri == one or uri.startswith(one.rstrip("/") + "/") for one in self.sources):
            return True
        if self.before is None or not isinstance(begun, datetime):
            return False
        return begun.replace(tzinfo=begun.tzinfo or UTC) < datetime(*self.before.timetuple()[:3], tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Found:
    """What was selected.

    Attributes:
        ids: of trajectories.
        uris: of logs of which nothing else is left.
    """

    ids: frozenset[str]
    uris: frozenset[str]


def found(selection: Selection, folders: list[Folder]) -> Found:
    """What a selection is of the transitions in these folders; copies of a selected trajectory are selected too."""
    tables = [first for folder in folders for first in _firsts(folder)]
    ids = {
        row
        for table in tables
        for row, chosen in zip(table["trajectory_id"].to_pylist(), selection.selected(table), strict=True)
        if chosen
    }
    gone, left = set[str](), set[str]()
    for table in tables:
        uris = pc.struct_field(table["provenance"].combine_chunks(), "uri").to_pylist()
        for one, uri in zip(table["trajectory_id"].to_pylist(), uris, strict=True):
            (gone if one in ids else left).add(uri)
    return Found(frozenset(ids), frozenset(gone - left))


def nearest(selection: Selection, folders: list[Folder]) -> str | None:
    """Of what is in these folders the name most like one that was selected, for who wrote it amiss; None if none is."""
    names: dict[str, set[str]] = {"sources": set(), "trajectories": set(), "licences": set()}
    for table in (first for folder in folders for first in _firsts(folder)):
        places = table["provenance"].combine_chunks()
        uris = set(pc.struct_field(places, "uri").to_pylist())
        folders_of = {uri[:end] for uri in uris for end, letter in enumerate(uri) if letter == "/"}
        names["sources"] |= {*table["source"].to_pylist(), *folders_of, *uris}
        names["trajectories"] |= set(table["trajectory_id"].to_pylist())
        names["licences"] |= {one for one in pc.struct_field(places, "licence").to_pylist() if one}
    for kind, there in names.items():
        for name in getattr(selection, kind):
            close = get_close_matches(name, sorted(there, key=lambda one: (len(one), one))[:_COMPARED], 1)
            if close:
                return close[0]
    return None


def _firsts(transitions: Folder) -> Iterator[pa.Table]:
    for name in transitions.names(".parquet"):
        table = read_table(transitions, name, _COLUMNS)
        yield table.filter(pc.equal(table["step"], 0)).combine_chunks()
