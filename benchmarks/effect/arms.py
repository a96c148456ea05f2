"""The arms that are compared: what each keeps of one normalized corpus, and on what of it the loss stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from trajmill.pipelines.execution.dispatch import run_over
from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.judge.judge import UnitsToVerdicts
from trajmill.pipelines.judge.judging import Judging, Unit, count_packed_records
from trajmill.pipelines.recipe.judgement import RuleValues
from trajmill.pipelines.recipe.recipe import Recipe, SpanClass
from trajmill.pipelines.storage.folders import Folder

Loss: TypeAlias = Literal["answers", "all", "spans"]
"""answers: on those that verdicts call targets; all: on actions and whatever else is shown too; spans: on those spans
of the answers that `mix.loss: spans` draws by weights."""

RAW: Final = "raw"
ALL_RAW: Final = "raw, all of it"
EXACT: Final = "exact copies dropped"
NEAR: Final = "near copies dropped"
EQUAL: Final = "near, equal transitions masked"
EVERYTHING: Final = "everything"
RULE: Final = "near, and rule "
ALL_TEXT: Final = "everything, loss on all text"
TURN_MASK: Final = "everything, turn mask"
SPANS: Final = "everything, loss on spans"
WITHOUT: Final = "everything, no loss on "
NEW: Final = "everything, loss on what is new"


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to make training text of the corpus.

    Attributes:
        name: that tables show.
        against: the arm that it is compared with; empty for the first.
        family: of tests that are corrected together: `whole`, `size`, `steps`, `rules`, `masks`, or `classes`.
        judge: what its section `judge` has in place of the recipe's; None takes the verdicts of the run, and of `raw`
            and `raw, all of it` all rows.
        loss: on what the loss stands.
        weights: with the loss on spans, the share of each class that bears it; all of one that is not named.
    """

    name: str
    against: str
    family: str
    judge: Mapping[str, Any] | None = None
    loss: Loss = "answers"
    weights: Mapping[SpanClass, float] = field(default_factory=dict)


def arms_of(recipe: Recipe, *, has_spans: bool) -> list[Arm]:
    """The arms of a recipe, the one that others are compared with before them."""
    judge = recipe.judge
    masks = judge.mask_duplicate_transitions
    plain: dict[str, Any] = {
        "rules": {},
        "measure": judge.measured(),
        "benchmarks": (),
        "max_share": {},
        "replicates": None,
        "spans": False,
        "mask_duplicate_transitions": False,
    }
    masked = {"rules": {**judge.rules, "turn_mask": RuleValues(signal="turn_mask", min=1, use="context")}}
    return [
        Arm(RAW, "", ""),
        Arm(EVERYTHING, RAW, "whole"),
        Arm(ALL_RAW, EVERYTHING, "size"),
        Arm(EXACT, RAW, "steps", {**plain, "near_duplicates": None}),
        Arm(NEAR, EXACT, "steps", plain),
        *([Arm(EQUAL, NEAR, "steps", {**plain, "mask_duplicate_transitions": True})] if masks else []),
        *(Arm(RULE + name, NEAR, "rules", {**plain, "rules": {name: rule}}) for name, rule in judge.rules.items()),
        Arm(ALL_TEXT, EVERYTHING, "masks", loss="all"),
        *([] if "turn_mask" in judge.rules else [Arm(TURN_MASK, EVERYTHING, "masks", masked)]),
        *(_span_arms(recipe) if has_spans else []),
    ]


def _span_arms(recipe: Recipe) -> list[Arm]:
    """The loss as the recipe's weights draw it, without each class alone, and on what no class tells."""
    known: list[SpanClass] = ["volatile", "frame", "copied"]
    return [
        Arm(SPANS, EVERYTHING, "masks", loss="spans", weights=recipe.mix.loss_weights),
        *(Arm(WITHOUT + name, EVERYTHING, "classes", loss="spans", weights={name: 0.0}) for name in known),
        Arm(NEW, EVERYTHING, "classes", loss="spans", weights=dict.fromkeys(known, 0.0)),
    ]


def judge_arm(recipe: Recipe, arm: Arm, transitions: Folder, units: Sequence[Unit], base: Folder) -> Folder:
    """The verdicts of an arm that judges in its own way, written below a folder.

    Arms that measure alike share what was measured.
    """
    own = recipe.model_copy(update={"judge": recipe.judge.model_copy(update=dict(arm.judge or {}))})
    measures = base / ("measures" if own.judge.near_duplicates is not None else "measures-alone")
    at = base / arm.name.replace(" ", "-")
    judging = Judging(
        own,
        transitions,
        measures,
        at / "verdicts",
        at / "rejects",
        at / "spans",
        arm.name,
        partitions=Execution().partitions_of(count_packed_records(own, [transitions])),
    )
    run_over(units, UnitsToVerdicts(judging), Execution())
    return at / "verdicts"
