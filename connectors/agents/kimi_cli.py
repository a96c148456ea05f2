r"""Kimi CLI sessions: the wire (`wire.jsonl`, of Kimi Code or the older kimi-cli) or the context (`context.jsonl`).

>>> show(KimiCli(), '''
... {"type": "metadata", "protocol_version": "1.4"}
... {"type": "context.append_loop_event", "event": {"type": "tool.call", "toolCallId": "Bash_0", "name": "Bash", \
...     "args": {"command": "ls"}}}
... {"type": "context.append_loop_event", "event": {"type": "tool.result", "toolCallId": "Bash_0", \
...     "result": {"output": "notes.txt"}}}
... ''')
action  | {"name": "Bash", "arguments": {"command": "ls"}}
after   | notes.txt

The wire of kimi-cli wraps its events in `message`, and those of a sub-agent in an event of their own, which names the
call that started it. A call is answered while the agent still writes the next one, whose arguments go on in
`ToolCallPart`; all calls up to the next `StepBegin` are one turn. Kimi Code writes each sub-agent to a file of its own
(`agents/<name>/wire.jsonl`), which is read together with that of the session; the answer to a call names the agent
that it started. The client's words about an answer are in `<system>` tags, in a context, or its `note`: they are a
harness text, and in a context state whether the call failed. Left out without a reject: requests, usage, permissions
and the client's own settings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final

from trajmill.connectors.agents.agent_session import AgentSession, Facts, OpenStep, fact
from trajmill.connectors.agents.event_stream import head_events
from trajmill.connectors.connector import Log, Sniff
from trajmill.connectors.conversation.calls import MessageError, action_space, call
from trajmill.connectors.conversation.content import result_of, seen_text, shown
from trajmill.connectors.conversation.harness_text import Source, read_output
from trajmill.connectors.conversation.turns import Call, Part, Result, Said, System, Text, Thought
from trajmill.connectors.reading.fields import brief, key_of, object_of, objects_of, str_of, text_in
from trajmill.connectors.reading.times import microseconds

_MAIN: Final = "agents/main/wire.jsonl"
_LOOP: Final = "context.append_loop_event"
_BOOKS: Final = re.compile(
    r"metadata|(?:config|tools|turn|llm|permission|usage|plan_mode|full_compaction|profile|plugin|runtime"
    r"|token_counting|micro_compaction|goal|swarm_mode)\.\w{2,60}|step\.(?:begin|end)"
)
_WIRE: Final = re.compile(
    r"(?:Turn|Step|Compaction|MCPLoading|Btw)(?:Begin|End|Interrupted|Retry)|StatusUpdate|(?:Approval|Question|ToolCall"
    r"|Hook)(?:Request|Response|RequestResolved|Triggered|Resolved)|MCPStatusSnapshot|PlanDisplay"
)
_ENDS_STEP: Final = frozenset({"TurnBegin", "TurnEnd", "StepBegin", "StepInterrupted", "CompactionBegin"})
_ROLES: Final = frozenset({"_checkpoint", "_usage", "_system_prompt"})
_FILE: Final = re.compile(r"(?:(.*)/)?agents/([^/]+)/wire\.jsonl")
_STARTED: Final = re.compile(r"agent_id: (\S{1,80})\n")
_CLIENT: Final = Source("kimi-cli")
_SAID_BY_CLIENT: Final = re.compile(r"\s*<system>(.*)</system>\s*", re.DOTALL)


class KimiCli(AgentSession):
    """Session logs of Moonshot's Kimi CLI."""

    name: ClassVar[str] = "kimi_cli"
    version: ClassVar[str] = "5"
    title: ClassVar[str] = "Kimi CLI wire or context (JSONL)"
    agent = "kimi-cli"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        for number, line in head_events(head, 8):
            if line.get("type") == "metadata" and "protocol_version" in line:
                return Sniff(0.95, f"line {number} is the metadata of a wire of Kimi")
            if line.get("type") in (_LOOP, "context.append_message"):
                return Sniff(0.95, f"line {number} is of type {line['type']}")
            wrapped = object_of(line.get("message"))
            if str_of(wrapped.get("type")) in ("TurnBegin", "StepBegin") and "payload" in wrapped:
                return Sniff(0.95, f"line {number} is a {wrapped['type']} of kimi-cli")
            if str_of(line.get("role")) in _ROLES:
                return Sniff(0.95, f"line {number} is a {line['role']} of a context of kimi-cli")
        return None

    def join(self, paths: Sequence[str]) -> Iterator[Log]:
        folders: dict[str, list[str]] = {}
        for path in paths:
            if (match := _FILE.fullmatch(path)) is not None:
                folders.setdefault(match[1] or "", []).append(path)
        for folder, files in folders.items():
            members = {path[len(folder) + 1 if folder else 0 :]: path for path in files}
            if _MAIN in members and len(members) > 1:
                yield Log(folder or _MAIN, members, _MAIN)

    def agents(self, members: Sequence[str]) -> list[tuple[str | None, str]]:
        return sorted(
            ((None if member in ("", _MAIN) else member.split("/")[-2], member) for member in members),
            key=lambda entry: (entry[0] is not None, entry[1]),
        )

    def thread(self, line: dict[str, Any], facts: Facts) -> str | None:
        wrapped = object_of(line.get("message"))
        payload = object_of(wrapped.get("payload"))
        started = payload.get("parent_tool_call_id") or payload.get("task_tool_call_id")
        return key_of(started) if wrapped.get("type") == "SubagentEvent" else None

    def rest(self, facts: Facts) -> Iterable[tuple[str | None, Part]]:
        return [(thread, part) for thread, step in facts.open_steps.items() for part in (*step.acts, *step.others)]

    def parts(self, line: dict[str, Any], offset: int, facts: Facts) -> Iterable[Part] | None:
        at = microseconds(line.get("time") or line.get("timestamp"))
        kind, message = str_of(line.get("type")), object_of(line.get("message"))
        facts.model = fact(line.get("modelAlias"), facts.model)
        facts.cwd = fact(line.get("cwd") or object_of(line.get("environmentDisclosure")).get("cwd"), facts.cwd)
        if "role" in line:
            return None if line["role"] in ("", None) else _of_context(line, offset)
        if not kind and "payload" in message:
            return _of_stream(message, offset, at, facts.open_steps.setdefault(self.thread(line, facts), OpenStep()))
        if kind == "llm.tools_snapshot" and isinstance(line.get("tools"), list):
            facts.tools = action_space(line["tools"])
        if kind in ("config.update", "profile.bind") and line.get("systemPrompt") and not facts.names:
            return [System(str_of(line["systemPrompt"]))]
        if kind == _LOOP:
            event = object_of(line.get("event"))
            if match := _STARTED.match(str_of(object_of(event.get("result")).get("output"))):
                facts.started[match[1]] = str_of(event.get("toolCallId"))
            return _of_loop(event, offset, at)
        if kind == "context.append_message":
            by_user = object_of(message.get("origin")).get("kind") in ("user", None)
            return [Said("user" if by_user else "harness", shown(message.get("content")).text or "", at=at)]
        if kind == "context.apply_compaction":
            return [Said("harness", str_of(line.get("summary")))]
        return [] if _BOOKS.fullmatch(kind) else None


