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


def adp(one: Session) -> Members:
    content: list[dict[str, Any]] = [{"class_": "text_observation", "source": "user", "content": one.task}]
    for act in one.acts:
        command = act.arguments["command"]
        called = {"class_": "code_action", "language": "bash", "content": command, "description": act.said}
        content.append({**called, "tool_call_id": act.call_id})
        shown = {"class_": "text_observation", "source": "system", "content": act.shown}
        content.append({**shown, "tool_call_id": act.call_id})
    content.append({"class_": "message_action", "content": "Done.", "description": None})
    return lines([{"id": f"adp-{one.number}", "content": content, "details": {"dataset": "made"}}])


def _wire(one: Session) -> list[tuple[Message, Message]]:
    """Requests with their answers: the opening, the list of tools, and a call for each act."""
    pairs = [
        (request(0, "initialize", greeting("client", "c")), response(0, greeting("server", "s"))),
        (request(1, "tools/list", {}), response(1, {"tools": tools()})),
    ]
    for number, act in enumerate(one.acts, 2):
        answer = {"content": [{"type": "text", "text": act.shown}], "isError": False}
        call = request(number, "tools/call", {"name": act.tool, "arguments": act.arguments})
        pairs.append((call, response(number, answer)))
    return pairs


def mcp_jsonrpc(one: Session) -> Members:
    return lines(message for pair in _wire(one) for message in pair)


def mcp_recorder(one: Session) -> Members:
    told = {"response_is_sse": True, "response_status": 200, "latency_ms": 16, "http_method": None, "http_path": None}
    pairs = [{"type": "jsonrpc_request", "request": ask, "response": back, **told} for ask, back in _wire(one)]
    known = {"recorded_at": moment(0), "server_url": "http://localhost:3000", "protocol_version": "2025-06-18"}
    return document({"version": "1.0", "metadata": known, "interactions": pairs})


def agent_vcr(one: Session) -> Members:
    (hello, welcome), *pairs = _wire(one)
    told = {"direction": "client_to_server", "notifications": [], "latency_ms": 8.7}
    calls = [
        {"sequence": place, "timestamp": moment(place), "request": ask, "response": back, **told}
        for place, (ask, back) in enumerate(pairs)
    ]
    opened = {"initialize_request": hello, "initialize_response": welcome, "capabilities": {"tools": {}}}
    known = {"version": "1.0.0", "recorded_at": moment(0), "transport": "stdio"}
    return document({"format_version": "1.0.0", "metadata": known, "session": {**opened, "interactions": calls}})


def mcp_inspector(one: Session) -> Members:
    told = {"direction": "request", "origin": "client"}
    return document(
        [
            {"id": f"h{place}", "timestamp": moment(place), **told, "message": ask, "response": back, "duration": 40}
            for place, (ask, back) in enumerate(_wire(one))
        ]
    )


def attributes(told: Mapping[str, str]) -> list[dict[str, Any]]:
    """Attributes of a span by their names behind `gen_ai.`."""
    return [{"key": f"gen_ai.{key}", "value": {"stringValue": value}} for key, value in told.items()]


def exported(span: dict[str, Any]) -> dict[str, Any]:
    """A span as OTLP exports it."""
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": "x"}, "spans": [span]}]}]}


