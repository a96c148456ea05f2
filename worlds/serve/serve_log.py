"""Output of served sessions: one line per call, and one document per session, which a run reads as rows of kind
`model`.

    LOG/calls.jsonl               one line a request, written when it is answered, also without an observation
    LOG/trajectories/<id>.json    one ATIF document a session, written when it ends, which `trajmill run` reads

`calls.jsonl` holds no content of sessions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

from trajmill.connectors.conversation.failures import content_failed
from trajmill.pipelines.render.atif_documents import atif_document
from trajmill.quality.signals.error_observation import FRAMED
from trajmill.schemas import Assembler, Context, Environment, Observation, Origin, Step, Task, Trajectory, json_text
from trajmill.worlds.serve.history import Move
from trajmill.worlds.serve.scenarios import Scenario
from trajmill.worlds.serve.served_model import Call

CALLS: Final = "calls.jsonl"
TRAJECTORIES: Final = "trajectories"

_FRAMED: Final = re.compile(FRAMED)
"""Pattern of the beginning of an answer that logs mark as an error."""

Rows = Sequence[Mapping[str, Any]]


def steps_of(rows: Rows, moves: Sequence[Move]) -> list[Step]:
    """Return the steps of a session, from the rows of its history and the moves that led to them."""
    steps: list[Step] = []
    before: Observation | None = None
    for row, move in zip(rows, moves, strict=True):
        after = _observation(row["next_observation"])
        first = row["observation"]
        same = first is not None and before is not None and first["content"] == before.content
        state = before if same else None if first is None else _observation(first)
        calls = [sibling["step"] for sibling in rows if sibling["turn"] == row["turn"]]
        steps.append(
            Step(
                move.action,
                state,
                after,
                row["turn"],
                0,
                call_index=row["step"] - calls[0],
                num_calls=len(calls),
                interleaved=row["interleaved"],
                exit_code=row["exit_code"],
                time_limit_s=row["time_limit_s"],
                timed_out=row["timed_out"],
            )
        )
        before = after
    return steps


def _observation(values: Mapping[str, Any]) -> Observation:
    content = values["content"]
    marked = True if _FRAMED.match(content) else content_failed(content)
    return Observation(content, form=values["form"], dialect=values["dialect"], is_error=marked)


def trajectory_of(
    session: str, scenario: Scenario, rows: Rows, moves: Sequence[Move], world_model: str, sampling: Mapping[str, Any]
) -> Trajectory:
    """Convert a session to a trajectory of kind `model`.

    Args:
        rows: Rows of its history, at least one.
        moves: Moves that led to them.
        world_model: Model as `name@revision`.
    """
    instance = scenario.instance_id or scenario.id  # by which all rollouts of a scenario are of one group
    environment = Environment(
        scenario.environment_id or None, instance, "model", None, world_model, json_text(sampling)
    )
    task = Task(scenario.task_id or None, scenario.instruction or None)
    texts = scenario.whole_context
    context = Context(
        texts["action_space"], texts["initial_state"], texts["demonstrations"], texts["simulation_instruction"]
    )
    return Trajectory(session, scenario.domain, steps_of(rows, moves), environment, task=task, context=context)


class ServeLog:
    """Folder to which sessions are written.

    Args:
        folder: Path of the folder, created if missing. Existing files are appended to or kept.
    """

    def __init__(self, folder: Path) -> None:
        self._trajectories = folder / TRAJECTORIES
        self._trajectories.mkdir(parents=True, exist_ok=True)
        self._calls: IO[str] = (folder / CALLS).open("a", encoding="utf-8", buffering=1)

    def close(self) -> None:
        """Close the file of calls."""
        self._calls.close()

    def has(self, session: str) -> bool:
        """Return True if a session with that id was written."""
        return (self._trajectories / f"{session}.json").exists()

    def call(self, session: str, step: int, call: Call, outcome: str, world_model: str) -> dict[str, Any]:
        """Write the line of a call, and return it.

        Args:
            outcome: `observed`, or the reason why there is no observation.
            world_model: Model as `name@revision`.
        """
        usage = call.reply.usage
        line = {
            "session": session,
            "step": step,
            "try": call.request.index,
            "request": call.request.key,
            "world_model": world_model,
            "sampling": dict(call.request.sampling),
            "outcome": outcome,
            "finish": call.reply.finish,
            "stated_revision": call.reply.revision,
            "prompt_tokens": None if usage is None else usage.prompt,
            "completion_tokens": None if usage is None else usage.completion,
            "cost": round(call.cost, 9),
            "known": call.known,
            "seconds": round(call.seconds, 6),
        }
        self._calls.write(json.dumps(line, ensure_ascii=False) + "\n")
        return line

    def session(self, trajectory: Trajectory, extra: Mapping[str, Any]) -> Path:
        """Write the document of a session, and return its path.

        Args:
            extra: Further facts, such as its calls, which readers of trajectories ignore.
        """
        assembler = Assembler()
        assembler.add(trajectory, Origin("", "served", "served", "1", lambda _: ""), {})
        document = atif_document(assembler.take().to_pylist())
        document["trajectory_id"] = trajectory.native_id  # by which readers know it
        document["extra"] = {**document.get("extra", {}), "served": dict(extra)}
        path = self._trajectories / f"{trajectory.native_id}.json"
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", "utf-8")
        unfinished.replace(path)
        return path
