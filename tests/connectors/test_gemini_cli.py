"""Gemini CLI sessions: replay of changes, turns and hostile input."""

import json
from itertools import product
from typing import Any

from trajmill.connectors.agents.gemini_cli import BRANCHES, GeminiCli
from trajmill.connectors.connector import MemoryBlob
from trajmill.schemas import Reject, Trajectory

HEAD = {"sessionId": "s", "projectHash": "p"}


def tool(key: str, seconds: float = 1, text: str | None = "ok", **more: Any) -> dict[str, Any]:
    result = None if text is None else [{"functionResponse": {"id": key, "name": "t", "response": {"output": text}}}]
    stamp = f"2026-01-05T10:00:{seconds:06.3f}Z"
    return {"id": key, "name": "t", "args": {}, "result": result, "status": "success", "timestamp": stamp, **more}


def says(key: str, content: Any = "", *calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": key, "type": "gemini", "content": content, "model": "m", "toolCalls": list(calls), **more}


def user(key: str, text: str) -> dict[str, Any]:
    return {"id": key, "type": "user", "content": text}


def read(*lines: dict[str, Any], whole: bool = False) -> tuple[list[Trajectory], list[Reject]]:
    data = json.dumps({**HEAD, "messages": lines}, indent=1) if whole else "\n".join(map(json.dumps, (HEAD, *lines)))
    found = list(GeminiCli().parse(MemoryBlob("session.jsonl", data.encode() + b"\n")))
    rejects = [one for one in found if isinstance(one, Reject)]
    return [one for one in found if isinstance(one, Trajectory)], rejects


def test_parts_of_a_text_are_joined_as_the_client_joins_them():
    parts = [{"text": "Read @a."}, {"text": "\n--- Content from referenced files ---"}, {"text": "\nContent of a:\n"}]
    first: dict[str, Any] = {**user("u", ""), "content": [*parts, {"text": "x"}, "y"]}
    ((one,), _) = read(first, says("a", [{"text": "I re"}, {"text": "ad it."}], tool("x")))
    assert one.task.instruction == "Read @a.\n--- Content from referenced files ---\nContent of a:\nxy"
    assert one.steps[0].action.message == "I read it."


def test_rewinds_without_end_are_bounded():
    lines = [one for n in range(BRANCHES + 9) for one in (says(f"a{n}", "", tool(f"x{n}")), {"$rewindTo": f"a{n}"})]
    found, rejects = read(*lines, says("last", "", tool("z")))
    assert len(found) == BRANCHES + 1
    assert {one.reason for one in rejects} == {"too_many_branches"}


def test_values_of_wrong_types_are_no_reason_to_stop():
    keys = ("content", "thoughts", "toolCalls", "timestamp", "model")
    parts = [{"inlineData": {"data": "?"}}, {"functionResponse": {"response": 3}}]
    values: tuple[Any, ...] = (None, 1, [1], {"a": 1}, parts)
    odd = [
        {"id": f"{n}", "type": kind, key: value}
        for n, (kind, key, value) in enumerate(product(("gemini", "user"), keys, values))
    ]
    found, _ = read(*odd, {"$set": {"messages": [1, {}]}}, says("a", "", tool("x")))
    assert len(found) == 1