def otel_genai(one: Session) -> Members:
    """Spans of a conversation: each request to the model repeats what was said before, as the conventions want it."""
    said: list[dict[str, Any]] = [{"role": "user", "parts": [{"type": "text", "content": one.task}]}]
    spans = []

    def span(number: int, name: str, **told: str) -> None:
        begun = 1_700_000_000_000_000_000 + number * 10**9
        ids = {"traceId": f"{one.number:032x}", "spanId": f"{number:016x}", "name": name, "kind": 1}
        times = {"startTimeUnixNano": str(begun), "endTimeUnixNano": str(begun + 9 * 10**8)}
        spans.append({**ids, **times, "attributes": attributes(told), "status": {}})

    for place, act in enumerate(one.acts[:10]):
        called = {"type": "tool_call", "id": act.call_id, "name": act.tool, "arguments": act.arguments}
        words = {"role": "assistant", "parts": [{"type": "text", "content": act.said}, called]}
        spoken = {"operation.name": "chat", "request.model": "m", "input.messages": json.dumps(said)}
        span(2 * place, "chat m", **spoken, **{"output.messages": json.dumps([words])})
        ran = {"operation.name": "execute_tool", "tool.name": act.tool, "tool.call.id": act.call_id}
        gave = {"tool.call.arguments": json.dumps(act.arguments), "tool.call.result": act.shown}
        span(2 * place + 1, f"execute_tool {act.tool}", **ran, **gave)
        back = {"type": "tool_call_response", "id": act.call_id, "response": act.shown}
        said += [words, {"role": "tool", "parts": [back]}]
    return lines(map(exported, spans))


def react_notebook(one: Session) -> Members:
    told = [f"{one.number} Claim: {one.task.split(chr(10))[0]}\n"]
    for place, act in enumerate(one.acts):
        shown = act.shown.replace("\n", " ")
        told.append(f"Thought {place + 1}: {act.said}\n")
        told.append(f"Action {place + 1}: Search[{act.arguments['id']} {act.tool}]\n")
        told.append(f"Observation {place + 1}: {shown}\n")
        told.append("\n")
    told.append(f"{{'steps': {len(one.acts)}, 'answer': 'SUPPORTS', 'gt_answer': 'SUPPORTS', 'question_idx': 1}} \n")
    source = ["def webthink(idx=None, prompt=webthink_prompt, to_print=True):\n", "    question = env.reset(idx=idx)\n"]
    cells = [
        {"cell_type": "code", "execution_count": 1, "metadata": {}, "outputs": [], "source": source},
        {
            "cell_type": "code",
            "execution_count": 2,
            "metadata": {},
            "outputs": [{"name": "stdout", "output_type": "stream", "text": told}],
            "source": ["webthink(1)"],
        },
    ]
    return document({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 2}, 1)


def awm(one: Session) -> Members:
    turns: list[dict[str, Any]] = []
    for place, act in enumerate(one.acts):
        asked = {"tool_name": f"mcp_tool_{act.tool}", "arguments": json.dumps(act.arguments)}
        call = {"id": f"call_{1773656100000 + place}_0", "name": "call_tool", "arguments": asked}
        written = json.dumps({"name": "call_tool", "arguments": asked})
        turns.append(
            {
                "iteration": place + 1,
                "role": "assistant",
                "content": f"<think>\n{act.said}\n</think>\n<tool_call>\n{written}\n</tool_call>",
                "tool_calls": [call],
                "tool_response": {"tool_call_id": call["id"], "content": act.shown},
            }
        )
    known = {"scenario": f"mill_{one.number}", "task_id": 4, "task": one.task, "model": "m", "max_iterations": 40}
    told = {"total_iterations": len(turns), "trajectory": turns, "messages": opening(one.system, one.task)}
    return document({**known, **told})


def _chat(one: Session) -> list[dict[str, Any]]:
    said = opening(one.system, one.task)
    for act in one.acts:
        call = function_call(act.call_id, act.tool, json.dumps(act.arguments))
        said.append({"role": "assistant", "content": act.said, "tool_calls": [call]})
        said.append({"role": "tool", "tool_call_id": act.call_id, "name": act.tool, "content": act.shown})
    return said


def chat_tools(one: Session) -> Members:
    listed = [function({"name": tool["name"], "parameters": tool["inputSchema"]}) for tool in tools()]
    return lines([{"id": f"r{one.number}", "tools": listed, "messages": _chat(one)}])


