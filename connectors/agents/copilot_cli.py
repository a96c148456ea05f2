r"""Copilot CLI sessions (`~/.copilot/session-state/<id>/events.jsonl`), one event per line.

>>> show(CopilotCli(), '''
... {"type": "session.start", "data": {"sessionId": "s", "producer": "copilot-agent", "copilotVersion": "1.0.71"}}
... {"type": "assistant.message", "data": {"content": "", "toolRequests": [ \
...     {"toolCallId": "c1", "name": "bash", "arguments": {"command": "ls"}}]}}
... {"type": "tool.execution_complete", "data": {"toolCallId": "c1", "success": true, \
...     "result": {"content": "notes.txt\\n<exited with exit code 0>"}}}
... ''')
action  | {"name": "bash", "arguments": {"command": "ls"}}
after   | notes.txt

Events of a sub-agent name the call that started it, and form a trajectory of relation `subagent`. Texts that the client
added to the conversation, such as skills and notifications, are harness texts. The events that `copilot -p` prints
(`--output-format json`) are read alike; there, the event of a reasoning follows its message. Left out without a reject:
usage, hooks, permissions, and the progress of a command's output.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, ClassVar, Final

from trajmill.connectors.agents.agent_session import AgentSession, Facts, fact
from trajmill.connectors.agents.event_stream import head_events
from trajmill.connectors.connector import Sniff
from trajmill.connectors.conversation.calls import MessageError, call
from trajmill.connectors.conversation.content import result_of, shown
from trajmill.connectors.conversation.turns import Part, Result, Said, System, Text, Thought
from trajmill.connectors.reading.fields import key_of, object_of, objects_of, str_of, text_in
from trajmill.connectors.reading.times import moment

_FAMILY: Final = re.compile(
    r"(?:session|user|assistant|tool|subagent|hook|system|permission|skill|model|mcp)\.[a-z_.]{2,60}|abort|result"
)
_HARNESS: Final = {"system.notification": "content", "session.compaction_complete": "summaryContent"}
_ACTS: Final = frozenset({"assistant.message", "tool.execution_complete", "user.message"})


class CopilotCli(AgentSession):
    """Session event logs of GitHub's Copilot CLI."""

    name: ClassVar[str] = "copilot_cli"
    version: ClassVar[str] = "5"
    title: ClassVar[str] = "Copilot CLI session events (JSONL)"
    agent = "copilot-cli"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        for number, event in head_events(head, 8):
            kind, data = event.get("type"), event.get("data")
            if not isinstance(kind, str) or not isinstance(data, dict) or not _FAMILY.fullmatch(kind):
                continue
            if kind == "session.start" and ("copilotVersion" in data or data.get("producer") == "copilot-agent"):
                return Sniff(0.97, f"line {number} is the session.start of a Copilot CLI session")
            if "parentId" in event or kind in _ACTS:
                return Sniff(0.9, f"line {number} is an event of type {kind} with data")
        return None

    def thread(self, line: dict[str, Any], facts: Facts) -> str | None:
        data, agent = object_of(line.get("data")), key_of(line.get("agentId"))
        if agent is not None and line.get("type") == "subagent.started":
            facts.started[agent] = key_of(data.get("toolCallId")) or agent
        return key_of(data.get("parentToolCallId")) or (agent and facts.started.get(agent, agent))

    def parts(self, line: dict[str, Any], offset: int, facts: Facts) -> Iterator[Part] | None:
        kind, data = str_of(line.get("type")), object_of(line.get("data"))
        facts.model = fact(data.get("selectedModel") or data.get("newModel") or data.get("model"), facts.model)
        if kind in ("session.start", "session.resume"):
            facts.id, facts.version = (
                fact(data.get("sessionId"), facts.id),
                fact(data.get("copilotVersion"), facts.version),
            )
            facts.cwd = fact(object_of(data.get("context")).get("cwd"), facts.cwd)
        return self._parts(kind, line, data, offset, facts) if _FAMILY.fullmatch(kind) else None

    def _parts(
        self, kind: str, line: dict[str, Any], data: dict[str, Any], offset: int, facts: Facts
    ) -> Iterator[Part]:
        at = moment(line.get("timestamp"))
        if kind == "system.message":
            yield System(str_of(data.get("content")))
        elif kind == "user.message":
            source, text = str_of(data.get("source")), str_of(data.get("content"))
            by_client = source not in ("", "user") and not source.startswith("agent-")
            text = text or (str_of(data.get("transformedContent")) if by_client else "")
            yield Said("harness" if by_client else "user", text, at=at)
        elif kind == "result":
            facts.id = fact(line.get("sessionId"), facts.id)
        elif kind in _HARNESS:
            yield Said("harness", str_of(data.get(_HARNESS[kind])))
        elif kind in ("assistant.reasoning", "assistant.message"):
            yield from _agent(kind, data, offset, at, facts)
        elif kind == "tool.execution_start":
            if data.get("mcpServerName"):
                facts.mcp.add(str_of(data.get("toolName")))
            if key_of(data.get("toolCallId")) not in facts.names:
                yield call(data.get("toolName"), data.get("arguments"), data.get("toolCallId"), offset, at)
        elif kind == "tool.execution_complete":
            yield _result(data, offset, at)


def _agent(kind: str, data: dict[str, Any], offset: int, at: datetime | None, facts: Facts) -> Iterator[Part]:
    """Yield the agent's thoughts, texts and calls. A thought in a message and in an event beside it counts once."""
    is_message = kind == "assistant.message"
    text = str_of(data.get("content"))
    thought = str_of(data.get("reasoningText")) if is_message else text
    other = "assistant.reasoning" if is_message else "assistant.message"
    repeated = facts.thought == other + thought
    if thought.strip() and not repeated:
        yield Thought(thought, offset, at)
    facts.thought = None if repeated else kind + thought
    if is_message and text.strip():
        yield Text(text, offset, at)
    for request in objects_of(data.get("toolRequests")):
        if request.get("mcpServerName"):
            facts.mcp.add(str_of(request.get("name")))
        yield call(request.get("name"), request.get("arguments"), request.get("toolCallId"), offset, at)


def _result(data: dict[str, Any], offset: int, at: datetime | None) -> Result:
    key, success, result = key_of(data.get("toolCallId")), data.get("success"), data.get("result")
    if key is None:
        raise MessageError("bad_message", "wanted the id of a call in tool.execution_complete")
    content = result.get("content") if isinstance(result, dict) else result
    if content is None:
        content = text_in(data.get("error"), "message") or data.get("error")
    is_error = not success if isinstance(success, bool) else None
    return result_of(shown(content), key, offset, is_error=is_error, at=at)
