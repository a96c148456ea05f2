"""Trajectories and batches made for tests."""

import hashlib

import pyarrow as pa

from trajmill.schemas import (
    Action,
    Assembler,
    Observation,
    Origin,
    Outcome,
    Step,
    Task,
    Trajectory,
    call_text,
    json_text,
)
from trajmill.schemas.invariants import check


def origin(uri: str = "log", connector: str = "made") -> Origin:
    digest = hashlib.sha256(uri.encode()).hexdigest()
    return Origin(uri, "tests", connector, "1", lambda member: digest, "MIT")


def call(name: str = "run", **arguments: object) -> Action:
    return Action(name, call_text(name, arguments), json_text(arguments))


def steps_of(*seen: str | None, first: str | None = None, form: str = "stream") -> list[Step]:
    """One step a text: the action `do N`, then what it shows (None: the log does not hold it)."""
    steps, before = [], Observation(first, form=form) if first is not None else None
    for number, text in enumerate(seen):
        after = Observation(text, form=form) if text is not None else None
        steps.append(Step(call("do", number=number), before, after, number, offset=10 * number))
        before = after
    return steps


def trajectory(*seen: str | None, native_id: str = "t", domain: str = "terminal", **more: object) -> Trajectory:
    return Trajectory(native_id, domain, steps_of(*(seen or ("one", "two"))), **more)  # type: ignore[arg-type]


def batch_of(*trajectories: Trajectory, uri: str = "log", **settings: int) -> pa.RecordBatch:
    assembler = Assembler(**settings)
    parents: dict[str, str] = {}
    for record in trajectories:
        assembler.add(record, origin(uri), parents)
    return check(assembler.take())


__all__ = ["Outcome", "Task", "batch_of", "call", "origin", "steps_of", "trajectory"]
