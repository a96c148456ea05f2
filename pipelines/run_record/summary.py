"""Summary of a run, as far as it went, and the announcement of a stage's start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from trajmill.pipelines.normalize.connector_errors import Broken
from trajmill.pipelines.plan.plan import Plan
from trajmill.pipelines.plan.recognition import PlanCounts
from trajmill.pipelines.run_record.conservation import Line
from trajmill.pipelines.storage.folders import Folder


@dataclass(frozen=True, slots=True)
class StageStart:
    """Announcement of a stage's start, for the display of progress.

    Attributes:
        done: number of units that an earlier run finished.
        steps: steps of each unit: the folder in which its manifest appears after the step, and the digest of the
            manifest by unit. Empty for a stage without units, such as planning.
        counts: in planning, the numbers of found and examined files so far.
    """

    stage: str
    units: int = 0
    done: int = 0
    bytes: int = 0
    steps: tuple[tuple[Folder, Mapping[str, str]], ...] = ()
    counts: PlanCounts | None = None


OVER: Final = StageStart("")
"""Announcement that the last stage is over."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run did.

    Attributes:
        out: the output folder.
        last: the last stage that ran.
        lines: the balance of files, if one was not recognized, inputs, records, attachments, if there are any,
            trajectories and transitions, as far as the run went.
        tokens: of actions and next observations, of all transitions.
        target_tokens: the same of those that carry the loss.
        domains: domain → trajectories that were judged, and those that were kept.
        samples: `pool.domain` → samples.
        drawn_tokens: `pool.domain` → tokens of these samples, in RL of their prompts; not of eval.
        loss_tokens: `pool.domain` → those of them that bear the loss, of CPT and SFT.
        replicates: domain → what its replicates agree on, as `measures/replicates.json` has it.
        broken: connectors that failed, and what that cost.
        warnings: where the mixture is not what the recipe asks for, a line each.
        mixture: what was asked for and drawn, by pool and domain, as the manifest of shards tells it.
        changed: what is otherwise than after the last run into the folder, a line each.
    """

    out: str
    last: str
    lines: tuple[Line, ...]
    plan: Plan
    tokens: int = 0
    target_tokens: int = 0
    domains: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    samples: dict[str, int] = field(default_factory=dict)
    drawn_tokens: dict[str, int] = field(default_factory=dict)
    loss_tokens: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    replicates: dict[str, dict[str, float]] = field(default_factory=dict)
    broken: tuple[Broken, ...] = ()
    warnings: tuple[str, ...] = ()
    mixture: Mapping[str, Any] = field(default_factory=dict)
    changed: tuple[str, ...] = ()

    def line(self, unit: str) -> Line:
        """Return the balance of a unit."""
        return next(line for line in self.lines if line.unit == unit)