def _of_loop(event: dict[str, Any], offset: int, at: int | None) -> list[Part] | None:
    kind = str_of(event.get("type"))
    if kind == "content.part":
        return list(_content([event.get("part")], offset, at))
    if kind == "tool.call":
        return [call(event.get("name"), event.get("args"), event.get("toolCallId"), offset, at)]
    if kind == "tool.result":
        result = object_of(event.get("result"))
        key, error = key_of(event.get("toolCallId")), result.get("isError") is True
        answered = result_of(shown(result.get("output")), key, offset, is_error=error, at=at)
        note = str_of(result.get("note"))
        said = _SAID_BY_CLIENT.fullmatch(note)
        return [answered, *([Said("harness", said[1] if said is not None else note)] if note else [])]
    return [] if _BOOKS.fullmatch(kind) else None


def _of_stream(message: dict[str, Any], offset: int, at: int | None, step: OpenStep) -> list[Part] | None:
    """Add an event of a wire to the step that the agent is writing; return the step's parts if the event ends it."""
    if message.get("type") == "SubagentEvent":
        message = object_of(object_of(message.get("payload")).get("event"))
    kind, payload = str_of(message.get("type")), object_of(message.get("payload"))
    if kind == "ToolCallPart":
        _write_on(step, str_of(payload.get("arguments_part")))
        return []
    if kind == "ToolCall":
        step.written = None
    event_parts = _of_wire(message, offset, at)
    for part in event_parts or ():
        (step.acts if isinstance(part, Text | Thought | Call) else step.others).append(part)
    if kind == "ToolCall":
        step.written = str_of(object_of(payload.get("function")).get("arguments"))
    if kind not in _ENDS_STEP:
        return None if event_parts is None else []
    ended = [*step.acts, *step.others]
    step.acts, step.others, step.written = [], [], None
    return ended


