"""Conservation check: the inputs, records, trajectories and transitions that enter are all kept, dropped, or merged.

The numbers come only from the manifests of the stages. A sum that does not match is a bug and stops the run.

A record is a place of a log from which transitions are read: a line, a row of a table, an event. In a log with a single
place (a document), each transition counts as one. Rejects with a reason in `NOTHING_TO_LEARN` were read correctly; the
recipe's `max_reject_ratio` bounds the others.

For each component of passages, every row is kept, dropped, or equal to a kept one. A text that was cut counts once for
each of its pieces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from trajmill.pipelines.normalize.attachments import KEPT, LOST
from trajmill.pipelines.normalize.connector_errors import Broken
from trajmill.pipelines.normalize.reasons import NOTHING_TO_LEARN
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.schemas import ContractError, TrajmillError

_MERGED: Final = ("duplicate_trajectory", "duplicate_transition")
_MERGED_PASSAGES: Final = ("duplicate",)


@dataclass(frozen=True, slots=True)
class Line:
    """The balance of one unit.

    Attributes:
        unit: inputs, files (if some were not recognized), records, attachments, trajectories or transitions.
        kept: number in the shards (for transitions: number that bear the loss).
        context: transitions that are shown without loss, by reason.
        lost: number dropped, by reason.
        merged: number merged into an equal one, by reason.
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
        """Share that could not be read."""
        return sum(count for reason, count in self.lost.items() if reason not in NOTHING_TO_LEARN) / max(
            1, self.entered
        )

    def checked(self) -> Line:
        """Return the line, after checking its sum.

        Raises:
            ContractError: the sum does not match.
        """
        out = self.kept + sum(self.lost.values()) + sum(self.merged.values()) + sum(self.context.values())
        if out != self.entered:
            raise ContractError(f"{self.unit}: {self.entered} went in, {out} are accounted for. This is a bug.")
        return self


def _by_reason(counts: Mapping[str, int], prefix: str) -> dict[str, int]:
    found = {key[len(prefix) :]: count for key, count in counts.items() if key.startswith(prefix) and count}
    return dict(sorted(found.items()))


def _split(reasons: Mapping[str, int], merging: Sequence[str] = _MERGED) -> tuple[dict[str, int], dict[str, int]]:
    """Split counts by reason into (dropped, merged)."""
    merged = {name: count for name, count in reasons.items() if name in merging}
    return {name: count for name, count in reasons.items() if name not in merging}, merged


def input_line(planned: int, normalize: Mapping[str, int], damaged: Mapping[str, int]) -> Line:
    """Return the balance of inputs after normalizing: recognized inputs, and files too damaged to recognize."""
    lost = _by_reason(normalize, "rejected.input.")
    kept = normalize.get("inputs", 0) - sum(lost.values())
    for reason, count in damaged.items():
        lost[reason] = lost.get(reason, 0) + count
    return Line("inputs", planned + sum(damaged.values()), kept, {}, dict(sorted(lost.items())), {}).checked()


def record_line(normalize: Mapping[str, int]) -> Line:
    """Return the balance of records after normalizing."""
    lost = _by_reason(normalize, "rejected.record.")
    kept = normalize.get("records", 0)
    return Line("records", kept + sum(lost.values()), kept, {}, lost, {}).checked()


def unrecognized_line(files: int, unrecognized: Mapping[str, int]) -> Line:
    """Return the balance of files by recognition; `files` is the number of recognized ones."""
    lost = dict(sorted(unrecognized.items()))
    return Line("files", files + sum(lost.values()), files, {}, lost, {}).checked()


def attachment_line(normalize: Mapping[str, int]) -> Line:
    """Return the balance of attachments: each picture, document or sound once for each of its trajectories."""
    lost = _by_reason(normalize, LOST)
    kept = normalize.get(KEPT, 0)
    return Line("attachments", kept + sum(lost.values()), kept, {}, lost, {}).checked()


def trajectory_line(normalize: Mapping[str, int], judge: Mapping[str, int], mix: Mapping[str, int]) -> Line:
    """Return the balance of trajectories after mixing."""
    other = _by_reason(normalize, "rejected.trajectory.")
    dropped, merged = _split(_by_reason(judge, "trajectories.dropped."))
    late = _by_reason(mix, "trajectories.dropped.")
    lost = {name: other.get(name, 0) + dropped.get(name, 0) + late.get(name, 0) for name in {*other, *dropped, *late}}
    kept = sum(count for key, count in mix.items() if key.startswith("trajectories.") and ".dropped." not in key)
    entered = normalize.get("trajectories", 0) + sum(other.values())
    return Line("trajectories", entered, kept, {}, dict(sorted(lost.items())), merged).checked()


