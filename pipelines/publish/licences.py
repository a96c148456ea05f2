"""Licences of a dataset: those of its samples, as rows state them, and their names on the Hub.

A row states its licence as an SPDX id or expression, from the recipe, its log or the card of its data set. That text
comes from others and is not trusted. If the footers of all source files show a single licence, no row is read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash

from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_table
from trajmill.pipelines.storage.units import MANIFEST, read_manifest
from trajmill.schemas import ShardError
from trajmill.schemas.manifest import FileEntry

UNSTATED: Final = ""
"""Licence of rows that state none."""

COUNTED: Final = "licences."
"""Prefix of a licence in the counts of a dataset's manifest, which hold the number of samples with it."""

UNKNOWN: Final = "unknown"
"""Name in a card and a manifest for the licence of rows that state none."""

OTHER: Final = "other"
_SOURCES: Final = (("transitions", "provenance.licence", "trajectory_id"), ("passages", "licence", "id"))
"""Source folders of samples, with the column of a row's licence and the column by which samples refer to the row."""

_SPDX_ON_HUB: Final = frozenset(
    (
        *("apache-2.0", "mit", "afl-3.0", "artistic-2.0", "bsl-1.0", "bsd-2-clause", "bsd-3-clause"),
        *("bsd-3-clause-clear", "cc0-1.0", "cc-by-2.0", "cc-by-2.5", "cc-by-3.0", "cc-by-4.0", "cc-by-sa-3.0"),
        *("cc-by-sa-4.0", "cc-by-nc-2.0", "cc-by-nc-3.0", "cc-by-nc-4.0", "cc-by-nd-4.0", "cc-by-nc-nd-3.0"),
        *("cc-by-nc-nd-4.0", "cc-by-nc-sa-2.0", "cc-by-nc-sa-3.0", "cc-by-nc-sa-4.0", "cdla-sharing-1.0"),
        *("cdla-permissive-1.0", "cdla-permissive-2.0", "wtfpl", "ecl-2.0", "epl-1.0", "epl-2.0", "etalab-2.0"),
        *("eupl-1.1", "eupl-1.2", "isc", "lppl-1.3c", "ms-pl", "mpl-2.0", "osl-3.0", "postgresql", "ofl-1.1", "ncsa"),
        *("unlicense", "zlib"),
    )
)
"""SPDX ids that the Hub also has, in its lower case."""

_AS_ON_HUB: Final = {
    "odc-by-1.0": "odc-by",
    "odbl-1.0": "odbl",
    "pddl-1.0": "pddl",
    **{
        f"{name}-{version}-{kind}": f"{name}-{version}"
        for name, version in (("gpl", "2.0"), ("gpl", "3.0"), ("lgpl", "2.1"), ("lgpl", "3.0"), ("agpl", "3.0"))
        for kind in ("only", "or-later")
    },
    **{f"gfdl-{version}-{kind}": "gfdl" for version in ("1.1", "1.2", "1.3") for kind in ("only", "or-later")},
}
"""SPDX ids with another name on the Hub."""

_JOINED: Final = re.compile(r"\s+(?:AND|OR)\s+")
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]{0,63}")


def on_hub(licences: Iterable[str]) -> dict[str, Any]:
    """Return the values `license`, and `license_name` and `license_link` if needed, of a card's head.

    One licence is a text, several are a list. A licence without a name on the Hub is `other`, with its own name beside
    it and, if it can be an SPDX id, the URL of its text.

    Args:
        licences: SPDX ids or expressions; `UNSTATED` becomes `unknown`.
    """
    named: dict[str, None] = {}
    other_ids: dict[str, None] = {}
    for licence in sorted(set(licences)):
        for licence_id in _JOINED.split(licence.replace("(", " ").replace(")", " ").strip()):
            known = _on_hub(licence_id)
            named[known] = None
            if known == OTHER:
                other_ids[licence_id] = None
    listed = [*(name for name in named if name != OTHER), *([OTHER] if other_ids else [])] or [UNKNOWN]
    values: dict[str, Any] = {"license": listed[0] if len(listed) == 1 else listed}
    if other_ids:
        names = [re.sub(r"[^a-z0-9.+-]+", "-", licence_id.lower()).strip("-")[:64] or OTHER for licence_id in other_ids]
        values["license_name"] = "-and-".join(names)
        only = next(iter(other_ids))
        if len(other_ids) == 1 and _ID.fullmatch(only) and not only.startswith("LicenseRef-"):
            values["license_link"] = f"https://spdx.org/licenses/{only}.html"
    return values


def _on_hub(licence: str) -> str:
    name = licence.lower()
    if not name or name == UNKNOWN:
        return UNKNOWN
    return name if name in _SPDX_ON_HUB else _AS_ON_HUB.get(name, OTHER)