def _write_on(step: OpenStep, more: str) -> None:
    """Add a piece to the arguments of the last call of a step."""
    if step.written is None:
        return
    step.written += more
    for position, begun in reversed([*enumerate(step.acts)]):
        if isinstance(begun, Call):
            step.acts[position] = call(begun.name, step.written, begun.call_id, begun.offset, begun.at)
            return


def _of_wire(message: dict[str, Any], offset: int, at: int | None) -> list[Part] | None:
    kind, payload = str_of(message.get("type")), object_of(message.get("payload"))
    if kind in ("TurnBegin", "SteerInput"):
        return [Said("user", shown(payload.get("user_input")).text or "", at=at)]
    if kind in ("ContentPart", "TextPart", "ThinkPart"):
        return list(_content([payload], offset, at))
    if kind == "ToolCall":
        function = object_of(payload.get("function"))
        return [call(function.get("name"), function.get("arguments"), payload.get("id"), offset, at)]
    if kind == "ToolResult":
        value = object_of(payload.get("return_value"))
        seen = shown(value.get("output") or (value.get("message") if value.get("is_error") else ""))
        error = value.get("is_error") is True
        key, code = key_of(payload.get("tool_call_id")), read_output(str_of(value.get("message")), _CLIENT).exit_code
        return [result_of(seen, key, offset, is_error=error, at=at, exit_code=code)]
    if kind == "Notification":
        return [Said("harness", str_of(payload.get("body")))]
    return [] if _WIRE.fullmatch(kind) else None


def _of_context(message: dict[str, Any], offset: int) -> Iterator[Part]:
    role, content = str_of(message.get("role")), message.get("content")
    if role == "_system_prompt":
        yield System(str_of(content))
    elif role == "assistant":
        yield from _content(content if isinstance(content, list) else [{"type": "text", "text": content}], offset, None)
        for request in objects_of(message.get("tool_calls")):
            function = object_of(request.get("function"))
            yield call(function.get("name"), function.get("arguments"), request.get("id"), offset)
    elif role in ("user", "tool"):
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
        notes = [
            (match[1], block)
            for block in objects_of(blocks)
            if (match := _SAID_BY_CLIENT.fullmatch(str_of(block.get("text"))))
        ]
        seen = shown([block for block in blocks if not any(block is note for _, note in notes)])
        failed = any(words.startswith("ERROR:") for words, _ in notes)
        yield from (Said("harness", words) for words, _ in notes if role == "user")
        if role == "tool":
            text = "\n".join(words for words, _ in notes) if failed and seen.text is None else seen_text(seen) or ""
            output = read_output("\n".join(words for words, _ in notes), _CLIENT)
            key = key_of(message.get("tool_call_id"))
            yield Result(key, None, text, offset, failed, seen.attachments, exit_code=output.exit_code, lost=seen.lost)
        elif seen.text or seen.attachments:
            yield Said("user", seen.text or "", seen.attachments)
    elif role not in _ROLES:
        raise MessageError("unknown_role", f"wanted a role of a context, met {brief(role)}")


def _content(blocks: list[Any], offset: int, at: int | None) -> Iterator[Part]:
    for block in objects_of(blocks):
        thought, text = text_in(block, "think"), text_in(block, "text")
        if thought:
            yield Thought(thought, offset, at)
        elif text and text.strip():
            yield Text(text, offset, at)
