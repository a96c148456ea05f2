"""Conservation: for inputs, their records, trajectories and transitions, what went in is kept, dropped, or merged.

The numbers come from the manifests of the stages alone; a sum that does not hold is a bug and stops the run.

A record is a place of a log that transitions are read from: a line, a row of a table, an event. Of a log that tells
one place for all (a document), each transition counts for one. Of what is rejected, `NOTHING_TO_LEARN` was read well:
the recipe's `max_reject_ratio` bounds the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from trajmill.pipelines.normalize.attachments import KEPT, LOST
from trajmill.pipelines.normalize.reasons import NOTHING_TO_LEARN
from trajmill.schemas import ContractError

_MERGED: Final = ("duplicate_trajectory", "duplicate_transition")


@dataclass(frozen=True, slots=True)
class Line:
    """The balance of one unit.

    Attributes:
        unit: inputs, files (those that no connector recognized), records, attachments, trajectories or transitions.
        entered: how many went in.
        kept: how many are in the shards (for transitions: carry the loss).
        context: transitions that are shown without loss, by reason.
        lost: what was dropped, by reason.
        merged: what was merged into an equal one, by reason.
    """

    unit: str
    entered: int
    kept: int
    context: dict[str, int]
    lost: dict[str, int]
    merged: dict[str, int]

    @property
    def dropped(self) -> str:
        """Everything that is not kept, by reason, largest first, as text."""
        everything = {**self.lost, **self.merged, **self.context}
        listed = sorted(everything.items(), key=lambda pair: (-pair[1], pair[0]))
        return ", ".join(f"{reason} {count:,}" for reason, count in listed) or "none"

    @property
    def unreadable(self) -> float:
        """Share of what went in that could not be read."""
        return sum(count for reason, count in self.lost.items() if reason not in NOTHING_TO_LEARN) / max(
            1, self.entered
        )

    def checked(self) -> Line:
        """The line itself.

        Raises:
            ContractError: the sum does not hold.
        """
        out = self.kept + sum(self.lost.values()) + sum(self.merged.values()) + sum(self.context.values())
        if out != self.entered:
            raise ContractError(f"{self.unit}: {self.entered} went in, {out} are accounted for. This is a bug.")
        return self


def _by_reason(counts: Mapping[str, int], prefix: str) -> dict[str, int]:
    found = {key[len(prefix) :]: count for key, count in counts.items() if key.startswith(prefix) and count}
    return dict(sorted(found.items()))


def _split(reasons: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
    """(dropped, merged)."""
    merged = {name: count for name, count in reasons.items() if name in _MERGED}
    return {name: count for name, count in reasons.items() if name not in _MERGED}, merged


def input_line(planned: int, normalize: Mapping[str, int], damaged: Mapping[str, int]) -> Line:
    """The balance of inputs after normalizing: those that a connector recognized, and files too damaged to be.

    Args:
        planned: how many a connector recognized.
        normalize: counts of the stage.
        damaged: reason → files of which not enough could be read to tell what they are.
    """
    lost = _by_reason(normalize, "rejected.input.")
    kept = normalize.get("inputs", 0) - sum(lost.values())
    for reason, count in damaged.items():
        lost[reason] = lost.get(reason, 0) + count
    return Line("inputs", planned + sum(damaged.values()), kept, {}, dict(sorted(lost.items())), {}).checked()


def record_line(normalize: Mapping[str, int]) -> Line:
    """The balance of records after normalizing."""
    lost = _by_reason(normalize, "rejected.record.")
    kept = normalize.get("records", 0)
    return Line("records", kept + sum(lost.values()), kept, {}, lost, {}).checked()


def unrecognized_line(files: int, unrecognized: Mapping[str, int]) -> Line:
    """The files of a run by whether a connector recognized them; `files` is how many were."""
    lost = dict(sorted(unrecognized.items()))
    return Line("files", files + sum(lost.values()), files, {}, lost, {}).checked()


def attachment_line(normalize: Mapping[str, int]) -> Line:
    """The balance of what logs attach: each picture, document or sound once for each trajectory that it belongs to."""
    lost = _by_reason(normalize, LOST)
    kept = normalize.get(KEPT, 0)
    return Line("attachments", kept + sum(lost.values()), kept, {}, lost, {}).checked()


def trajectory_line(normalize: Mapping[str, int], judge: Mapping[str, int], mix: Mapping[str, int]) -> Line:
    """The balance of trajectories after mixing."""
    other = _by_reason(normalize, "rejected.trajectory.")
    dropped, merged = _split(_by_reason(judge, "trajectories.dropped."))
    late = _by_reason(mix, "trajectories.dropped.")
    lost = {name: other.get(name, 0) + dropped.get(name, 0) + late.get(name, 0) for name in {*other, *dropped, *late}}
    kept = sum(count for key, count in mix.items() if key.startswith("trajectories.") and ".dropped." not in key)
    entered = normalize.get("trajectories", 0) + sum(other.values())
    return Line("trajectories", entered, kept, {}, dict(sorted(lost.items())), merged).checked()


def transition_line(judge: Mapping[str, int]) -> Line:
    """The balance of transitions after judging: those that carry the loss, and the others by reason."""
    omitted = _by_reason(judge, "transitions.omit.")
    dropped, merged = _split(_by_reason(judge, "transitions.dropped."))
    context = {f"{name} (context)": count for name, count in _by_reason(judge, "transitions.context.").items()}
    lost = {name: omitted.get(name, 0) + dropped.get(name, 0) for name in {*omitted, *dropped}}
    target = judge.get("transitions.target", 0)
    line = Line("transitions", judge.get("transitions", 0), target, context, dict(sorted(lost.items())), merged)
    return line.checked()


def summed_lines(lines: Iterable[Line]) -> list[Line]:
    """The balances of several runs, added up by unit."""
    found: dict[str, Line] = {}
    for line in lines:
        before = found.get(line.unit, Line(line.unit, 0, 0, {}, {}, {}))
        reasons = ((before.context, line.context), (before.lost, line.lost), (before.merged, line.merged))
        summed = ({key: a.get(key, 0) + b.get(key, 0) for key in sorted({*a, *b})} for a, b in reasons)
        found[line.unit] = Line(line.unit, before.entered + line.entered, before.kept + line.kept, *summed)
    return list(found.values())
