"""Conversion of a trajectory's rows to a document of ATIF 1.7 (Harbor's RFC 0001), which the connector `atif` reads.

A turn is one agent step with its calls and their results. Texts between turns are user and system steps before it; a
user's answer to a message is the user step after it. Facts without a field in ATIF (environment, domain, form and
origin of an observation, exit statuses, time limits, rewards, provenance) are stored under `extra.trajmill`.
Attachments are references by digest. Nothing here reads or writes files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, Final

from trajmill.connectors.reading.values import json_value
from trajmill.schemas import MESSAGE, call_text, json_text

VERSION: Final = "ATIF-v1.7"

OWN: Final = "trajmill"
"""Key under `extra` of the facts without a field in ATIF."""

UNKNOWN: Final = "unknown"
"""Agent name and version where they are unknown, since the format requires both."""

_ENDING: Final = ("duration_s", "time_limit_s", "timed_out", "exit_code", "reward", "terminated", "truncated")

Row = Mapping[str, Any]

PLAIN: Final[Mapping[str, Any]] = {
    "media_type": "text/plain",
    "form": "response",
    "dialect": None,
    "origin": "environment",
    "is_error": None,
    "truncation": "none",
    "uri": None,
    "attachments": [],
}
"""Default fields of an observation."""


def atif_document(rows: Sequence[Row]) -> dict[str, Any]:
    """Build the document of one trajectory.

    Args:
        rows: all its rows in order, as Python values of the transition schema (`to_pylist` of a table).

    Raises:
        ValueError: there are no rows, or rows of several trajectories.
    """
    if len({row["trajectory_id"] for row in rows}) != 1:
        raise ValueError("wanted the rows of one trajectory")
    first = rows[0]
    steps = [{"step_id": number, **step} for number, step in enumerate(_steps(rows), 1)]
    document: dict[str, Any] = {"schema_version": VERSION}
    if first["native_id"]:
        document["session_id"] = first["native_id"]
    document["trajectory_id"] = first["trajectory_id"]
    document["agent"] = _agent(first)
    document["steps"] = steps
    document["final_metrics"] = {"total_steps": len(steps)}
    document["extra"] = {OWN: _whole(first)}
    return document


def _agent(row: Row) -> dict[str, Any]:
    agent = row["agent"]
    fields = {"name": agent["name"] or UNKNOWN, "version": agent["version"] or UNKNOWN}
    if agent["model"]:
        fields["model_name"] = agent["model"]
    tools = _tools(row)
    return fields if tools is None else {**fields, "tool_definitions": tools}


def _tools(row: Row) -> list[Any] | None:
    """Return the action space as ATIF's list of tool objects; None if it is not such a list."""
    space = row["context"]["action_space"]
    tools = json.loads(space) if space is not None else None
    good = isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools)
    return tools if good and json_text(tools) == space else None


