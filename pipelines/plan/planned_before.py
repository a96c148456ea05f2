"""Results of an earlier run's plan in the same folder, so that unchanged files are not opened again.

A file is unchanged if its size and time of change are those of the plan, and its last change was well before the raw
files were listed for that plan. Two changes within one tick of a clock would leave the same time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from trajmill.pipelines.execution.dying_inputs import WORKER_DIED
from trajmill.pipelines.plan.plan import Plan
from trajmill.pipelines.plan.raw_files import RawFile
from trajmill.pipelines.plan.recognition import Input, Opened, Recognized, stamp_of
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.ownership import PLAN, RUN
from trajmill.pipelines.storage.paths import Place
from trajmill.schemas import Reject
from trajmill.schemas.manifest import PROGRAM_VERSION

LISTED: Final = "listed"
"""Key of `run.json` for the time when the raw files were listed for `plan.json`.

The record is written after the plan, so the time is never too late.
"""

_TICK: Final = 2.0
"""Seconds by which the coarsest file system rounds times, and within which clocks of one network agree."""

_TOLD_BY_HEAD: Final = frozenset({"unrecognized", "empty", "not_utf8", WORKER_DIED})
"""Reasons that depend on the file alone. Files with other reasons are examined again."""


@dataclass(frozen=True, slots=True)
class PlannedBefore:
    """Results of an earlier plan of the same recipe over the same raw logs.

    Attributes:
        listed: time when the raw files were listed for it, in seconds since 1970.
        asked: as in `Plan`.
        inputs: inputs of a single file, by its place.
        rejects: rejects of unrecognized files, by name.
        opened: records of opened files, by place.
        doubted: names of files on which a connector failed, which are tried again.
    """

    listed: float
    asked: str
    inputs: Mapping[Place, Input]
    rejects: Mapping[str, Reject]
    opened: Mapping[Place, Opened]
    doubted: frozenset[str]

    @classmethod
    def left_in(cls, out: Folder) -> PlannedBefore | None:
        """Read the plan in an output folder; return None if there is no complete plan of this version."""
        record, data = out.found(RUN), out.found(PLAN)
        if record is None or data is None:
            return None
        try:
            values, plan = json.loads(record), Plan.from_json(data)
            listed = values[LISTED] if values["version"] == PROGRAM_VERSION else None
        except (ValueError, KeyError, TypeError):
            return None
        if not isinstance(listed, float):
            return None
        inputs = {entry.members[""]: entry for entry in plan.inputs if entry.members.keys() == {""}}
        rejects = {entry.uri: entry for entry in plan.unrecognized if entry.reason in _TOLD_BY_HEAD}
        opened = {entry.place: entry for entry in plan.opened if not entry.inputs}
        doubted = frozenset(entry.uri for entry in plan.withdrawn)
        return cls(listed, plan.asked, inputs, rejects, opened, doubted)

    def among(self, asked: str) -> Callable[[RawFile], Recognized | None]:
        """See `plan.FoundBefore`."""
        return self._told if asked == self.asked else lambda _: None

    def _told(self, file: RawFile) -> Recognized | None:
        if file.touched >= self.listed - _TICK or file.name in self.doubted:
            return None
        stamp = stamp_of({"": file})
        source = self.inputs.get(file.place)
        if source is not None and source.stamp == stamp:
            return Recognized([replace(source, uri=file.name, licence=file.licence)])
        reject, opened = self.rejects.get(file.name), self.opened.get(file.place)
        if reject is not None and reject.reason == WORKER_DIED:  # it may be a member of an archive, which is opened
            return Recognized(rejects=[reject], opened=[] if opened is None else [opened])
        if reject is not None and opened is not None and opened.stamp == stamp:
            return Recognized(rejects=[reject], opened=[opened])
        return None
