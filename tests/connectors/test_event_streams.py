"""Event streams of Gemini's command line client and of Claude managed agents: turns, answers, voices, recognition."""

import json
from typing import Any

from trajmill.connectors.agents.gemini_stream import GeminiStream
from trajmill.connectors.agents.managed_agent import ManagedAgent
from trajmill.connectors.registry import sniff

Line = dict[str, Any]


def log(*lines: Line | str) -> bytes:
    return "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines).encode()


INIT: Line = {"type": "init", "session_id": "s", "model": "m"}


def use(key: str | None, name: str = "run_shell_command") -> Line:
    return {"type": "tool_use", "tool_name": name, "tool_id": key, "parameters": {"command": "x"}}


def answer(key: str | None, output: str | None = "ok", status: str = "success", **more: Any) -> Line:
    told = {} if output is None else {"output": output}
    return {"type": "tool_result", "tool_id": key, "status": status, **told, **more}


def event(key: str, kind: str, **more: Any) -> Line:
    return {"id": key, "type": kind, "processed_at": "2026-03-04T09:00:00.5Z", **more}


def call(key: str, **more: Any) -> Line:
    return event(key, "agent.tool_use", name="bash", input={"command": key}, **more)


def test_streams_are_told_from_each_other_and_from_other_json_lines() -> None:
    exported = {"role": "agent", "kind": "tool_use", "tool": "b", "content": "{}", "time": "t"}
    heads = {
        log("noise", INIT): "gemini_stream",
        log(use("a")): "gemini_stream",
        log(answer("a")): "gemini_stream",
        log(call("a")): "managed_agent",
        log({"role": "system", "kind": "x", "time": "t", "raw": event("a", "session.status_idle")}): "managed_agent",
        log(exported): "managed_agent",
    }
    for head, name in heads.items():
        assert [one.name for one, _ in sniff(head, "transcript.jsonl")][:1] == [name]
    for other in ({"type": "message", "role": "user", "content": "x"}, {"role": "user", "kind": "note"}):
        assert not any(c.sniff(log(other), "a.jsonl") for c in (GeminiStream(), ManagedAgent()))