def allowed_licences(recipe: Mapping[str, Any]) -> frozenset[str]:
    """Return the licences under which a recipe allows rows to be published.

    They are those in `card.licences`, or else those that the recipe states for logs and passages.

    Args:
        recipe: the recipe's values in a run's record.
    """
    stated = (recipe["licence"], *(component["licence"] for component in recipe["mix"]["passages"]))
    listed = recipe["card"].get("licences") or [licence for licence in stated if licence is not None]
    return frozenset(map(str, listed))


def licences_of(stages: Sequence[Folder], shards: Folder, files: Sequence[FileEntry], samples: int) -> dict[str, int]:
    """Count samples by licence; `UNSTATED` counts those of rows without one.

    A trajectory that was read under two licences counts for both, whichever of its copies was kept.

    Args:
        stages: folders of the stages, one per generation.
    """
    sources = list(_places(stages))
    single_licences = [_only(source) for source in sources]
    every = None if None in single_licences else set().union(*filter(None, single_licences))
    if every is not None and len(every) <= 1:
        return {(every or {UNSTATED}).pop(): samples} if samples else {}
    names: list[str] = []
    keys, numbers = _by_key(sources, names)
    counts: Counter[str] = Counter()
    for ids in _ids(shards, files):
        first, last = np.searchsorted(keys, ids), np.searchsorted(keys, ids, "right")
        times = last - first
        ends = np.cumsum(times)
        positions = np.arange(times.sum()) + np.repeat(first - ends + times, times)
        for number, count in zip(*np.unique(numbers[positions], return_counts=True), strict=True):
            counts[names[number]] += int(count)
        counts[UNSTATED] += int((times == 0).sum())
    return {name: count for name, count in sorted(counts.items()) if count}


class _Place(NamedTuple):
    """A source file of samples, with the columns of its licence and of its key."""

    folder: Folder
    file: FileEntry
    licence: str
    key: str


def _places(stages: Sequence[Folder]) -> Iterator[_Place]:
    for stage in stages:
        for name, column, key in _SOURCES:
            manifest = read_manifest(stage / name, MANIFEST)
            yield from (_Place(stage / name, file, column, key) for file in (manifest.files if manifest else ()))


def _only(source: _Place) -> set[str] | None:
    """Return the licences of a file if its footer shows that each row group has just one; else None."""
    licences: set[str] = set()
    with source.folder.open_pieces(source.file.name, source.file.bytes) as stream:
        try:
            metadata = pq.ParquetFile(stream).metadata
        except (OSError, pa.ArrowException) as error:
            raise ShardError(f"{source.folder.path(source.file.name)} is damaged: {error}") from error
    column_number = next(
        (i for i in range(metadata.num_columns) if metadata.schema.column(i).path == source.licence), -1
    )
    if column_number < 0:
        return None
    for group in range(metadata.num_row_groups):
        column = metadata.row_group(group).column(column_number)
        statistics = column.statistics
        if statistics is None or not statistics.has_null_count:
            return None
        if statistics.null_count == column.num_values:
            licences.add(UNSTATED)
        elif statistics.null_count == 0 and statistics.has_min_max and statistics.min == statistics.max:
            licences.add(str(statistics.min))
        else:
            return None
    return licences


def _by_key(sources: Sequence[_Place], names: list[str]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int32]]:
    """Return the keys of all source rows, ascending, with the number in `names` of each of their licences."""
    numbers: dict[str, int] = {}
    keys, licence_numbers = [np.zeros(0, np.uint64)], [np.zeros(0, np.int32)]
    for folder, file, column, key in sources:
        rows = read_table(folder, file.name, [key, column], file.bytes)
        licence = pc.struct_field(rows["provenance"], "licence") if "." in column else rows[column]
        licence_table = pa.table({"key": rows[key].cast(pa.string()), "licence": licence.cast(pa.string())})
        licence_table = licence_table.group_by(["key", "licence"]).aggregate([])
        stated = pc.fill_null(licence_table["licence"], UNSTATED).to_pylist()
        keys.append(_keys(licence_table["key"]))
        licence_numbers.append(np.array([numbers.setdefault(name, len(numbers)) for name in stated], np.int32))
    names += numbers
    every = np.concatenate(keys)
    pairs = np.zeros(len(every), [("key", "<u8"), ("licence", "<i4")])
    pairs["key"], pairs["licence"] = every, np.concatenate(licence_numbers)
    pairs = np.unique(pairs)
    return pairs["key"], pairs["licence"]


def _ids(shards: Folder, files: Sequence[FileEntry]) -> Iterator[npt.NDArray[np.uint64]]:
    """Yield the keys of the samples' trajectories, a file at a time."""
    for file in files:
        if file.name.endswith(".parquet"):
            column = "extra_info" if file.name.startswith("rl/") else "trajectory_id"
            rows = read_table(shards, file.name, [column])[column]
            yield _keys(pc.struct_field(rows, "trajectory_id") if column == "extra_info" else rows)


def _keys(names: pa.ChunkedArray) -> npt.NDArray[np.uint64]:
    return np.array([xxhash.xxh3_64_intdigest(name or "") for name in names.to_pylist()], np.uint64)
