"""Printer of a connector's results for a few lines, for the examples at the top of the connectors' docstrings."""

from __future__ import annotations

from collections.abc import Mapping

from trajmill.connectors.connector import Connector, MemoryBlob
from trajmill.schemas import Observation, ParseError, Reject, Trajectory


def show(connector: Connector, log: str | bytes | Mapping[str, str | bytes], uri: str = "log") -> None:
    r"""Print each transition of a log as its action and what stood before and after it; then what was refused.

    An observation that is the one after the transition before is not printed again. Lines of a text begin with `|`.

    Args:
        connector: reads the log.
        log: its bytes or text; of a log of several files each by its name. A line break at its beginning is left out.
        uri: what the log is called.

    >>> from trajmill.connectors.mcp.mcp_recorder import McpRecorder
    >>> show(McpRecorder(), "no recording")
    refused | bad_json
    """
    members = log if isinstance(log, Mapping) else {"": log}
    blob = MemoryBlob(uri, {name: _bytes(data) for name, data in members.items()})
    seen: Observation | None = None
    try:
        for record in connector.parse(blob):
            if isinstance(record, Reject):
                _print("refused", record.reason)
                continue
            seen = _show_trajectory(record, seen)
    except ParseError as error:
        _print("refused", error.reason)


def _bytes(data: str | bytes) -> bytes:
    return data.removeprefix("\n").encode() if isinstance(data, str) else data


def _show_trajectory(trajectory: Trajectory, seen: Observation | None) -> Observation | None:
    for step in trajectory.steps:
        if step.observation is not None and step.observation is not seen and step.observation != seen:
            _print("before", step.observation.content)
        _print("action", step.action.text)
        _print("after", step.next_observation.content if step.next_observation is not None else None)
        seen = step.next_observation
    return seen


def _print(label: str, text: str | None) -> None:
    for number, line in enumerate(["(not in the log)"] if text is None else text.splitlines() or [""]):
        print(f"{label if number == 0 else '':7} | {line}".rstrip())  # noqa: T201 (examples print)
