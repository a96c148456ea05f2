"""Trajectories as connectors yield them, and what identifies one.

A connector yields `Trajectory` objects: what is true of the whole and an ordered list of `Step`s. How they become rows
is the matter of `assembler`.
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
"""A world model by name and revision (RE2 syntax, as `re` knows it too): `name@revision`, without blanks."""


@record
class Environment:
    """The `environment` column; `kind` is real, code or model (then `world_model` and `sampling` are required).

    `world_model` is `name@revision`, and no other kind has one; `sampling` is JSON text of an object.
    """

    id: str | None = None
    instance_id: str | None = None
    kind: str = "real"
    version: str | None = None
    world_model: str | None = None
    sampling: str | None = None


@record
class Agent:
    """The `agent` column: who acted."""

    name: str | None = None
    version: str | None = None
    model: str | None = None


@record
class Task:
    """The `task` column: what for."""

    id: str | None = None
    instruction: str | None = None


@record
class Context:
    """The `context` column: what a system prompt needs."""

    action_space: str | None = None
    initial_state: str | None = None
    demonstrations: str | None = None
    simulation_instruction: str | None = None
    agent_system: str | None = None
    origin: str = "logged"


@record
class Outcome:
    """The `outcome` column: how the whole trajectory was judged."""

    resolved: bool | None = None
    score: float | None = None
    verifier: str | None = None


@record
class Step:
    """One transition as a connector saw it.

    `turn` counts from 0 and does not decrease; steps of one turn are parallel calls in call order, each with its
    `call_index` of `num_calls`. `offset` is where the action's record begins in the decompressed `member`, in
    bytes; in a table, whose rows begin at no byte of their own, it is the 0-based number of the row.
    `started_at` is in microseconds since 1970 UTC, `duration_s` and `time_limit_s` in seconds.
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

    `steps` is a list, or `Steps` where a log can hold more than should stand in memory. `parent` names the native id of
    a trajectory that the same log yielded before. `licence` is set where the log names one for this trajectory alone;
    it goes before that of the origin.
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
    """Origin of the trajectories of one input: what a log cannot know of `provenance` and `source`.

    `digest` gives the sha256 of a decompressed member, as 64 hex digits.
    """

    uri: str
    source: str
    connector: str
    connector_version: str
    digest: Callable[[str], str]
    licence: str | None = None


def canonical_content(trajectory: Trajectory) -> Iterable[str]:
    """The texts that make a trajectory what it is, in order: each action and what was seen, once.

    An observation that repeats the previous next observation is left out, since every log but a few holds it once.
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
    """32 hex digits of sha256 over (connector, native id, canonical content): first the length of each text, then all.

    Raises:
        UnicodeEncodeError: a text holds a lone surrogate.
    """
    texts = [text.encode() for text in (connector, trajectory.native_id, *canonical_content(trajectory))]
    digest = hashlib.sha256(struct.pack(f"<{len(texts) + 1}Q", len(texts), *map(len, texts)))
    digest.update(b"".join(texts))
    return digest.hexdigest()[:32]


def long_trajectory_id(connector: str, trajectory: Trajectory) -> str:
    """Return what `trajectory_id` gives, in two passes over the steps instead of with all texts in memory.

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
    """`value` with every lone surrogate in it, at any depth, replaced by U+FFFD."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list | tuple):
        return type(value)(without_surrogates(item) for item in value)
    if hasattr(value, "__dataclass_fields__"):
        return replace(value, **{f.name: without_surrogates(getattr(value, f.name)) for f in fields(value)})
    return value
