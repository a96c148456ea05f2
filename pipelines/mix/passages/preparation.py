"""Settings for preparing passages, on whichever worker: components, folders, and names of units."""

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
"""Folders of the stage, relative to the output folder: its parts, what was read for them, and what was not kept."""

_VERSION: Final = 1
"""Raised when equal rows are read otherwise than before."""


@dataclass(frozen=True, slots=True)
class PassageUnit:
    """A file of a component: the unit of work.

    Attributes:
        number: among all units, by the order of components in the recipe, then by name.
        component: number of the component in the recipe.
        label: component and number within it.
        part: name of the part that is made of it, relative to the stage's folder.
        uri: the file, relative to its root.
        place: where its bytes lie.
        stamp: size and time of change, to notice that it changed between runs.
        fault: why it is not to be opened; empty if it is.
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
        recipe: by which they are scrubbed, judged and counted.
        components: of the kinds `text` and `messages`, in the recipe's order: of duplicates that of the first stays.
        out: the output folder.
        benchmarks: digest of the index of benchmarks, which lies among the measures; empty without benchmarks.
        models: names and digests of the files that the recipe names: tokenizer and models.
        only: files that are read; None reads all that there are.
        decided: where the stages of earlier runs lie, whose passages stay.
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
        """Of what was read, a few files a unit."""
        return self.out / READ

    @property
    def parts(self) -> Folder:
        """Of the parts, by component."""
        return self.out / STAGE

    @property
    def rejects(self) -> Folder:
        """Of what was not kept."""
        return self.out / REJECTS

    @property
    def measures(self) -> Folder:
        """Folder of the index of benchmarks."""
        return self.out / "measures"

    @property
    def simulated(self) -> bool:
        """True if rows that a world model answered are passages."""
        return self.recipe.judge.simulated == "allow"

    def schema(self, unit: PassageUnit) -> pa.Schema:
        """The columns of a unit's part."""
        return passage_schema(self.components[unit.component].kind, simulated=self.simulated)

    def units(self) -> list[PassageUnit]:
        """List every file of every component, as far as it is read.

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
        """Of everything that what is read of a unit depends on."""
        judge, normalize = self.recipe.judge, self.recipe.normalize
        component = self.components[unit.component].model_dump(mode="json", exclude={"path"})
        read = [normalize.scrub, normalize.scrub_salt, normalize.max_member_bytes, judge.tokenizer, self.models]
        measured = [self.benchmarks, *(["simulated"] if self.simulated else [])]
        schemas = [self.schema(unit).names, KEY_SCHEMA.names, SCHEMA_VERSION]
        return _digest([_VERSION, component, unit.label, unit.uri, unit.stamp, unit.fault, read, measured, schemas])

    def digest(self, read: Iterable[str]) -> str:
        """Of everything that parts depend on: what was read of all units, by its digests, and how it is decided."""
        names = [component.name for component in self.components]
        contamination = self.recipe.judge.contamination.model_dump(mode="json")
        return _digest([_VERSION, names, contamination, self.benchmarks, *read])


@dataclass(frozen=True, slots=True)
class Prepared(Preparation):
    """The same of a stage that is done: its units are those that lie there, whatever lies where they were read."""

    def units(self) -> list[PassageUnit]:
        """Every part, as the manifest of the stage names it."""
        names = [component.name for component in self.components]
        parts = sorted((names.index(part.partition("/")[0]), part) for part in part_names(self.parts))
        return [
            PassageUnit(number, component, label_of(part), part, part, Place(""), "")
            for number, (component, part) in enumerate(parts)
        ]


def part_names(stage: Folder) -> list[str]:
    """The parts of a stage of passages that is done, sorted; none where there is no such stage."""
    sealed = read_manifest(stage, MANIFEST)
    return [] if sealed is None else [file.name for file in sealed.files]


def label_of(part: str) -> str:
    """The label of the unit that a part is made of."""
    component, _, name = part.partition("/")
    return f"{component}-{name.removeprefix('part-').removesuffix('.parquet')}"


def passage_inputs(components: Sequence[Passages]) -> list[Input]:
    """The files of components, as logs are told, so that a later generation knows them.

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
    """A file of what was read of a unit.

    Args:
        label: of the unit.
        kind: nothing for the payload, in the columns of the unit's part; what decisions need of each passage
            (`KEY_SCHEMA`); what pieces show of benchmarks (`MATCH_SCHEMA`); or rows that could not be read or were not
            wanted.
    """
    return f"{label}.{kind}.parquet" if kind else f"{label}.parquet"
