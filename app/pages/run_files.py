"""Files of a run's folder that pages read: transitions with their aligned files, rejects, shards, blobs, plans.

Only manifests and the record of the run are opened. The folder must be on this machine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from trajmill.pipelines.generations.generations import stage_folders
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.ownership import BLOBS, PLAN, RUN
from trajmill.pipelines.storage.paths import url_of
from trajmill.schemas import ConfigError

_PARTS: Final = "part-*.parquet"


@dataclass(frozen=True, slots=True)
class Judged:
    """File of transitions and the files aligned to it by row, if there are any.

    Attributes:
        generation: Generation that wrote it, from 1.
        verdicts: File of measures and decisions; None before the judge stage.
        spans: File of character classes; None if the recipe does not request them.
    """

    generation: int
    transitions: Path
    verdicts: Path | None
    spans: Path | None


@dataclass(frozen=True, slots=True)
class Rejected:
    """File of rejects, and the stage and the generation that wrote it."""

    generation: int
    stage: str
    path: Path


class RunFiles:
    """Files of an output folder.

    Raises:
        ConfigError: The folder holds no run.
    """

    def __init__(self, out: str) -> None:
        if url_of(out):
            raise ConfigError(f"{out} is not on this machine: only what lies here is shown. Copy it.")
        self.root = Path(Folder.named(out).path())
        if not (self.root / "transitions").is_dir():
            raise ConfigError(f"{out} holds no transitions: wanted a run's folder, or a raw log.")

    @cached_property
    def stages(self) -> list[Path]:
        """Stage folders of each generation, in order."""
        return [Path(folder.path()) for folder in stage_folders(Folder(str(self.root)))]

    @cached_property
    def judged(self) -> list[Judged]:
        """Files of transitions, by generation and name."""
        return [
            Judged(number, file, _beside(stages, "verdicts", file), _beside(stages, "spans", file))
            for number, stages in enumerate(self.stages, 1)
            for file in sorted((stages / "transitions").glob(f"*/{_PARTS}"))
        ]

    @cached_property
    def rejects(self) -> list[Rejected]:
        """Files of rejects, by generation, stage and name."""
        return [
            Rejected(number, file.parent.name, file)
            for number, stages in enumerate(self.stages, 1)
            for file in sorted((stages / "rejects").glob("[a-z]*/*.parquet"))
        ]

    @cached_property
    def plans(self) -> list[Path]:
        """Plan of each generation that has one, the last first, since its locations of inputs that were read again are
        current.
        """
        return [stages / PLAN for stages in reversed(self.stages) if (stages / PLAN).is_file()]

    @cached_property
    def draws(self) -> list[Path]:
        """Tables of draws into pools, by generation and name."""
        return [file for stages in self.stages for file in sorted((stages / "draws").glob(f"*-{_PARTS}"))]

    @cached_property
    def shards(self) -> dict[tuple[str, str], list[Path]]:
        """Files of samples by (pool, domain)."""
        shards: dict[tuple[str, str], list[Path]] = {}
        for file in sorted((self.root / "shards").glob("*/*")):
            domain = file.name.partition("_")[0]
            if file.suffix == ".jsonl" and not (file.parent / domain).is_dir():  # which holds the same as tables
                shards.setdefault((file.parent.name, domain), []).append(file)
            for table_file in sorted(file.glob("*.parquet")) if file.is_dir() else ():
                shards.setdefault((file.parent.name, file.name), []).append(table_file)
        return shards

    @cached_property
    def recipe(self) -> Mapping[str, Any]:
        """Recipe from the run's record; empty if the record is missing or damaged."""
        try:
            recorded = json.loads((self.root / RUN).read_bytes())["recipe"]
        except (OSError, ValueError, KeyError, TypeError):
            return {}
        return recorded if isinstance(recorded, dict) else {}

    def blob(self, sha256: str) -> Path | None:
        """Return the attachment with that digest, which must come from a row; None if it was not kept."""
        return next((file for folder in self.stages if (file := folder / BLOBS / sha256).is_file()), None)


def _beside(stages: Path, stage: str, file: Path) -> Path | None:
    path = stages / stage / file.parent.name / file.name
    return path if path.is_file() else None
