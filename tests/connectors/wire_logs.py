"""Messages of the Model Context Protocol and what connectors make of them, for tests."""

import json
from typing import Any

from tests.rows import split_records
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.mcp.wire_reader import SessionReader
from trajmill.connectors.mcp.wire_session import Message
from trajmill.connectors.registry import connector
from trajmill.schemas import Observation, ParseError, Reject, Step, Trajectory

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}},
}
HELLO = {"jsonrpc": "2.0", "id": 0, "result": {"serverInfo": {"name": "s", "version": "2"}, "capabilities": {}}}


def call(key: Any, name: str = "look", **arguments: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": key, "method": "tools/call", "params": params}


def request(key: Any, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": key, "method": method, "params": params}


def result(key: Any, text: str | None = None, **more: Any) -> dict[str, Any]:
    content = [] if text is None else [{"type": "text", "text": text}]
    return {"jsonrpc": "2.0", "id": key, "result": {"content": content, **more}}


def read(*bodies: Any, label: str | None = None) -> tuple[list[Trajectory], list[Reject]]:
    """What the core makes of the bodies, whose offsets are their places."""
    reader = SessionReader("test", "log")
    records = [record for index, body in enumerate(bodies) for record in reader.take(Message(index, body, label=label))]
    records += reader.finish()
    return split(records)


def split(records: list[Trajectory | Reject]) -> tuple[list[Trajectory], list[Reject]]:
    return split_records(records)


def seen(trajectory: Trajectory) -> list[tuple[str, str | None]]:
    """(action, content of the next observation) of each step."""
    steps = trajectory.steps
    return [(step.action.name, step.next_observation.content if step.next_observation else None) for step in steps]


def after(step: Step) -> Observation:
    """The step's next observation, which has to be there."""
    assert step.next_observation is not None
    return step.next_observation


def failure(name: str, data: bytes | str) -> ParseError:
    """The error that the connector ends with, which has to be one."""
    error = parse(name, data)[2]
    assert error is not None
    return error


def parse(name: str, data: bytes | str) -> tuple[list[Trajectory], list[Reject], ParseError | None]:
    """What the connector yields, and the error it ends with."""
    blob = MemoryBlob("log", data if isinstance(data, bytes) else data.encode())
    records: list[Trajectory | Reject] = []
    error = None
    try:
        records.extend(connector(name).parse(blob))
    except ParseError as raised:
        error = raised
    return *split(records), error


def lines(*values: Any) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)
