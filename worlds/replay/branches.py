"""Counterfactual branches: another logged action of the same task, run at a step of a trajectory that did something
else.

A branch is the beginning of a trajectory, as it was replayed, followed by one action of another trajectory of the same
task. It is made only if everything before it replayed as logged, so that the state is the logged one. Its rows have the
environment kind `code`, name the trajectory they branch off, and have its task, so that a run puts them into its group.
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
"""Most actions of a task that are candidates."""

_LONGEST: Final = 1 << 14
Row = dict[str, Any]


@dataclass(slots=True)
class Actions:
    """Candidate actions of each task, by their content, each with one of its trajectories."""

    held: dict[str, dict[str, Row]] = field(default_factory=dict)

    def add(self, rows: Sequence[Row], questions: Sequence[Asked]) -> None:
        """Add the actions of a trajectory; a task keeps the `_MOST` actions with the smallest hashes."""
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
        """Yield (step, another action of the task) of at most `most` branches off a trajectory, chosen by hash.

        Args:
            most: Most branches.
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
    """Return the rows to run for a branch: those before a step, and the other action instead, without an answer."""
    last = {**rows[step], "action": choice["action"], "next_observation": None, "exit_code": None}
    return [*rows[:step], last]


def branch(rows: Sequence[Row], answers: Sequence[Replayed], choice: Mapping[str, Any]) -> list[Row] | None:
    """Build the rows of a branch; None if the steps before it did not replay, or its action had no answer.

    Args:
        rows: Rows as of `question_rows`.
        answers: Results of these rows.
        choice: Action that was run.
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