def swe_rows(one: Session) -> Members:
    """A row as SWE-smith publishes them, whose messages are JSON text, or as Nebius does, in turn."""
    if one.number % 2:
        row = {"instance_id": f"acme__lamp.0a1b2c3d.func_pm__{one.number}", "resolved": True, "model": "m"}
        return lines([{"messages": json.dumps(_chat(one)), **row, "patch": "diff"}])
    empty = {"cutoff_date": None, "mask": False}
    said = [{**empty, "role": "system", "system_prompt": one.system, "text": None}]
    said.append({**empty, "role": "user", "system_prompt": None, "text": f"ISSUE:\n{one.task}\n"})
    state = "\n(Open file: n/a)\n(Current directory: /acme__lamp)\nbash-$"
    for act in one.acts:
        written = f"{act.said}\n```\n{act.arguments['command']}\n```"
        said.append({**empty, "role": "ai", "system_prompt": None, "text": written})
        said.append({**empty, "role": "user", "system_prompt": None, "text": act.shown + "\n" + state})
    row = {"instance_id": f"acme__lamp-{one.number}", "model_name": "m", "target": False, "trajectory": said}
    return lines([{**row, "exit_status": "submitted", "generated_patch": "diff", "eval_logs": "log"}])


def openhands(one: Session) -> Members:
    message = {"content": one.task, "image_urls": None, "wait_for_response": False}
    events: list[dict[str, Any]] = [
        {
            "id": 0,
            "timestamp": moment(0)[:-1],
            "source": "user",
            "message": one.task,
            "action": "message",
            "args": message,
        }
    ]
    for place, act in enumerate(one.acts):
        command = act.arguments["command"]
        call = function_call(act.call_id, "execute_bash", json.dumps(act.arguments))
        reply = {"message": {"role": "assistant", "content": act.said, "tool_calls": [call]}}
        told = {"id": f"reply-{place}", "model": "m", "choices": [reply]}
        asked = {"function_name": "execute_bash", "tool_call_id": act.call_id, "model_response": told}
        arguments = {"command": command, "is_input": "false", "thought": act.said, "blocking": False, "hidden": False}
        at = {"timestamp": moment(place)[:-1], "source": "agent"}
        running = {"id": 2 * place + 1, **at, "message": f"Running command: {command}", "action": "run"}
        events.append({**running, "tool_call_metadata": asked, "args": arguments})
        known = {"exit_code": 0, "pid": -1, "username": "miller", "working_dir": "/workspace", "prefix": ""}
        extras = {"command": command, "metadata": {**known, "suffix": "\n[The command completed with exit code 0.]"}}
        done = {"id": 2 * place + 2, **at, "message": f"Command `{command}` executed with exit code 0."}
        ran = {"cause": 2 * place + 1, "observation": "run", "content": act.shown, "extras": extras, "success": True}
        events.append({**done, "tool_call_metadata": asked, **ran})
    return document(events)


def table(one: Session) -> Members:
    """A row of chat messages, as data sets of agents are published in Parquet."""
    return _parquet(pa.Table.from_pylist([{"id": f"r{one.number}", "messages": _chat(one), "resolved": True}]))


def _parquet(rows: pa.Table) -> bytes:
    written = BytesIO()
    pq.write_table(rows, written, compression="zstd")
    return written.getvalue()


def _one_table(tables: Sequence[bytes]) -> bytes:
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
    "table": ("rows.parquet", "swe", table, _one_table),
    "terminus": ("mill", "terminal", terminus, None),
    "terminus_rows": ("rows.jsonl", "terminal", terminus_rows, _LINES),
}
"""Connector → (name of a log, domain of its sessions, what writes one, how several become one log)."""


def made(name: str) -> list[MemoryBlob]:
    """Logs of a connector of about `BYTES` bytes together, in memory; none for one that is not in `MADE`."""
    if name not in MADE:
        return []
    file, domain, write, join = MADE[name]
    written: list[Any] = []
    size = 0
    for one in sessions(domain):
        written.append(write(one))
        size += sum(map(len, written[-1].values() if isinstance(written[-1], dict) else [written[-1]]))
        if size >= BYTES:
            break
    if join is not None:
        return [MemoryBlob(file, join(written))]
    return [MemoryBlob(f"{place}/{file}", log) for place, log in enumerate(written)]
