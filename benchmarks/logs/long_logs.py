"""Logs of any length, made in no time, for measuring memory: one session that goes on for ever, or a new one every MB.

The content means nothing, but no text is like another, so that nothing is saved where equal texts are kept once.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from benchmarks.logs.session_logs import attributes, export_span
from samples.writing import claude_code as cli
from samples.writing.json_text import line, lines
from samples.writing.messages import Message, function_call, greeting, opening, request, response
from samples.writing.moments import moment, zulu

SESSION_TURNS: Final = 300
"""Turns of a session, where a log is to hold many."""

_NEW_YEAR: Final = datetime(2026, 1, 1, tzinfo=UTC)


def text(number: int, size: int = 3000) -> str:
    """A text of `size` characters of its own."""
    line = f"{number:09} {blake2b(number.to_bytes(8, 'little')).hexdigest()} file.py: word after word\n"
    return (line * (size // len(line) + 1))[:size]


_line: Final = partial(line, compact=True)
_lines: Final = partial(lines, compact=True)


def _chat(number: int) -> list[dict[str, Any]]:
    call = function_call(f"c{number}", "run", f'{{"n": {number}}}')
    return [
        {"role": "assistant", "content": f"I look at {number}.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": text(number)},
    ]


def asciicast(number: int, first: bool) -> bytes:
    head = _line({"version": 2, "width": 80, "height": 24, "timestamp": 1772000000}) if first else b""
    shown = text(number).replace("\n", "\r\n")
    at = number * 3.0
    events: list[list[Any]] = [[at, "o", "$ "], [at + 1, "i", f"ls {number}\r"], [at + 1.1, "o", f"ls {number}\r\n"]]
    return head + _lines([*events, [at + 1.2, "o", shown]])


def ttyrec(number: int, first: bool) -> bytes:
    data = b""
    keys = [f"{char}" for char in f"ls {number}"]
    pieces = ["$ ", *keys, "\r\n", text(number).replace("\n", "\r\n")]
    for index, piece in enumerate(pieces):
        at = 1_600_000_000_000_000 + number * 4_000_000 + index * 150_000
        data += struct.pack("<III", at // 1_000_000, at % 1_000_000, len(piece)) + piece.encode()
    return data


def script(number: int, first: bool) -> bytes:
    head = b'Script started on 2024-05-01 10:00:00+00:00 [TERM="xterm" COLUMNS="80" LINES="24"]\n' if first else b""
    shown = text(number).replace("\n", "\r\n")
    return head + f"\x1b[?2004huser@host:~$ ls {number}\r\n\x1b[?2004l\r{shown}".encode()


def _rpc(number: int) -> tuple[Message, Message]:
    asked = request(number, "tools/call", {"name": "look", "arguments": {"n": number}})
    return asked, response(number, {"content": [{"type": "text", "text": text(number)}]})


_HELLO: Final = request("hello", "initialize", greeting("client", "c"))


def mcp_jsonrpc(number: int, first: bool) -> bytes:
    return (_line(_HELLO) if first else b"") + _lines(_rpc(number))


def mcp_http(number: int, first: bool) -> bytes:
    asked, answer = _rpc(number)
    posts = [asked, answer] if not first else [_HELLO, response("hello", {}), asked, answer]
    return b"".join(
        _line(
            {
                "request": {"method": "POST", "url": "http://localhost/mcp", "body": json.dumps(asked)},
                "response": {
                    "status": 200,
                    "headers": {"content-type": "text/event-stream"},
                    "body": f"event: message\ndata: {json.dumps(answered)}\n\n",
                },
            }
        )
        for asked, answered in zip(posts[::2], posts[1::2], strict=True)
    )


def mcp_recorder(number: int, first: bool) -> bytes:
    asked, answer = _rpc(number)
    interaction = {"type": "jsonrpc_request", "request": asked, "response": answer, "latency_ms": 3}
    return (b"," if number else b"") + _line(interaction)


def claude_code(number: int, first: bool) -> bytes:
    session = {"sessionId": f"s{number // SESSION_TURNS}" if _many else "s", "cwd": "/a/b/c", "version": "2.0"}
    block = cli.use(f"t{number}", "Bash", {"command": f"ls {number}"})
    result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": text(number)}
    common = {**session, "isSidechain": False, "timestamp": zulu(_NEW_YEAR + timedelta(seconds=number))}
    ids = [f"{blake2b(bytes([side]) + number.to_bytes(8, 'little'), digest_size=16).hexdigest()}" for side in (0, 1)]
    before = blake2b(b"\1" + (number - 1).to_bytes(8, "little"), digest_size=16).hexdigest() if not first else None
    message = {"id": f"msg_{ids[0]}", "role": "assistant", "model": "m", "content": [block]}
    return _line({"type": "assistant", "uuid": ids[0], "parentUuid": before, "message": message, **common}) + _line(
        {
            "type": "user",
            "uuid": ids[1],
            "parentUuid": ids[0],
            "message": {"role": "user", "content": [result]},
            **common,
        }
    )


def codex(number: int, first: bool) -> bytes:
    def line(kind: str, payload: dict[str, Any]) -> bytes:
        return _line({"timestamp": moment(number + len(kind) / 1000), "type": kind, "payload": payload})

    head = line("session_meta", {"id": "x", "cwd": "/a", "cli_version": "1"}) if first else b""
    called = {"type": "function_call", "name": "shell", "arguments": f'{{"n": {number}}}', "call_id": f"c{number}"}
    answer = {"type": "function_call_output", "call_id": f"c{number}", "output": text(number)}
    return head + line("response_item", called) + line("response_item", answer)


def codex_exec(number: int, first: bool) -> bytes:
    head = _line({"type": "thread.started", "thread_id": f"t{number}"}) if first else b""
    item = {"id": f"item_{number}", "type": "command_execution", "command": f"ls {number}"}
    done = {**item, "aggregated_output": text(number), "exit_code": 0, "status": "completed"}
    return head + _line({"type": "item.started", "item": item}) + _line({"type": "item.completed", "item": done})


def chat_messages(number: int, first: bool) -> bytes:
    head = _line({"role": "user", "content": "Go."}) if first else b""
    return head + _lines(_chat(number))


def _rows_of(number: int, count: int) -> list[dict[str, Any]]:
    messages = [message for index in range(count) for message in _chat(number * count + index)]
    return [*opening("Work.", f"Task {number}."), *messages]


def chat_tools(number: int, first: bool) -> bytes:
    return _line({"id": f"r{number}", "tools": [], "messages": _rows_of(number, 20)})


def swe_rows(number: int, first: bool) -> bytes:
    row = {"instance_id": f"a__b-{number}", "model": "m", "resolved": True, "messages": _rows_of(number, 20)}
    for message in row["messages"]:  # type: ignore[attr-defined]
        if message["role"] == "tool":
            message["name"] = "run"
    return _line(row)


def webdancer(number: int, first: bool) -> bytes:
    messages = opening("Search.", f"What is {number}?")
    for index in range(20):
        call = f'<tool_call>\n{{"name": "search", "arguments": {{"query": ["{number} {index}"]}}}}\n</tool_call>'
        answer = f"<tool_response>\n{text(number * 20 + index)}\n</tool_response>"
        messages += [
            {"role": "assistant", "content": f"<think>Hm.</think>\n{call}"},
            {"role": "user", "content": answer},
        ]
    messages.append({"role": "assistant", "content": "<think>So.</think>\n<answer>42</answer>"})
    return _line({"question": f"What is {number}?", "answer": "42", "messages": messages})


def otel_genai(number: int, first: bool) -> bytes:
    fields = {"operation.name": "execute_tool", "tool.name": "look", "tool.call.id": f"c{number}"}
    fields |= {"tool.call.arguments": f'{{"n": {number}}}', "tool.call.result": text(number)}
    span = {
        "traceId": f"{number // SESSION_TURNS if _many else 0:032x}",
        "spanId": f"{number:016x}",
        "name": "execute_tool look",
        "startTimeUnixNano": str(1_700_000_000_000_000_000 + number * 10**9),
        "endTimeUnixNano": str(1_700_000_000_500_000_000 + number * 10**9),
        "attributes": attributes(fields),
    }
    return _line(export_span(span))


def sweagent(number: int, first: bool) -> bytes:
    step = {
        "action": f"ls {number}",
        "observation": text(number),
        "response": "I look.",
        "thought": "I look.",
        "state": "{}",
    }
    return (b"," if number else b"") + _line(step)


def mini_swe_agent(number: int, first: bool) -> bytes:
    messages = opening("Work.", "Mend it.") if first else []
    messages.append({"role": "assistant", "content": f"THOUGHT: I look.\n\n```bash\nls {number}\n```"})
    messages.append({"role": "user", "content": f"<returncode>0</returncode>\n<output>\n{text(number)}</output>"})
    return (b"," if number else b"") + b",".join(map(_line, messages))


def _messages(number: int, closes: bytes, opens: str, messages: Sequence[Message]) -> bytes:
    """Messages of a session within a document; what `opens` one comes behind what `closes` the one before."""
    before = (closes if number else b"") + opens.encode() if opens else b","
    return before + b",".join(map(_line, messages))


def tau2(number: int, first: bool) -> bytes:
    call = {"id": f"c{number}", "name": "look", "arguments": {"n": number}, "requestor": "assistant"}
    messages: list[dict[str, Any]] = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "id": f"c{number}", "content": text(number), "requestor": "assistant", "error": False},
    ]
    opens = f'{{"id": "s{number}", "task_id": "1", "termination_reason": "user_stop", "messages": ['
    return _messages(number, b"]},", opens if first else "", messages)


def tau_bench(number: int, first: bool) -> bytes:
    opens = f'{{"task_id": {number}, "reward": 1.0, "info": {{"task": {{"instruction": "x"}}}}, "trial": 0, "traj": ['
    messages = [{"role": "system", "content": "Be kind."}] if first else []
    return _messages(number, b"]},", opens if first else "", [*messages, *_chat(number)])


def chat_document(number: int, first: bool) -> bytes:
    return (b"," if number else _line({"role": "user", "content": "Go."}) + b",") + b",".join(map(_line, _chat(number)))


def inspect(number: int, first: bool) -> bytes:
    call = {"id": f"call_{number}", "function": "bash", "arguments": {"cmd": f"ls {number}"}, "type": "function"}
    messages: list[Message] = [{"role": "user", "content": "Go."}] if first else []
    messages += [
        {"role": "assistant", "content": f"I look at {number}.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{number}", "function": "bash", "content": text(number)},
    ]
    opens = f'{{"id": "s{number}", "epoch": 1, "input": "x", "target": "y", "messages": ['
    return _messages(number, b'], "events": []},', opens if first else "", messages)


def har(number: int, first: bool) -> bytes:
    url = f"https://example.org/api/{number}"
    entry = {
        "pageref": f"page_{number // SESSION_TURNS if _many else 0}",
        "startedDateTime": zulu(_NEW_YEAR + timedelta(seconds=number)),
        "time": 500,
        "_resourceType": "fetch",
        "request": {"method": "GET", "url": url, "headers": [{"name": "accept", "value": "*/*"}]},
        "response": {
            "status": 200,
            "statusText": "OK",
            "headers": [{"name": "content-type", "value": "text/plain"}],
            "content": {"mimeType": "text/plain", "size": 3000, "text": text(number)},
        },
    }
    return (b"," if number else b"") + _line(entry)


MADE: Final[dict[str, tuple[str, Callable[[int, bool], bytes], bytes, bytes]]] = {
    "asciicast": ("one.cast", asciicast, b"", b""),
    "script": ("one.typescript", script, b"", b""),
    "ttyrec": ("one.ttyrec", ttyrec, b"", b""),
    "mcp_jsonrpc": ("wire.jsonl", mcp_jsonrpc, b"", b""),
    "mcp_http": ("http.jsonl", mcp_http, b"", b""),
    "mcp_recorder": ("cassette.json", mcp_recorder, b'{"version": "1", "metadata": {}, "interactions": [\n', b"]}\n"),
    "claude_code": ("session.jsonl", claude_code, b"", b""),
    "codex": ("rollout.jsonl", codex, b"", b""),
    "codex_exec": ("exec.jsonl", codex_exec, b"", b""),
    "chat_messages": ("messages.jsonl", chat_messages, b"", b""),
    "chat_tools": ("rows.jsonl", chat_tools, b"", b""),
    "swe_rows": ("rows.jsonl", swe_rows, b"", b""),
    "webdancer": ("rows.jsonl", webdancer, b"", b""),
    "otel_genai": ("spans.jsonl", otel_genai, b"", b""),
    "mini_swe_agent": (
        "one.traj.json",
        mini_swe_agent,
        b'{"info": {"exit_status": "Submitted", "mini_version": "1.0.0"}, "messages": [\n',
        b"]}\n",
    ),
    "tau2": (
        "results.json",
        tau2,
        b'{"info": {"environment_info": {"domain_name": "x"}, "user_info": {}}, "tasks": [], "simulations": [',
        b"]}]}\n",
    ),
    "tau_bench": ("results.json", tau_bench, b"[", b"]}]\n"),
    "chat_document": ("messages.json", chat_document, b"[", b"]\n"),
    "inspect": (
        "log.json",
        inspect,
        b'{"version": 2, "status": "success", "eval": {"run_id": "r", "task_id": "t", "task": "x"}, "samples": [',
        b'], "events": []}]}\n',
    ),
    "har": ("one.har", har, b'{"log": {"version": "1.2", "creator": {"name": "x"}, "entries": [\n', b"]}}\n"),
    "sweagent": ("one.traj", sweagent, b'{"environment": "swe", "trajectory": [\n', b'], "info": {}}\n'),
}
"""Name → (name of the file, what makes a turn, what stands before all and after all)."""

_many = False


def pieces(name: str, size: int, many: bool = False) -> Iterator[bytes]:
    """The bytes of a log of about `size` bytes, a turn at a time; `many` begins a session every `SESSION_TURNS`."""
    global _many  # noqa: PLW0603 (two formats name the session in every line)
    _many = many
    _, turn, before, after = MADE[name]
    yield before
    number = 0
    while size > 0:
        piece = turn(number, number == 0 or (many and number % SESSION_TURNS == 0))
        size -= len(piece)
        number += 1
        yield piece
    yield after


def write(name: str, size: int, folder: Path, many: bool = False) -> Path:
    """The log, written into the folder."""
    path = folder / MADE[name][0]
    with path.open("wb") as stream:
        for piece in pieces(name, size, many):
            stream.write(piece)
    return path
