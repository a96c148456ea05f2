"""Logs of real sizes for formats of which no public log of some size is at hand; the sessions are of `sessions`.

Each is written as the tool writes it, indented where that tool indents. They serve for measuring speed: a format's
rarer members and turns are left out, those that a reader has to go through are not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.logs.sessions import Session, sessions, tools
from benchmarks.logs.terminal_logs import (
    Members,
    atif,
    codex_exec,
    gemini_cli,
    gemini_stream,
    harbor,
    managed_agent,
    terminus,
    terminus_rows,
)
from samples.writing.json_text import document, lines
from samples.writing.messages import Message, function, function_call, greeting, opening, request, response
from samples.writing.moments import moment
from trajmill.connectors.connector import MemoryBlob

BYTES: Final = 1_500_000
"""About how much is made of a format."""


def adp(session: Session) -> Members:
    content: list[dict[str, Any]] = [{"class_": "text_observation", "source": "user", "content": session.task}]
    for act in session.acts:
        command = act.arguments["command"]
        called = {"class_": "code_action", "language": "bash", "content": command, "description": act.said}
        content.append({**called, "tool_call_id": act.call_id})
        shown = {"class_": "text_observation", "source": "system", "content": act.shown}
        content.append({**shown, "tool_call_id": act.call_id})
    content.append({"class_": "message_action", "content": "Done.", "description": None})
    return lines([{"id": f"adp-{session.number}", "content": content, "details": {"dataset": "made"}}])


def _wire(session: Session) -> list[tuple[Message, Message]]:
    """Requests with their answers: the opening, the list of tools, and a call for each act."""
    pairs = [
        (request(0, "initialize", greeting("client", "c")), response(0, greeting("server", "s"))),
        (request(1, "tools/list", {}), response(1, {"tools": tools()})),
    ]
    for number, act in enumerate(session.acts, 2):
        answer = {"content": [{"type": "text", "text": act.shown}], "isError": False}
        call = request(number, "tools/call", {"name": act.tool, "arguments": act.arguments})
        pairs.append((call, response(number, answer)))
    return pairs


def mcp_jsonrpc(session: Session) -> Members:
    return lines(message for pair in _wire(session) for message in pair)


def mcp_recorder(session: Session) -> Members:
    transport = {
        "response_is_sse": True,
        "response_status": 200,
        "latency_ms": 16,
        "http_method": None,
        "http_path": None,
    }
    pairs = [{"type": "jsonrpc_request", "request": ask, "response": back, **transport} for ask, back in _wire(session)]
    known = {"recorded_at": moment(0), "server_url": "http://localhost:3000", "protocol_version": "2025-06-18"}
    return document({"version": "1.0", "metadata": known, "interactions": pairs})


def agent_vcr(session: Session) -> Members:
    (hello, welcome), *pairs = _wire(session)
    fields = {"direction": "client_to_server", "notifications": [], "latency_ms": 8.7}
    calls = [
        {"sequence": index, "timestamp": moment(index), "request": ask, "response": back, **fields}
        for index, (ask, back) in enumerate(pairs)
    ]
    opened = {"initialize_request": hello, "initialize_response": welcome, "capabilities": {"tools": {}}}
    known = {"version": "1.0.0", "recorded_at": moment(0), "transport": "stdio"}
    return document({"format_version": "1.0.0", "metadata": known, "session": {**opened, "interactions": calls}})


def mcp_inspector(session: Session) -> Members:
    fields = {"direction": "request", "origin": "client"}
    return document(
        [
            {"id": f"h{index}", "timestamp": moment(index), **fields, "message": ask, "response": back, "duration": 40}
            for index, (ask, back) in enumerate(_wire(session))
        ]
    )


def attributes(values: Mapping[str, str]) -> list[dict[str, Any]]:
    """Attributes of a span by their names behind `gen_ai.`."""
    return [{"key": f"gen_ai.{key}", "value": {"stringValue": value}} for key, value in values.items()]


def export_span(span: dict[str, Any]) -> dict[str, Any]:
    """A span as OTLP exports it."""
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": "x"}, "spans": [span]}]}]}


def otel_genai(session: Session) -> Members:
    """Spans of a conversation: each request to the model repeats what was said before, as the conventions want it."""
    messages: list[dict[str, Any]] = [{"role": "user", "parts": [{"type": "text", "content": session.task}]}]
    spans = []

    def span(number: int, name: str, **values: str) -> None:
        begun = 1_700_000_000_000_000_000 + number * 10**9
        ids = {"traceId": f"{session.number:032x}", "spanId": f"{number:016x}", "name": name, "kind": 1}
        times = {"startTimeUnixNano": str(begun), "endTimeUnixNano": str(begun + 9 * 10**8)}
        spans.append({**ids, **times, "attributes": attributes(values), "status": {}})

    for index, act in enumerate(session.acts[:10]):
        called = {"type": "tool_call", "id": act.call_id, "name": act.tool, "arguments": act.arguments}
        words = {"role": "assistant", "parts": [{"type": "text", "content": act.said}, called]}
        spoken = {"operation.name": "chat", "request.model": "m", "input.messages": json.dumps(messages)}
        span(2 * index, "chat m", **spoken, **{"output.messages": json.dumps([words])})
        ran = {"operation.name": "execute_tool", "tool.name": act.tool, "tool.call.id": act.call_id}
        gave = {"tool.call.arguments": json.dumps(act.arguments), "tool.call.result": act.shown}
        span(2 * index + 1, f"execute_tool {act.tool}", **ran, **gave)
        back = {"type": "tool_call_response", "id": act.call_id, "response": act.shown}
        messages += [words, {"role": "tool", "parts": [back]}]
    return lines(map(export_span, spans))


def react_notebook(session: Session) -> Members:
    printed = [f"{session.number} Claim: {session.task.split(chr(10))[0]}\n"]
    for index, act in enumerate(session.acts):
        shown = act.shown.replace("\n", " ")
        printed.append(f"Thought {index + 1}: {act.said}\n")
        printed.append(f"Action {index + 1}: Search[{act.arguments['id']} {act.tool}]\n")
        printed.append(f"Observation {index + 1}: {shown}\n")
        printed.append("\n")
    printed.append(
        f"{{'steps': {len(session.acts)}, 'answer': 'SUPPORTS', 'gt_answer': 'SUPPORTS', 'question_idx': 1}} \n"
    )
    source = ["def webthink(idx=None, prompt=webthink_prompt, to_print=True):\n", "    question = env.reset(idx=idx)\n"]
    cells = [
        {"cell_type": "code", "execution_count": 1, "metadata": {}, "outputs": [], "source": source},
        {
            "cell_type": "code",
            "execution_count": 2,
            "metadata": {},
            "outputs": [{"name": "stdout", "output_type": "stream", "text": printed}],
            "source": ["webthink(1)"],
        },
    ]
    return document({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 2}, 1)


def awm(session: Session) -> Members:
    turns: list[dict[str, Any]] = []
    for index, act in enumerate(session.acts):
        asked = {"tool_name": f"mcp_tool_{act.tool}", "arguments": json.dumps(act.arguments)}
        call = {"id": f"call_{1773656100000 + index}_0", "name": "call_tool", "arguments": asked}
        written = json.dumps({"name": "call_tool", "arguments": asked})
        turns.append(
            {
                "iteration": index + 1,
                "role": "assistant",
                "content": f"<think>\n{act.said}\n</think>\n<tool_call>\n{written}\n</tool_call>",
                "tool_calls": [call],
                "tool_response": {"tool_call_id": call["id"], "content": act.shown},
            }
        )
    known = {
        "scenario": f"mill_{session.number}",
        "task_id": 4,
        "task": session.task,
        "model": "m",
        "max_iterations": 40,
    }
    totals = {"total_iterations": len(turns), "trajectory": turns, "messages": opening(session.system, session.task)}
    return document({**known, **totals})


def _chat(session: Session) -> list[dict[str, Any]]:
    messages = opening(session.system, session.task)
    for act in session.acts:
        call = function_call(act.call_id, act.tool, json.dumps(act.arguments))
        messages.append({"role": "assistant", "content": act.said, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": act.call_id, "name": act.tool, "content": act.shown})
    return messages


def chat_tools(session: Session) -> Members:
    listed = [function({"name": tool["name"], "parameters": tool["inputSchema"]}) for tool in tools()]
    return lines([{"id": f"r{session.number}", "tools": listed, "messages": _chat(session)}])


def swe_rows(session: Session) -> Members:
    """A row as SWE-smith publishes them, whose messages are JSON text, or as Nebius does, in turn."""
    if session.number % 2:
        row = {"instance_id": f"acme__lamp.0a1b2c3d.func_pm__{session.number}", "resolved": True, "model": "m"}
        return lines([{"messages": json.dumps(_chat(session)), **row, "patch": "diff"}])
    empty = {"cutoff_date": None, "mask": False}
    messages = [{**empty, "role": "system", "system_prompt": session.system, "text": None}]
    messages.append({**empty, "role": "user", "system_prompt": None, "text": f"ISSUE:\n{session.task}\n"})
    state = "\n(Open file: n/a)\n(Current directory: /acme__lamp)\nbash-$"
    for act in session.acts:
        written = f"{act.said}\n```\n{act.arguments['command']}\n```"
        messages.append({**empty, "role": "ai", "system_prompt": None, "text": written})
        messages.append({**empty, "role": "user", "system_prompt": None, "text": act.shown + "\n" + state})
    row = {"instance_id": f"acme__lamp-{session.number}", "model_name": "m", "target": False, "trajectory": messages}
    return lines([{**row, "exit_status": "submitted", "generated_patch": "diff", "eval_logs": "log"}])


def openhands(session: Session) -> Members:
    message = {"content": session.task, "image_urls": None, "wait_for_response": False}
    events: list[dict[str, Any]] = [
        {
            "id": 0,
            "timestamp": moment(0)[:-1],
            "source": "user",
            "message": session.task,
            "action": "message",
            "args": message,
        }
    ]
    for index, act in enumerate(session.acts):
        command = act.arguments["command"]
        call = function_call(act.call_id, "execute_bash", json.dumps(act.arguments))
        reply = {"message": {"role": "assistant", "content": act.said, "tool_calls": [call]}}
        completion = {"id": f"reply-{index}", "model": "m", "choices": [reply]}
        asked = {"function_name": "execute_bash", "tool_call_id": act.call_id, "model_response": completion}
        arguments = {"command": command, "is_input": "false", "thought": act.said, "blocking": False, "hidden": False}
        at = {"timestamp": moment(index)[:-1], "source": "agent"}
        running = {"id": 2 * index + 1, **at, "message": f"Running command: {command}", "action": "run"}
        events.append({**running, "tool_call_metadata": asked, "args": arguments})
        known = {"exit_code": 0, "pid": -1, "username": "miller", "working_dir": "/workspace", "prefix": ""}
        extras = {"command": command, "metadata": {**known, "suffix": "\n[The command completed with exit code 0.]"}}
        done = {"id": 2 * index + 2, **at, "message": f"Command `{command}` executed with exit code 0."}
        ran = {"cause": 2 * index + 1, "observation": "run", "content": act.shown, "extras": extras, "success": True}
        events.append({**done, "tool_call_metadata": asked, **ran})
    return document(events)


def table(session: Session) -> Members:
    """A row of chat messages, as data sets of agents are published in Parquet."""
    return _parquet(pa.Table.from_pylist([{"id": f"r{session.number}", "messages": _chat(session), "resolved": True}]))


def _parquet(rows: pa.Table) -> bytes:
    written = BytesIO()
    pq.write_table(rows, written, compression="zstd")
    return written.getvalue()


def _join_tables(tables: Sequence[bytes]) -> bytes:
    rows = [pq.read_table(BytesIO(table)) for table in tables]
    return _parquet(pa.concat_tables(rows, promote_options="permissive").combine_chunks())


Join = Callable[[Sequence[bytes]], bytes] | None
"""How the logs of several sessions are made one; None for a format whose logs hold one."""

_LINES: Final = b"".join

MADE: Final[dict[str, tuple[str, str, Callable[[Session], Members], Join]]] = {
    "adp": ("rows.jsonl", "swe", adp, _LINES),
    "codex_exec": ("exec.jsonl", "terminal", codex_exec, None),
    "gemini_cli": ("session.json", "terminal", gemini_cli, None),
    "gemini_stream": ("stream.jsonl", "terminal", gemini_stream, None),
    "managed_agent": ("session.jsonl", "terminal", managed_agent, None),
    "harbor": ("mill", "terminal", harbor, None),
    "atif": ("trajectory.json", "terminal", atif, None),
    "mcp_jsonrpc": ("wire.jsonl", "mcp", mcp_jsonrpc, None),
    "mcp_recorder": ("cassette.json", "mcp", mcp_recorder, None),
    "agent_vcr": ("session.vcr", "mcp", agent_vcr, None),
    "mcp_inspector": ("history.json", "mcp", mcp_inspector, None),
    "otel_genai": ("spans.jsonl", "mcp", otel_genai, _LINES),
    "react_notebook": ("claims.ipynb", "search", react_notebook, None),
    "awm": ("trajectory.json", "mcp", awm, None),
    "chat_tools": ("rows.jsonl", "mcp", chat_tools, _LINES),
    "openhands": ("trajectory.json", "swe", openhands, None),
    "swe_rows": ("rows.jsonl", "swe", swe_rows, _LINES),
    "table": ("rows.parquet", "swe", table, _join_tables),
    "terminus": ("mill", "terminal", terminus, None),
    "terminus_rows": ("rows.jsonl", "terminal", terminus_rows, _LINES),
}
"""Connector → (name of a log, domain of its sessions, what writes one, how several become one log)."""


def made_logs(name: str) -> list[MemoryBlob]:
    """Logs of a connector of about `BYTES` bytes together, in memory; none for one that is not in `MADE`."""
    if name not in MADE:
        return []
    file, domain, write, join = MADE[name]
    written: list[Any] = []
    size = 0
    for session in sessions(domain):
        written.append(write(session))
        size += sum(map(len, written[-1].values() if isinstance(written[-1], dict) else [written[-1]]))
        if size >= BYTES:
            break
    if join is not None:
        return [MemoryBlob(file, join(written))]
    return [MemoryBlob(f"{index}/{file}", log) for index, log in enumerate(written)]
