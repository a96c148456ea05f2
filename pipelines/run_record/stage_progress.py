"""Progress of a stage, from the manifests of its units alone, so that it is the same with every runner.

An engine's own metrics count attempts; a manifest is written once, when the unit is finished.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trajmill.pipelines.run_record.summary import StageStart
from trajmill.pipelines.storage.units import manifest_name, read_manifest


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a stage.

    Attributes:
        done: number of finished units, where a unit counts by the share of its steps that are done.
        before: number of units that an earlier run finished.
        bytes: bytes that the stage reads in total.
        seconds: seconds since it began.
        counts: counts of the finished units, from their manifests.
        is_over: whether the next stage began, or the run ended successfully.
        finished: units that were found to be finished, in order; a list that grows.
    """

    stage: str
    units: int
    done: float
    before: int
    bytes: int
    seconds: float
    counts: Mapping[str, int]
    is_over: bool = False
    finished: Sequence[str] = ()

    @property
    def unit(self) -> str:
        """The kind of unit that is counted: files that are examined, or parts."""
        return "files" if self.stage == "plan" else "parts"

    @property
    def rate(self) -> float:
        """Bytes per second since the stage began."""
        if not self.units or self.seconds <= 0:
            return 0.0
        return self.bytes * max(0.0, self.done - self.before) / self.units / self.seconds

    @property
    def left(self) -> float | None:
        """Estimated seconds until the stage is over, at its rate so far; None if unknown."""
        now = self.done - self.before
        return None if now <= 0 or self.is_over else self.seconds * (self.units - self.done) / now

    def kept(self) -> tuple[str, int, int]:
        """Return (kind of output, number kept, number of all) of the stage so far."""
        counts = self.counts
        if self.stage == "judge":
            return "trajectories", counts.get("trajectories.kept", 0), counts.get("trajectories", 0)
        if self.stage == "mix":
            made = sum(number for key, number in counts.items() if key.startswith("samples."))
            return "samples", made, made
        made = counts.get("trajectories", 0)
        return "trajectories", made, made

    def dropped(self) -> dict[str, int]:
        """Return the numbers dropped or rejected so far by reason, largest first."""
        prefixes = ("trajectories.dropped.",) if self.stage == "judge" else ("rejected.input.", "rejected.record.")
        found = Counter[str]()
        for key, number in self.counts.items():
            for prefix in prefixes:
                if number and key.startswith(prefix):
                    found[key.removeprefix(prefix)] += number
        return dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0])))


class StageWatch:
    """Watch of the finished units of a stage. Each manifest is read once."""

    def __init__(self, start: StageStart) -> None:
        self.start = start
        self._open = [(folder, dict(digests)) for folder, digests in start.steps]
        self._counts = [Counter[str]() for _ in start.steps]
        self._through = 0
        self._finished: list[str] = []
        self._begun = time.monotonic()

    @property
    def is_local(self) -> bool:
        """True if looking takes no requests."""
        return all(folder.is_local for folder, _ in self.start.steps)

    def look(self, *, is_over: bool = False) -> Progress:
        """Return the current progress of the stage."""
        for (folder, still), counts in zip(self._open, self._counts, strict=True):
            is_last = counts is self._counts[-1]
            listed = set(folder.names()) if still else set()
            for unit in [one for one in still if manifest_name(one) in listed]:
                made = read_manifest(folder, manifest_name(unit))
                if made is not None and made.digest == still[unit]:  # else an earlier recipe left it
                    del still[unit]
                    counts.update(made.counts)
                    self._through += 1
                    if is_last:
                        self._finished.append(unit)
        start = self.start
        units = start.units if start.counts is None else start.counts.files
        through = self._through / max(1, len(start.steps)) if start.counts is None else start.counts.told
        done = units if is_over else through
        seconds = time.monotonic() - self._begun
        counts = self._counts[-1] if self._counts else Counter()
        known = dict(counts), is_over, self._finished
        return Progress(start.stage, units, done, start.done, start.bytes, seconds, *known)
