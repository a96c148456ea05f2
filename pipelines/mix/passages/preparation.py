"""Settings for preparing passages on any worker: components, folders, and names of units."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from trajmill.pipelines.mix.passages.passage import KEY_SCHEMA, passage_schema
from trajmill.pipelines.mix.passages.reading import component_files
from trajmill.pipelines.plan.recognition import Input, stamp_of
from trajmill.pipelines.recipe.passages import Passages
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.paths import Place
from trajmill.pipelines.storage.units import MANIFEST, read_manifest
from trajmill.schemas import SCHEMA_VERSION

STAGE: Final = "passages"
READ: Final = "passages_read"
REJECTS: Final = f"rejects/{STAGE}"
"""Folders of the stage, relative to the output folder: its parts, the results of reading, and the rejects."""

_VERSION: Final = 1
"""Version of reading. It is raised when equal rows are read otherwise than before."""


@dataclass(frozen=True, slots=True)
class PassageUnit:
    """A file of a component, which is the unit of work.

    Attributes:
        number: number among all units, by the order of components in the recipe, then by name.
        component: number of the component in the recipe.
        label: component and number within it.
        part: name of its part, relative to the stage's folder.
        uri: name of the file, relative to its root.
        stamp: size and time of change, by which changes between runs are found.
        fault: why it must not be opened; empty if it may be.
    """

    number: int
    component: int
    label: str
    part: str
    uri: str
    place: Place
    stamp: str
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Preparation:
    """Settings for preparing passages: picklable, the same for all units.

    Attributes:
        recipe: recipe for scrubbing, judging and counting.
        components: components of the kinds `text` and `messages`, in the recipe's order. Among duplicates, that of the
            first component stays.
        out: the output folder.
        benchmarks: digest of the index of benchmarks, which is among the measures; empty without benchmarks.
        models: names and digests of the files that the recipe names: tokenizer and models.
        only: files to read; None reads all.
        decided: folders of the stages of earlier runs, whose passages stay.
    """

    recipe: Recipe
    components: tuple[Passages, ...]
    out: Folder
    benchmarks: str = ""
    models: tuple[tuple[str, str], ...] = ()
    only: frozenset[Place] | None = None
    decided: tuple[Folder, ...] = ()

    @property
    def read(self) -> Folder:
        """Folder of the results of reading, a few files per unit."""
        return self.out / READ

    @property
    def parts(self) -> Folder:
        """Folder of the parts, by component."""
        return self.out / STAGE

    @property
    def rejects(self) -> Folder:
        """Folder of the rejects."""
        return self.out / REJECTS

    @property
    def measures(self) -> Folder:
        """Folder of the index of benchmarks."""
        return self.out / "measures"

    @property
    def simulated(self) -> bool:
        """True if rows that a world model answered are accepted."""
        return self.recipe.judge.simulated == "allow"

    def schema(self, unit: PassageUnit) -> pa.Schema:
        """Return the columns of a unit's part."""
        return passage_schema(self.components[unit.component].kind, simulated=self.simulated)

    def units(self) -> list[PassageUnit]:
        """List every file of every component, as far as it is to be read.

        Raises:
            ConfigError: a component's path names nothing.
        """
        units: list[PassageUnit] = []
        for number, component in enumerate(self.components):
            files = [
                raw_file for raw_file in component_files(component) if self.only is None or raw_file.place in self.only
            ]
            for index, file in enumerate(files):
                label, part = f"{component.name}-{index:05d}", f"{component.name}/part-{index:05d}.parquet"
                stamp = f"{file.bytes}:{file.changed}"
                unit = PassageUnit(len(units), number, label, part, file.name, file.place, stamp, file.fault)
                units.append(unit)
        return units

    def unit_digest(self, unit: PassageUnit) -> str:
        """Digest everything that the reading of a unit depends on."""
        judge, normalize = self.recipe.judge, self.recipe.normalize
        component = self.components[unit.component].model_dump(mode="json", exclude={"path"})
        read = [normalize.scrub, normalize.scrub_salt, normalize.max_member_bytes, judge.tokenizer, self.models]
        measured = [self.benchmarks, *(["simulated"] if self.simulated else [])]
        schemas = [self.schema(unit).names, KEY_SCHEMA.names, SCHEMA_VERSION]
        return _digest([_VERSION, component, unit.label, unit.uri, unit.stamp, unit.fault, read, measured, schemas])

    def digest(self, read: Iterable[str]) -> str:
        """Digest everything that parts depend on: the results of reading all units, and the settings of decisions."""
        names = [component.name for component in self.components]
        contamination = self.recipe.judge.contamination.model_dump(mode="json")
        return _digest([_VERSION, names, contamination, self.benchmarks, *read])


@dataclass(frozen=True, slots=True)
class Prepared(Preparation):
    """Settings of a finished stage. Its units are the stored parts, whatever the original files are."""

    def units(self) -> list[PassageUnit]:
        """List the parts that the manifest of the stage names."""
        names = [component.name for component in self.components]
        parts = sorted((names.index(part.partition("/")[0]), part) for part in part_names(self.parts))
        return [
            PassageUnit(number, component, label_of(part), part, part, Place(""), "")
            for number, (component, part) in enumerate(parts)
        ]


def part_names(stage: Folder) -> list[str]:
    """Return the parts of a finished stage of passages, sorted; empty if there is no such stage."""
    sealed = read_manifest(stage, MANIFEST)
    return [] if sealed is None else [file.name for file in sealed.files]


def label_of(part: str) -> str:
    """Return the label of a part's unit."""
    component, _, name = part.partition("/")
    return f"{component}-{name.removeprefix('part-').removesuffix('.parquet')}"


def passage_inputs(components: Sequence[Passages]) -> list[Input]:
    """List the files of components as inputs, so that a later generation knows them.

    Raises:
        ConfigError: a component's path names nothing.
    """
    return [
        Input(
            file.name,
            f"{STAGE}/{component.name}",
            str(_VERSION),
            "",
            {"": file.place},
            file.bytes,
            stamp_of({"": file}),
        )
        for component in components
        for file in component_files(component)
    ]


def _digest(values: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def read_file(label: str, kind: str = "") -> str:
    """Return the name of a file with results of reading a unit.

    Args:
        kind: empty for the payload, in the columns of the unit's part; `keys` for the keys of passages (`KEY_SCHEMA`);
            `benchmarks` for matches of benchmarks (`MATCH_SCHEMA`); `rejects` for rows that could not be read or were
            not wanted.
    """
    return f"{label}.{kind}.parquet" if kind else f"{label}.parquet"