def transition_line(judge: Mapping[str, int]) -> Line:
    """Return the balance of transitions after judging: those that bear the loss, and the others by reason."""
    omitted = _by_reason(judge, "transitions.omit.")
    dropped, merged = _split(_by_reason(judge, "transitions.dropped."))
    context = {f"{name} (context)": count for name, count in _by_reason(judge, "transitions.context.").items()}
    lost = {name: omitted.get(name, 0) + dropped.get(name, 0) for name in {*omitted, *dropped}}
    target = judge.get("transitions.target", 0)
    line = Line("transitions", judge.get("transitions", 0), target, context, dict(sorted(lost.items())), merged)
    return line.checked()


def summed_lines(lines: Iterable[Line]) -> list[Line]:
    """Sum the balances of several runs by unit."""
    found: dict[str, Line] = {}
    for line in lines:
        before = found.get(line.unit, Line(line.unit, 0, 0, {}, {}, {}))
        reasons = ((before.context, line.context), (before.lost, line.lost), (before.merged, line.merged))
        summed = ({key: a.get(key, 0) + b.get(key, 0) for key in sorted({*a, *b})} for a, b in reasons)
        found[line.unit] = Line(line.unit, before.entered + line.entered, before.kept + line.kept, *summed)
    return list(found.values())


def passage_lines(components: Sequence[str], counts: Mapping[str, int]) -> tuple[Line, ...]:
    """Return a line for each component.

    Raises:
        ContractError: a sum does not match.
    """
    return tuple(_passage_line(name, counts) for name in components)


def _passage_line(name: str, counts: Mapping[str, int]) -> Line:
    lost, merged = _split(_by_reason(counts, f"{name}.dropped."), _MERGED_PASSAGES)
    rows, windows, kept = (counts.get(f"{name}.{what}", 0) for what in ("rows", "windows", "kept"))
    return Line(f"passages of {name}", rows + windows, kept, {}, lost, merged).checked()


class TooManyRejectsError(TrajmillError):
    """Error for more rejects than the recipe allows, with the line of counts.

    Args:
        broken: connectors that failed, which may be the cause.
    """

    def __init__(self, line: Line, share: float, limit: float, name: str, broken: tuple[Broken, ...] = ()) -> None:
        super().__init__(line, share, limit, name, broken)
        self.line, self.share, self.limit, self.name, self.broken = line, share, limit, name, broken

    def __str__(self) -> str:
        what = "were not recognized" if self.line.unit == "files" else "could not be read"
        return (
            f"{self.share:.1%} of {self.line.entered:,} {self.line.unit} {what}, the recipe allows {self.limit:.1%} "
            f"({self.name}); not kept: {self.line.dropped}. See rejects/ in the output folder: "
            "trajmill inspect OUT/rejects shows them."
        )


def check_rejects(files: Line, inputs: Line, records: Line, recipe: Recipe, broken: tuple[Broken, ...] = ()) -> None:
    """End the run if too much was rejected.

    Too much is a share of unreadable inputs or records above `max_reject_ratio`, a share of unrecognized files above
    `max_unrecognized_ratio`, or, whatever the reasons, everything, unless the recipe allows that all is rejected.

    Raises:
        TooManyRejectsError: the first of these conditions that holds.
    """
    limit, unrecognized = recipe.normalize.max_reject_ratio, recipe.normalize.max_unrecognized_ratio
    name = "normalize.max_reject_ratio"
    share = 1 - files.kept / max(1, files.entered)
    if unrecognized is not None and share > unrecognized:
        raise TooManyRejectsError(files, share, unrecognized, "normalize.max_unrecognized_ratio", broken)
    for line in (inputs, records):
        if line.unreadable > limit:
            raise TooManyRejectsError(line, line.unreadable, limit, name, broken)
    for line in (inputs, files):
        if line.entered and not line.kept and limit < 1:
            raise TooManyRejectsError(line, 1.0, limit, name, broken)
