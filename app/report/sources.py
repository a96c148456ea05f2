"""Files of an output folder that a report reads: a fixed number of each kind, drawn by the hash of their names.

So a report costs the same for a corpus of any size. Totals come from manifests and records. All files are read through
`Folder`, local or remote.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from trajmill.pipelines.generations.generations import stage_folders
from trajmill.pipelines.storage.folders import MADE_AGAIN, Folder
from trajmill.pipelines.storage.ownership import RUN
from trajmill.pipelines.storage.units import MANIFEST, read_manifest
from trajmill.schemas import ConfigError, ShardError
from trajmill.schemas.manifest import Manifest

FILES: Final = 4
"""Most files of a kind and a domain."""

_BYTES: Final = 48 << 20
"""Most bytes of a kind and a domain, unless the first file alone is larger."""


_RANKED: Final = 4096
"""Most rows of a row group from which some are drawn."""


def _hash(text: str) -> int:
    return xxhash.xxh64_intdigest(text.encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, slots=True)
class UnitFiles:
    """Unit of a stage's work.

    Attributes:
        lead: Folder of the generation; empty, or with a slash at its end.
        file: File name in the folder of the domain.
    """

    lead: str
    domain: str
    file: str

    def of(self, stage: str) -> str:
        """Return the name of its file for a stage with a folder for each domain."""
        return f"{self.lead}{stage}/{self.domain}/{self.file}"


class Sources:
    """Files of an output folder.

    Raises:
        ConfigError: The folder holds no run.
    """

    def __init__(self, out: str) -> None:
        self.folder = Folder.named(out)
        self._sizes = {} if self.folder.is_local else self.folder.sizes()  # one listing; here each would be asked for
        self.names = frozenset(self._sizes or self.folder.names())
        self.leads = [f"{folder.url}/".removeprefix(f"{self.folder.url}/") for folder in stage_folders(self.folder)]
        if not any(name.startswith("transitions/") for name in self.names):
            raise ConfigError(f"{out} holds no transitions: wanted a run's folder.")

    def below(self, folder: str, suffix: str = ".parquet") -> list[str]:
        """Return the files in a folder, sorted."""
        return sorted(name for name in self.names if name.startswith(f"{folder}/") and name.endswith(suffix))

    @cached_property
    def all_units(self) -> list[UnitFiles]:
        """Every unit, by generation, domain and name."""
        units = []
        for lead in self.leads:
            stage = f"{lead}transitions"
            parts = (name.removeprefix(f"{stage}/").partition("/") for name in self.below(stage))
            units += [UnitFiles(lead, domain, file) for domain, _, file in parts if file]
        return units

    @cached_property
    def units(self) -> list[UnitFiles]:
        """Units whose files are sampled."""
        by_domain: dict[str, list[str]] = {}
        for unit in self.all_units:
            by_domain.setdefault(unit.domain, []).append(unit.of("transitions"))
        drawn = {name for names in by_domain.values() for name in self.drawn(names)}
        return [unit for unit in self.all_units if unit.of("transitions") in drawn]

    @cached_property
    def rejects(self) -> list[tuple[str, str]]:
        """(name, stage) of the sampled reject files."""
        groups: dict[str, list[str]] = {}
        for lead in self.leads:
            for name in self.below(f"{lead}rejects"):
                stage, _, file = name.removeprefix(f"{lead}rejects/").partition("/")
                groups.setdefault(f"{stage} {file.partition('-part-')[0]}", []).append(name)
        return [(name, key.partition(" ")[0]) for key, names in sorted(groups.items()) for name in self.drawn(names)]

    def shards(self) -> Iterator[tuple[str, str, str]]:
        """Yield (pool, domain, name) of one file of samples for each pool and domain."""
        groups: dict[tuple[str, str], list[str]] = {}
        for name in self.below("shards"):
            _, pool, *rest = name.split("/")
            if len(rest) == 2:
                groups.setdefault((pool, rest[0]), []).append(name)
        for (pool, domain), names in sorted(groups.items()):
            yield pool, domain, self.drawn(names)[0]

    def size(self, name: str) -> int:
        """Return the bytes of a file."""
        return self._sizes[name] if self._sizes else self.folder.size(name)

    def drawn(self, names: Iterable[str]) -> list[str]:
        """Sample a few of the files, sorted."""
        chosen, total = list[str](), 0
        for name in sorted(names, key=lambda name: (_hash(name), name))[:FILES]:
            total += self.size(name)
            if not chosen or total <= _BYTES:
                chosen.append(name)
        return sorted(chosen)

    @contextmanager
    def _opened(self, name: str) -> Iterator[pq.ParquetFile]:
        """Open a file of rows."""
        try:
            with self.folder.open(name) as stream:
                yield pq.ParquetFile(stream)
        except (pa.ArrowException, OSError) as error:
            raise ShardError(f"{self.folder.path(name)} cannot be read: {error}. {MADE_AGAIN}.") from error

    def table(self, name: str, columns: Sequence[str]) -> pa.Table:
        """Read those of the columns that the file has."""
        with self._opened(name) as file:
            there = set(file.schema_arrow.names)
            return file.read([column for column in columns if column in there], use_threads=False)

    def some_rows(self, name: str, most: int) -> list[int]:
        """Return the sorted numbers of some rows of a file, all of one row group, drawn by hash."""
        with self._opened(name) as file:
            metadata = file.metadata
        sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        if not any(sizes):
            return []
        group = _hash(f"{name} group") % len(sizes)
        numbers = sorted(range(min(sizes[group], _RANKED)), key=lambda number: _hash(f"{name} row {number}"))
        return sorted(sum(sizes[:group]) + number for number in numbers[:most])

    def rows(self, name: str, wanted: Iterable[int], columns: Sequence[str] | None = None) -> dict[int, dict[str, Any]]:
        """Return rows of a file by their number; only their row groups are read."""
        numbers, by_number, begin = sorted(set(wanted)), dict[int, dict[str, Any]](), 0
        with self._opened(name) as file:
            for group in range(file.num_row_groups):
                size = file.metadata.row_group(group).num_rows
                mine = [number - begin for number in numbers if begin <= number < begin + size]
                if mine:
                    values = file.read_row_group(group, columns).take(mine).to_pylist()
                    by_number |= {begin + number: row for number, row in zip(mine, values, strict=True)}
                begin += size
        return by_number

    def manifest(self, stage: str) -> Manifest | None:
        """Return the manifest of a stage's folder, by the folder's name."""
        return read_manifest(self.folder, f"{stage}/{MANIFEST}")

    @cached_property
    def records(self) -> list[Mapping[str, Any]]:
        """Run records of the generations, as far as they can be read."""
        return [record for lead in self.leads if (record := self._record(f"{lead}{RUN}"))]

    def _record(self, name: str) -> Mapping[str, Any]:
        try:
            record = json.loads(self.folder.found(name) or b"{}")
        except ValueError:
            return {}
        return record if isinstance(record, dict) else {}

    @property
    def recipe(self) -> Mapping[str, Any]:
        """Recipe of the last run; empty if no record holds it."""
        recipe = self.records[-1].get("recipe") if self.records else None
        return recipe if isinstance(recipe, dict) else {}
