"""Trajectories as connectors yield them, and their ids.

A connector yields `Trajectory` objects: facts about the whole and an ordered list of `Step`s. `assembler` turns them
into rows.
"""

from __future__ import annotations

import hashlib
import struct
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from trajmill.schemas.action import Action
from trajmill.schemas.observation import Observation
from trajmill.schemas.record import record

WORLD_MODEL: Final = r"^[^\s@]\S*@[^\s@]+$"
"""Pattern of a world model's name and revision, `name@revision` without blanks. Both RE2 and `re` accept its syntax."""


@record
class Environment:
    """The `environment` column. `kind` is real, code or model.

    Environments of kind model require `world_model`, as `name@revision`, and `sampling`, as JSON text of an object; the
    other kinds have neither.
    """

    id: str | None = None
    instance_id: str | None = None
    kind: str = "real"
    version: str | None = None
    world_model: str | None = None
    sampling: str | None = None


@record
class Agent:
    """The `agent` column: the agent that acted."""

    name: str | None = None
    version: str | None = None
    model: str | None = None


@record
class Task:
    """The `task` column: the task of the agent."""

    id: str | None = None
    instruction: str | None = None


@record
class Context:
    """The `context` column: the facts that a system prompt needs."""

    action_space: str | None = None
    initial_state: str | None = None
    demonstrations: str | None = None
    simulation_instruction: str | None = None
    agent_system: str | None = None
    origin: str = "logged"


@record
class Outcome:
    """The `outcome` column: the judgement of the whole trajectory."""

    resolved: bool | None = None
    score: float | None = None
    verifier: str | None = None


@record
class Step:
    """One transition as a connector read it.

    `turn` counts from 0 and does not decrease. Steps of one turn are parallel calls in call order, each with its
    `call_index` of `num_calls`. `offset` is the beginning of the action's record in the decompressed `member`, in
    bytes; in a table, whose rows have no byte offset, it is the 0-based row number. `started_at` is in microseconds
    since 1970 UTC, `duration_s` and `time_limit_s` in seconds.
    """

    action: Action
    observation: Observation | None
    next_observation: Observation | None
    turn: int
    offset: int
    member: str = ""
    call_index: int = 0
    num_calls: int = 1
    interleaved: str | None = None
    reward: float | None = None
    terminated: bool | None = None
    truncated: bool | None = None
    exit_code: int | None = None
    started_at: int | None = None
    duration_s: float | None = None
    time_limit_s: float | None = None
    timed_out: bool | None = None


@record
class Trajectory:
    """One trajectory of one log, in the order of the log; `steps` is not empty.

    `steps` is a list, or `Steps` for logs that may exceed memory. `parent` is the native id of a trajectory that the
    same log yielded before. `licence` is set if the log states one for this trajectory alone, and takes precedence over
    the licence of the origin.
    """

    native_id: str
    domain: str
    steps: Sequence[Step]
    environment: Environment = Environment()
    agent: Agent = Agent()
    task: Task = Task()
    context: Context = Context()
    outcome: Outcome | None = None
    parent: str | None = None
    parent_step: int | None = None
    relation: str | None = None
    licence: str | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """Origin of the trajectories of one input: the values of `provenance` and `source` that a log does not contain.

    `digest` returns the sha256 of a decompressed member, as 64 hex digits.
    """

    uri: str
    source: str
    connector: str
    connector_version: str
    digest: Callable[[str], str]
    licence: str | None = None


def canonical_content(trajectory: Trajectory) -> Iterable[str]:
    """Yield the texts that identify a trajectory, in order: each action and each observation once.

    An observation that repeats the previous next observation is left out, since nearly every log holds it only once.
    """
    seen: str | None = None
    for step in trajectory.steps:
        before = step.observation.content if step.observation else None
        if before is not None and before is not seen and before != seen:
            yield "o"
            yield before
        yield "a"
        yield step.action.name
        yield step.action.arguments or ""
        yield step.action.text
        seen = step.next_observation.content if step.next_observation else None
        yield "n" if seen is not None else "-"
        yield seen or ""


def trajectory_id(connector: str, trajectory: Trajectory) -> str:
    """Return 32 hex digits of sha256 over (connector, native id, canonical content): first all text lengths, then all
    texts.

    Raises:
        UnicodeEncodeError: A text holds a lone surrogate.
    """
    texts = [text.encode() for text in (connector, trajectory.native_id, *canonical_content(trajectory))]
    digest = hashlib.sha256(struct.pack(f"<{len(texts) + 1}Q", len(texts), *map(len, texts)))
    digest.update(b"".join(texts))
    return digest.hexdigest()[:32]


def long_trajectory_id(connector: str, trajectory: Trajectory) -> str:
    """Return the id of `trajectory_id`, computed in two passes over the steps instead of with all texts in memory.

    A lone surrogate counts as U+FFFD.
    """

    def texts() -> Iterator[bytes]:
        yield from (connector.encode(), _utf8(trajectory.native_id))
        yield from map(_utf8, canonical_content(trajectory))

    sizes = array("Q", map(len, texts()))
    digest = hashlib.sha256(struct.pack("<Q", len(sizes)))
    if sys.byteorder == "big":
        sizes.byteswap()
    digest.update(sizes)
    for text in texts():
        digest.update(text)
    return digest.hexdigest()[:32]


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return str(without_surrogates(text)).encode()


def without_surrogates(value: Any) -> Any:
    """Return `value` with every lone surrogate in it, at any depth, replaced by U+FFFD."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list | tuple):
        return type(value)(without_surrogates(item) for item in value)
    if hasattr(value, "__dataclass_fields__"):
        return replace(value, **{f.name: without_surrogates(getattr(value, f.name)) for f in fields(value)})
    return value