def _present(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _whole(row: Row) -> dict[str, Any]:
    """Collect the facts of the whole trajectory that have no field in ATIF."""
    context = {key: value for key, value in row["context"].items() if key != "agent_system"}
    if _tools(row) is not None:
        context.pop("action_space")
    fields = {
        "domain": row["domain"],
        "source": row["source"],
        "environment": _present(row["environment"]),
        "task": _present({"id": row["task"]["id"]}),
        "context": _present(context),
        "outcome": None if row["outcome"] is None else _present(row["outcome"]),
        "relation": row["relation"],
        "parent_trajectory_id": row["parent_trajectory_id"],
        "parent_step": row["parent_step"],
        "provenance": _present({key: value for key, value in row["provenance"].items() if key != "offset"}),
    }
    return {key: value for key, value in fields.items() if value is not None and value != {}}


def _steps(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Yield the steps of the document, without their numbers."""
    first = rows[0]
    if first["context"]["agent_system"] is not None:
        yield {"source": "system", "message": first["context"]["agent_system"]}
    if first["task"]["instruction"] is not None:
        yield {"source": "user", "message": first["task"]["instruction"]}
    turns = [list(group) for _, group in groupby(rows, key=lambda row: row["turn"])]
    shown: Mapping[str, Any] | None = None
    for number, turn in enumerate(turns):
        yield from _interleaved_steps(turn[0]["interleaved"])
        before = turn[0]["observation"]
        before_turn = {} if before == shown else {"observation": before and _observation_fields(before, True)}
        after = turns[number + 1][0] if number + 1 < len(turns) else None
        answers = (row["next_observation"] for row in reversed(turn) if row["next_observation"] is not None)
        if not before_turn and len(turn) == 1 and _is_message(turn[0], after):
            yield from _message(turn[0])
            shown = next(answers, shown)
        else:
            yield _agent_step(turn, before_turn)
            shown = next(answers, None)


def _interleaved_steps(interleaved: str | None) -> Iterator[dict[str, Any]]:
    """Yield a step for each text before a turn. Its role is recorded, so that none is mistaken for a prompt."""
    for entry in json.loads(interleaved) if interleaved is not None else ():
        role, content = entry["role"], entry["content"]
        source = "user" if role == "user" else "system"
        yield {"source": source, "message": content, "extra": {OWN: {"role": role}}}


def _is_message(row: Row, after: Row | None) -> bool:
    """Return True if the row holds only a message of the agent to the user, and perhaps the user's reply.

    A message without a reply must be the last row, since the next step would otherwise be read as its reply or as the
    same turn.
    """
    action, reply = row["action"], row["next_observation"]
    if action["name"] != MESSAGE or action["call_id"] is not None or action["message"] is not None:
        return False
    arguments = json.loads(action["arguments"] or "null")
    good = isinstance(arguments, dict) and set(arguments) == {"content"} and isinstance(arguments["content"], str)
    if not good or not arguments["content"].strip() or action["arguments"] != json_text(arguments):
        return False
    if action["text"] != call_text(MESSAGE, arguments) or _ending(row):
        return False
    if reply is None:
        return after is None
    observed_fields = _observation_fields(reply, False)
    observed_fields.pop("uri", None)
    return bool(reply["content"]) and observed_fields == {"origin": "user", "media_type": "text/plain"}


def _message(row: Row) -> Iterator[dict[str, Any]]:
    action, reply = row["action"], row["next_observation"]
    step: dict[str, Any] = {"source": "agent", "message": json.loads(action["arguments"])["content"]}
    if action["reasoning"] is not None:
        step["reasoning_content"] = action["reasoning"]
    yield _add_time(step | _metrics(action), row)
    if reply is not None:
        own_fields = {"role": "user", **({"uri": reply["uri"]} if reply["uri"] is not None else {})}
        yield {"source": "user", "message": reply["content"], "extra": {OWN: own_fields}}


def _add_time(step: dict[str, Any], row: Row) -> dict[str, Any]:
    at = row["started_at"]
    return step if at is None else {"timestamp": _iso(at), **step}


def _iso(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _ending(row: Row) -> dict[str, Any]:
    """Return the facts about a step's end that its result does not hold."""
    return _present({key: row[key] for key in _ENDING})


def _agent_step(turn: Sequence[Row], before_turn: dict[str, Any]) -> dict[str, Any]:
    """Build the agent step of a turn.

    `before_turn` is the observation before it, if that differs from the last one shown.
    """
    first = turn[0]["action"]
    step = _add_time({"source": "agent", "message": first["message"] or ""}, turn[0])
    if first["reasoning"] is not None:
        step["reasoning_content"] = first["reasoning"]
    ids = list(_ids(turn))
    step["tool_calls"] = [_call(row, key, turn[0]) for row, key in zip(turn, ids, strict=True)]
    results = [
        _result(row["next_observation"], key)
        for row, key in zip(turn, ids, strict=True)
        if row["next_observation"] is not None
    ]
    if results:
        step["observation"] = {"results": results}
    step |= _metrics(first)
    if before_turn:
        step["extra"] = {OWN: before_turn}
    return step


def _metrics(action: Row) -> dict[str, Any]:
    """Return what the model sampled for a step, as metrics of ATIF; nothing where that is not known."""
    if action["sampled"] is None:
        return {}
    sampled = json.loads(action["sampled"])
    return {"metrics": _present({"completion_token_ids": sampled["token_ids"], "logprobs": sampled["logprobs"]})}


def _ids(turn: Iterable[Row]) -> Iterator[str]:
    """Yield an id for each call of a turn, unique in the document: the call's own id, or `call`, with its step."""
    for row in turn:
        call_id = row["action"]["call_id"]
        yield f"{call_id or 'call'}#{row['step']}"


def _call(row: Row, key: str, first: Row) -> dict[str, Any]:
    action = row["action"]
    # parsed as the connector will parse it, so that a number that would change is written as text
    arguments = None if action["arguments"] is None else json_value(action["arguments"])
    own_fields: dict[str, Any] = {"call_id": action["call_id"]}
    if action["arguments"] is None or not isinstance(arguments, dict) or json_text(arguments) != action["arguments"]:
        own_fields["arguments"] = action["arguments"]
    shown = arguments if isinstance(arguments, dict) else {}
    if action["text"] != call_text(action["name"], shown):
        own_fields["text"] = action["text"]
    for name in ("message", "reasoning"):
        if row is not first or (action[name] is not None and not action[name].strip()):
            own_fields[name] = action[name]
    if row is not first and row["started_at"] != first["started_at"]:
        own_fields["started_at"] = None if row["started_at"] is None else _iso(row["started_at"])
    own_fields |= _ending(row)
    return {"tool_call_id": key, "function_name": action["name"], "arguments": shown, "extra": {OWN: own_fields}}


def _observation_fields(observation: Mapping[str, Any], content: bool) -> dict[str, Any]:
    """Return the fields of an observation that differ from the default, optionally with its content."""
    fields: dict[str, Any] = {"content": observation["content"]} if content else {}
    for name, plain in PLAIN.items():
        if observation[name] != plain:
            value = observation[name]
            fields[name] = [_present(attachment) for attachment in value] if name == "attachments" else value
    if "media_type" not in fields:
        fields["media_type"] = observation["media_type"]
    return fields


def _result(observation: Mapping[str, Any], key: str) -> dict[str, Any]:
    result: dict[str, Any] = {"source_call_id": key}
    if observation["content"] is not None:
        result["content"] = observation["content"]
    return {**result, "extra": {OWN: _observation_fields(observation, False)}}
