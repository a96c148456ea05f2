"""Logs of real sizes of agents at a terminal; see `session_logs`."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.logs.sessions import Act, Session
from samples.writing.json_text import document, lines
from samples.writing.moments import moment

Members = bytes | dict[str, bytes]
"""A log of one file, or the files of one by name."""


def codex_exec(session: Session) -> Members:
    events: list[dict[str, Any]] = [
        {"type": "thread.started", "thread_id": f"t{session.number}"},
        {"type": "turn.started"},
    ]
    for act in session.acts:
        thought = {"id": f"item_{2 * act.number}", "type": "reasoning", "text": act.said}
        ran = {"id": f"item_{2 * act.number + 1}", "type": "command_execution", "command": act.arguments["command"]}
        begun = {**ran, "aggregated_output": "", "exit_code": None, "status": "in_progress"}
        done = {**ran, "aggregated_output": act.shown, "exit_code": 0, "status": "completed"}
        events.append({"type": "item.completed", "item": thought})
        events.append({"type": "item.started", "item": begun})
        events.append({"type": "item.completed", "item": done})
    events.append({"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 1}})
    return lines(events)


def gemini_cli(session: Session) -> Members:
    messages: list[dict[str, Any]] = [{"id": "m", "timestamp": moment(0), "type": "user", "content": session.task}]
    for index, act in enumerate(session.acts):
        response = {"functionResponse": {"id": act.call_id, "name": act.tool, "response": {"output": act.shown}}}
        called = {"id": act.call_id, "name": act.tool, "displayName": act.tool, "args": act.arguments}
        display = {
            "status": "success",
            "timestamp": moment(index),
            "displayName": act.tool,
            "resultDisplay": act.shown[:200],
        }
        thought = {"subject": "Plan", "description": act.said, "timestamp": moment(index)}
        messages.append(
            {
                "id": f"m-{act.number}",
                "timestamp": moment(index),
                "type": "gemini",
                "content": "",
                "thoughts": [thought],
                "model": "gemini-2.5-pro",
                "tokens": {"input": 1000, "output": 10, "total": 1010},
                "toolCalls": [{**called, "result": [response], **display}],
            }
        )
    known = {
        "sessionId": f"s-{session.number}",
        "projectHash": "5f" * 32,
        "startTime": moment(0),
        "lastUpdated": moment(99),
    }
    return document({**known, "messages": messages})


def managed_agent(session: Session) -> Members:
    events: list[dict[str, Any]] = []

    def event(role: str, kind: str, content: str, raw: dict[str, Any]) -> None:
        at, number = moment(len(events)), f"sevt_{session.number}_{len(events)}"
        event_fields = {"id": number, "processed_at": at, "type": f"{role}.{kind}", **raw}
        events.append({"role": role, "kind": kind, "time": at, "raw": event_fields, "content": content})

    def text(content: str) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": content}]}

    event("user", "message", session.task, text(session.task))
    for act in session.acts:
        event("agent", "message", act.said, text(act.said))
        event("agent", "tool_use", json.dumps(act.arguments), {"name": "bash", "input": act.arguments})
        called = events[-1]["raw"]["id"]
        events[-1]["tool"] = "bash"
        event("agent", "tool_result", act.shown, {"is_error": False, "tool_use_id": called, **text(act.shown)})
    return lines(events)


def _atif(session: Session) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"step_id": 1, "source": "user", "timestamp": moment(0), "message": session.task}]
    for index, act in enumerate(session.acts):
        called = {"tool_call_id": act.call_id, "function_name": "bash", "arguments": act.arguments}
        steps.append(
            {
                "step_id": index + 2,
                "timestamp": moment(index + 1),
                "source": "agent",
                "model_name": "m-1",
                "message": act.said,
                "tool_calls": [called],
                "observation": {"results": [{"source_call_id": act.call_id, "content": act.shown}]},
                "metrics": {"prompt_tokens": 1000, "completion_tokens": 100, "cost_usd": 0.01},
            }
        )
    agent = {"name": "acme-agent", "version": "2.1", "model_name": "m-1"}
    return {"schema_version": "ATIF-v1.5", "session_id": f"s-{session.number}", "agent": agent, "steps": steps}


def atif(session: Session) -> Members:
    return document(_atif(session))


def harbor(session: Session) -> Members:
    trial = f"mill__{session.number}"
    config = {"task": {"path": "tasks/mill"}, "trial_name": trial, "trials_dir": "jobs/one", "agent": {"name": "acme"}}
    result = {
        "id": f"{session.number:08}-0000-4000-8000-000000000001",
        "task_name": "mill",
        "trial_name": trial,
        "trial_uri": f"file:///jobs/one/{trial}",
        "source": "terminal-bench",
        "config": config,
        "agent_info": {"name": "acme-agent", "version": "2.1", "model_info": {"name": "m-1", "provider": "acme"}},
        "verifier_result": {"rewards": {"reward": 1.0}},
        "exception_info": None,
    }
    files = {"result.json": result, "config.json": config, "agent/trajectory.json": _atif(session)}
    return {name: document(value) for name, value in files.items()}


def _first_prompt(session: Session) -> str:
    """The first prompt of Terminus-2."""
    head = 'You are an AI assistant tasked with solving command-line tasks. Answer with JSON: "analysis", "plan", '
    return f'{head}"commands".\n\nTask Description:\n{session.task}\n\nCurrent terminal state:\nroot@h:/app# '


def _reply_of(act: Act) -> str:
    keys = [{"keystrokes": act.arguments["command"] + "\n", "duration": 0.1}]
    return json.dumps({"analysis": act.said, "plan": "I go on.", "commands": keys, "task_complete": False})


def terminus_rows(session: Session) -> Members:
    messages = [{"role": "user", "content": _first_prompt(session)}]
    for act in session.acts:
        messages.append({"role": "assistant", "content": _reply_of(act)})
        messages.append({"role": "user", "content": f"New Terminal Output:\n{act.shown}"})
    known = {"agent": "terminus-2", "model": "m", "task": f"mill-{session.number}", "episode": "episode-1"}
    return lines([{"conversations": messages, **known}])


def gemini_stream(session: Session) -> Members:
    """Write a session as `gemini -o stream-json` prints it; the agent's words come in pieces."""
    events: list[dict[str, Any]] = [
        {"type": "init", "session_id": f"s-{session.number}", "model": "gemini-2.5-pro"},
        {"type": "message", "role": "user", "content": session.task},
    ]
    for act in session.acts:
        pieces = [act.said[begin : begin + 80] for begin in range(0, len(act.said), 80)]
        events += [{"type": "message", "role": "assistant", "content": piece, "delta": True} for piece in pieces]
        events.append({"type": "tool_use", "tool_name": act.tool, "tool_id": act.call_id, "parameters": act.arguments})
        events.append({"type": "tool_result", "tool_id": act.call_id, "status": "success", "output": act.shown})
    events.append(
        {"type": "result", "status": "success", "stats": {"total_tokens": 1010, "tool_calls": len(session.acts)}}
    )
    return lines({"type": event["type"], "timestamp": moment(index), **event} for index, event in enumerate(events))


def terminus(session: Session) -> Members:
    """The folder of a trial: what each request asked and what the agent answered."""
    files: dict[str, bytes] = {}
    asked = _first_prompt(session)
    for index, act in enumerate(session.acts):
        files[f"episode-{index}/prompt.txt"] = asked.encode()
        files[f"episode-{index}/response.txt"] = _reply_of(act).encode()
        asked = f"New Terminal Output:\n{act.shown}"
    done = {"analysis": "All is as asked.", "plan": "I stop.", "commands": [], "task_complete": True}
    files[f"episode-{len(session.acts)}/prompt.txt"] = asked.encode()
    files[f"episode-{len(session.acts)}/response.txt"] = json.dumps(done).encode()
    return files
