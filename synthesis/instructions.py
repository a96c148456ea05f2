"""Simulation instructions that a model writes for trajectories which already fulfill them, and their checks.

A model reads a trajectory and writes an instruction that its simulator might have followed. Rules drop instructions
that name absent things or give the answer away. A judge checks that the trajectory fulfills the whole instruction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from trajmill.pipelines.mix.simulation_instructions import SYNTHESIZED
from trajmill.pipelines.render.pieces import cap
from trajmill.schemas import json_text
from trajmill.synthesis.endpoint import Endpoint
from trajmill.synthesis.instruction_rules import KINDS, Draft, Logged, compose_instruction, draft_in, fault_of
from trajmill.synthesis.judgements import Judge, mean_score, scores_in
from trajmill.synthesis.replies import Request, SpentError
from trajmill.synthesis.wording import asking, object_in

DIMENSIONS: Final = ("fulfilled", "specific", "restrained")
_FULFILLED: Final = 4
"""Least raw score of `fulfilled`, whatever the mean.

An instruction that the log breaks teaches a model to ignore instructions.
"""

_SHOWN_MESSAGE: Final = 3_000
_SHOWN: Final = 80_000
"""Characters of a message, and of a trajectory, that models are shown."""


@dataclass(frozen=True, slots=True)
class Instructing:
    """Settings of the instructions.

    Attributes:
        model: Model that writes.
        threshold: Mean score, from 0 to 1, below which an instruction is not used.
        attempts: Largest number of drafts per trajectory; the first that passes is used.
    """

    model: str
    sampling: Mapping[str, Any] = field(default_factory=dict)
    threshold: float = 0.75
    attempts: int = 2


class Instructed(NamedTuple):
    """Result for a trajectory: a row, or the reason why there is none."""

    row: dict[str, Any] | None
    outcome: str


@dataclass(frozen=True, slots=True)
class Instructor:
    """Writer of instructions."""

    how: Instructing
    endpoint: Endpoint
    judge: Judge

    def instructed(self, logged: Logged) -> Instructed:
        """Write the instruction of a trajectory.

        Outcomes without a row: the reasons of `fault_of`, `unreadable` and `nothing` of the last draft, `unjudged`,
        `below_threshold`, and `not_asked` where the cost bound was reached.

        Raises:
            ConfigError, ShardError: As in `Endpoint.ask`.
        """
        outcome = ""
        words = asking(f"instruct_{logged.domain}").messages(
            task=logged.task, answer=logged.answer, trajectory=_shown(logged), kinds=KINDS[logged.domain]
        )
        try:
            for number in range(self.how.attempts):
                reply = self.endpoint.ask(Request(self.how.model, words, dict(self.how.sampling), number))
                draft = draft_in(object_in(reply))
                outcome = draft if isinstance(draft, str) else fault_of(_with_logged_query(draft, logged), logged)
                if outcome == "nothing":
                    break
                if isinstance(draft, Draft) and not outcome:
                    row = self._judged(_with_logged_query(draft, logged), logged)
                    if isinstance(row, dict):
                        return Instructed(row, "kept")
                    outcome = row
        except SpentError:
            outcome = "not_asked"
        return Instructed(None, outcome)

    def _judged(self, draft: Draft, logged: Logged) -> dict[str, Any] | str:
        """Return the row of a draft, or the reason why the judge rejects it."""
        text = compose_instruction(draft, logged)
        asked = asking("judge_instruction")
        words = asked.messages(domain=logged.domain, instruction=text, trajectory=_shown(logged))
        scores = next(filter(None, (scores_in(reply, DIMENSIONS) for reply in self.judge.replies(words))), None)
        if scores is None:
            return "unjudged"
        score = mean_score(scores)
        if score < self.how.threshold or scores["fulfilled"] < _FULFILLED:
            return "below_threshold"
        return {
            "trajectory_id": logged.trajectory_id,
            "simulation_instruction": text,
            "origin": SYNTHESIZED,
            "domain": logged.domain,
            "kinds": list(draft.kinds),
            "score": score,
            "model": self.how.model,
            "sampling": json_text(dict(self.how.sampling)),
            "judge": self.judge.model,
            "prompts": [asking(f"instruct_{logged.domain}").reference, asked.reference],
        }


def _with_logged_query(draft: Draft, logged: Logged) -> Draft:
    """Return the draft with the task as its query; unchanged outside search or where the log has no task."""
    is_search = logged.domain == "search" and logged.task
    return draft._replace(query=logged.task.strip()) if is_search else draft


def _shown(logged: Logged) -> str:
    """Return the text of a trajectory that models are shown."""
    turns: Sequence[str] = [
        f"{cap(action, _SHOWN_MESSAGE)}\n**Environment Observation:**\n{cap(observation, _SHOWN_MESSAGE)}"
        for action, observation in zip(logged.actions, logged.observations, strict=True)
    ]
    return cap("\n\n".join(turns), _SHOWN)
