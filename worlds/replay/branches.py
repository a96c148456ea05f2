"""Counterfactual branches: another logged action of the same task, run where a trajectory did something else.

A branch is the beginning of a trajectory, as it was replayed, and one action of another trajectory of the same task
after it. It is made only where all before it replayed as the log says, so that the state is the one that was logged.
Its rows are of environment kind `code`, name the trajectory that they branch off, and have its task, by which a run
gives them its group.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from trajmill.pipelines.render.atif_documents import PLAIN
from trajmill.schemas.replay import CERTIFIED
from trajmill.worlds.replay.actions import Asked
from trajmill.worlds.replay.sessions import Replayed

_MOST: Final = 64
"""Actions of a task that are chosen from."""

_LONGEST: Final = 1 << 14
Row = dict[str, Any]


@dataclass(slots=True)
class Actions:
    """Actions of each task that could be run elsewhere, by what they say, each with a trajectory that it is of."""

    held: dict[str, dict[str, Row]] = field(default_factory=dict)

    def add(self, rows: Sequence[Row], questions: Sequence[Asked]) -> None:
        """Takes in what a trajectory does; of a task with more than `_MOST` actions those of least hash."""
        task = rows[0]["task"]["id"]
        if task is None:
            return
        known = self.held.setdefault(task, {})
        for row, asked in zip(rows, questions, strict=True):
            if asked.request is not None and asked.kind == "text" and len(row["action"]["arguments"] or "") < _LONGEST:
                known.setdefault(_act_key(row), {"action": row["action"], "row_id": row["row_id"], "asked": asked})
        for action_key in sorted(known, key=_hash)[_MOST:]:
            del known[action_key]

    def chosen(self, rows: Sequence[Row], answers: Sequence[Replayed], most: int) -> Iterator[tuple[int, Row]]:
        """(step, another action of the task) of at most so many branches off a trajectory, the same each time.

        Args:
            rows: the trajectory.
            answers: what came of each of its actions.
            most: branches.
        """
        known = self.held.get(rows[0]["task"]["id"] or "", {})
        own = {_act_key(row) for row in rows}
        last = next((step for step, answer in enumerate(answers) if answer.status not in CERTIFIED), len(answers) - 1)
        pairs = [(step, action_key) for step in range(last + 1) for action_key in known if action_key not in own]
        for step, action_key in sorted(pairs, key=lambda pair: _hash(f"{rows[0]['row_id']}:{pair[0]}:{pair[1]}"))[
            :most
        ]:
            yield step, known[action_key]


def _act_key(row: Mapping[str, Any]) -> str:
    return json.dumps([row["action"]["name"], row["action"]["arguments"]])


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def question_rows(rows: Sequence[Row], step: int, choice: Mapping[str, Any]) -> list[Row]:
    """Return the rows that a box is asked about: those before a step, and the other action in its place, without an
    answer.
    """
    last = {**rows[step], "action": choice["action"], "next_observation": None, "exit_code": None}
    return [*rows[:step], last]


def branch(rows: Sequence[Row], answers: Sequence[Replayed], choice: Mapping[str, Any]) -> list[Row] | None:
    """Build the rows of a branch; None where the steps before it did not replay, or its action had no answer.

    Args:
        rows: as of `question_rows`.
        answers: what came of them.
        choice: the action that was run.
    """
    last = answers[-1]
    if last.answer is None or any(earlier.status not in CERTIFIED for earlier in answers[:-1]):
        return None
    native = f"{rows[0]['native_id'] or rows[0]['trajectory_id']}/branch-{len(rows) - 1}-{_hash(_act_key(choice))[:8]}"
    branched, shown = list[Row](), rows[0]["observation"]
    for number, (row, answer) in enumerate(zip(rows, answers, strict=True)):
        plain = row["next_observation"] or {
            "content": None,
            **PLAIN,
            "uri": (rows[0]["next_observation"] or {}).get("uri"),
        }
        observation = (
            plain if answer.answer is None or not answer.answer else {**plain, "content": answer.answer.rstrip("\n")}
        )
        observation = {**observation, "content": ""} if number == len(rows) - 1 and not answer.answer else observation
        branched.append(
            {
                **row,
                "group": rows[0].get("group"),
                "native_id": native,
                "trajectory_id": _hash(f"{rows[0]['trajectory_id']}:{native}")[:32],
                "num_steps": len(rows),
                "turn": number,
                "call_index": 0,
                "num_calls": 1,
                "parent_trajectory_id": rows[0]["trajectory_id"],
                "parent_step": len(rows) - 2 if len(rows) > 1 else None,
                "relation": "branch",
                "environment": {**row["environment"], "kind": "code", "world_model": None, "sampling": None},
                "observation": shown if number else row["observation"],
                "next_observation": observation,
                "exit_code": answer.code if answer.code is not None else row["exit_code"],
                "outcome": None,
                **dict.fromkeys(("reward", "terminated", "truncated", "started_at", "duration_s")),
            }
        )
        shown = observation
    return branched
