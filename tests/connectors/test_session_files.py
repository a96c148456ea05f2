"""Sub-agents whose sessions stand in files of their own are read with the session that started them."""

import json
from pathlib import Path
from typing import Any

from trajmill.pipelines.normalize.input_reading import read_input
from trajmill.pipelines.plan.plan import make_plan
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.schemas import Reject, Trajectory

RECIPE = Recipe(name="t", source="t")


def read(root: Path, files: dict[str, list[dict[str, Any]]]) -> dict[str, list[Trajectory | Reject]]:
    """What is read of each input of a folder that holds the files, by uri."""
    for name, lines in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    plan = make_plan(RECIPE, [str(root)], strict=True)
    assert not plan.unrecognized
    return {one.uri: [found for found, _ in read_input(one, RECIPE)] for one in plan.inputs}


def rollout(thread: str, parent: str | None, *calls: tuple[str, str]) -> list[dict[str, Any]]:
    """A rollout of Codex whose calls are given as (tool, answer)."""
    meta: dict[str, Any] = {"id": thread, "cwd": "/app", "cli_version": "0.120.0"}
    if parent is not None:
        meta["source"] = {"subagent": {"thread_spawn": {"parent_thread_id": parent, "depth": 1}}}
    lines: list[dict[str, Any]] = [{"type": "session_meta", "payload": meta}]
    for number, (name, answer) in enumerate(calls):
        call = {"type": "function_call", "name": name, "arguments": "{}", "call_id": f"{thread}-{number}"}
        answered = {"type": "function_call_output", "call_id": f"{thread}-{number}", "output": answer}
        lines += [{"type": "response_item", "payload": one} for one in (call, answered)]
    return [{"timestamp": f"2026-03-08T05:{number:02d}:00.000Z", **line} for number, line in enumerate(lines)]


def links(found: list[Trajectory | Reject]) -> list[tuple[str, str | None, int | None, str | None]]:
    return [(one.native_id, one.parent, one.parent_step, one.relation) for one in found if isinstance(one, Trajectory)]


def test_a_sub_agent_of_codex_has_the_thread_and_the_step_that_started_it(tmp_path):
    day = "sessions/2026/03"
    started = json.dumps({"agent_id": "b", "nickname": "Boole"})
    found = read(tmp_path, {
        f"{day}/08/rollout-2026-03-08T05-00-00-a.jsonl": rollout("a", None, ("shell", "x"), ("spawn_agent", started)),
        f"{day}/08/rollout-2026-03-08T05-10-00-z.jsonl": rollout("z", None, ("shell", "alone")),
        f"{day}/08/rollout-2026-03-08T05-20-00-o.jsonl": rollout("o", "gone", ("shell", "orphan")),
        f"{day}/09/rollout-2026-03-09T00-00-00-b.jsonl": rollout("b", "a", ("shell", "y")),
        f"{day}/09/rollout-2026-03-09T00-10-00-c.jsonl": rollout("c", "b", ("shell", "w")),
        f"{day}/09/rollout-2026-03-09T00-20-00-d.jsonl": rollout("d", "a"),
    })  # fmt: skip
    assert {uri: links(one) for uri, one in found.items()} == {
        f"{day}/08/rollout-2026-03-08T05-00-00-a.jsonl": [
            ("a", None, None, None), ("b", "a", 1, "subagent"), ("c", "b", None, "subagent"),
        ],
        f"{day}/08/rollout-2026-03-08T05-10-00-z.jsonl": [("z", None, None, None)],
        f"{day}/08/rollout-2026-03-08T05-20-00-o.jsonl": [("o", None, None, "subagent")],
    }  # fmt: skip
    whole = found[f"{day}/08/rollout-2026-03-08T05-00-00-a.jsonl"]
    members = [one.steps[0].member.rpartition("-")[2] for one in whole if isinstance(one, Trajectory)]
    assert members == ["a.jsonl", "b.jsonl", "c.jsonl"]
    assert [(one.reason, one.member.rpartition("-")[2]) for one in whole if isinstance(one, Reject)] == [
        ("no_transitions", "d.jsonl")
    ]


def session(name: str, kind: str, agent: str | None = None) -> list[dict[str, Any]]:
    """A session of Gemini CLI with two calls, of which the second starts a sub-agent."""
    answer = [{"functionResponse": {"name": "f", "response": {"output": name}}}]
    calls: list[dict[str, Any]] = [
        {"id": f"{name}{number}", "name": "f", "args": {}, "status": "success", "result": answer} for number in range(2)
    ]
    if agent is not None:
        calls[1]["agentId"] = agent
    return [
        {"sessionId": name, "projectHash": "f53b", "kind": kind},
        {"id": "m-1", "timestamp": "2026-01-05T10:00:00.001Z", "type": "user", "content": "Look."},
        {"id": "m-2", "timestamp": "2026-01-05T10:00:02.000Z", "type": "gemini", "content": "", "toolCalls": calls},
    ]


def test_a_sub_agent_of_gemini_has_the_session_of_its_folder_and_the_step_that_has_its_id(tmp_path):
    found = read(tmp_path, {
        "chats/session-2026-01-05T10-00-main.jsonl": session("main-1", "main", "agent-1"),
        "chats/session-2026-01-05T11-00-main.jsonl": session("main-2", "main"),
        "chats/main-1/agent-1.jsonl": session("agent-1", "subagent"),
        "chats/main-1/agent-2.jsonl": session("agent-2", "subagent"),
    })  # fmt: skip
    assert {uri: links(one) for uri, one in found.items()} == {
        "chats/session-2026-01-05T10-00-main.jsonl": [
            ("main-1", None, None, None), ("agent-1", "main-1", 1, "subagent"), ("agent-2", "main-1", None, "subagent"),
        ],
        "chats/session-2026-01-05T11-00-main.jsonl": [("main-2", None, None, None)],
    }  # fmt: skip
