"""Sessions of coding agents: trees, event streams, and sub-agents in files of their own."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.rows import split_records
from trajmill.connectors.agents.gemini_cli import BRANCHES, GeminiCli
from trajmill.connectors.agents.gemini_stream import GeminiStream
from trajmill.connectors.agents.managed_agent import ManagedAgent
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.registry import connectors, sniff
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
    return {source.uri: [record for record, _ in read_input(source, RECIPE)] for source in plan.inputs}


def rollout(thread: str, parent: str | None, *calls: tuple[str, str]) -> list[dict[str, Any]]:
    """A rollout of Codex whose calls are given as (tool, answer)."""
    meta: dict[str, Any] = {"id": thread, "cwd": "/app", "cli_version": "0.120.0"}
    if parent is not None:
        meta["source"] = {"subagent": {"thread_spawn": {"parent_thread_id": parent, "depth": 1}}}
    lines: list[dict[str, Any]] = [{"type": "session_meta", "payload": meta}]
    for number, (name, answer) in enumerate(calls):
        call = {"type": "function_call", "name": name, "arguments": "{}", "call_id": f"{thread}-{number}"}
        answered = {"type": "function_call_output", "call_id": f"{thread}-{number}", "output": answer}
        lines += [{"type": "response_item", "payload": payload} for payload in (call, answered)]
    return [{"timestamp": f"2026-03-08T05:{number:02d}:00.000Z", **line} for number, line in enumerate(lines)]


def links(records: list[Trajectory | Reject]) -> list[tuple[str, str | None, int | None, str | None]]:
    return [
        (record.native_id, record.parent, record.parent_step, record.relation)
        for record in records
        if isinstance(record, Trajectory)
    ]


def test_a_sub_agent_of_codex_has_the_thread_and_the_step_that_started_it(tmp_path):
    day = "sessions/2026/03"
    started = json.dumps({"agent_id": "b", "nickname": "Boole"})
    by_uri = read(tmp_path, {
        f"{day}/08/rollout-2026-03-08T05-00-00-a.jsonl": rollout("a", None, ("shell", "x"), ("spawn_agent", started)),
        f"{day}/08/rollout-2026-03-08T05-10-00-z.jsonl": rollout("z", None, ("shell", "alone")),
        f"{day}/08/rollout-2026-03-08T05-20-00-o.jsonl": rollout("o", "gone", ("shell", "orphan")),
        f"{day}/09/rollout-2026-03-09T00-00-00-b.jsonl": rollout("b", "a", ("shell", "y")),
        f"{day}/09/rollout-2026-03-09T00-10-00-c.jsonl": rollout("c", "b", ("shell", "w")),
        f"{day}/09/rollout-2026-03-09T00-20-00-d.jsonl": rollout("d", "a"),
    })  # fmt: skip
    assert {uri: links(records) for uri, records in by_uri.items()} == {
        f"{day}/08/rollout-2026-03-08T05-00-00-a.jsonl": [
            ("a", None, None, None), ("b", "a", 1, "subagent"), ("c", "b", None, "subagent"),
        ],
        f"{day}/08/rollout-2026-03-08T05-10-00-z.jsonl": [("z", None, None, None)],
        f"{day}/08/rollout-2026-03-08T05-20-00-o.jsonl": [("o", None, None, "subagent")],
    }  # fmt: skip
    whole = by_uri[f"{day}/08/rollout-2026-03-08T05-00-00-a.jsonl"]
    members = [record.steps[0].member.rpartition("-")[2] for record in whole if isinstance(record, Trajectory)]
    assert members == ["a.jsonl", "b.jsonl", "c.jsonl"]
    assert [(record.reason, record.member.rpartition("-")[2]) for record in whole if isinstance(record, Reject)] == [
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
    by_uri = read(tmp_path, {
        "chats/session-2026-01-05T10-00-main.jsonl": session("main-1", "main", "agent-1"),
        "chats/session-2026-01-05T11-00-main.jsonl": session("main-2", "main"),
        "chats/main-1/agent-1.jsonl": session("agent-1", "subagent"),
        "chats/main-1/agent-2.jsonl": session("agent-2", "subagent"),
    })  # fmt: skip
    assert {uri: links(records) for uri, records in by_uri.items()} == {
        "chats/session-2026-01-05T10-00-main.jsonl": [
            ("main-1", None, None, None), ("agent-1", "main-1", 1, "subagent"), ("agent-2", "main-1", None, "subagent"),
        ],
        "chats/session-2026-01-05T11-00-main.jsonl": [("main-2", None, None, None)],
    }  # fmt: skip


def read_lines(name, *lines):
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    return split_records(connectors()[name].parse(MemoryBlob("log", data)))


def asked(key, parent, call):
    block = {"type": "toolCall", "id": call, "name": "bash", "arguments": {"command": call}}
    message = {"role": "assistant", "content": [block]}
    return {"type": "message", "id": key, "parentId": parent, "message": message}


def told(key, parent, call):
    content = [{"type": "text", "text": f"output of {call}"}]
    message = {"role": "toolResult", "toolCallId": call, "toolName": "bash", "content": content}
    return {"type": "message", "id": key, "parentId": parent, "message": message}


def test_a_path_that_was_left_is_a_branch_behind_the_steps_that_it_shares():
    start = {"type": "session", "id": "s", "timestamp": "2026-01-01T00:00:00Z", "cwd": "/w"}
    shared = [asked("1", None, "a"), told("2", "1", "a"), asked("3", "2", "b"), told("4", "3", "b")]
    left, current = [asked("5", "4", "c"), told("6", "5", "c")], [asked("7", "2", "d"), told("8", "7", "d")]
    (main, branch), rejects = read_lines("pi_agent", start, *shared, *left, *current)
    assert not rejects
    assert [step.action.call_id for step in main.steps] == ["a", "d"]
    assert [step.action.call_id for step in branch.steps] == ["a", "b", "c"]
    assert (branch.relation, branch.parent, branch.parent_step) == ("branch", "s", 0)


def step(number, kind, **rest):
    return {"step_index": number, "source": "MODEL", "type": kind, "status": "DONE", **rest}


def test_an_answer_is_given_to_no_call_of_a_response_that_another_response_followed():
    calls = [{"name": "list_dir", "args": {}}]
    trajectories, rejects = read_lines(
        "antigravity",
        step(1, "PLANNER_RESPONSE", tool_calls=calls),
        step(2, "PLANNER_RESPONSE", tool_calls=calls),
        step(3, "LIST_DIRECTORY", content="of the second"),
        step(4, "LIST_DIRECTORY", content="of the first, too late"),
    )
    shown = [entry.next_observation and entry.next_observation.content for entry in trajectories[0].steps]
    assert shown == [None, "of the second"]
    assert [reject.reason for reject in rejects] == ["result_without_call"]


def test_of_many_paths_that_were_left_only_so_many_are_carried_on_and_the_others_are_told():
    start = {"type": "session", "id": "s", "timestamp": "2026-01-01T00:00:00Z", "cwd": "/w"}
    pairs = [(asked(f"a{n}", None, f"c{n}"), told(f"b{n}", f"a{n}", f"c{n}")) for n in range(70)]
    trajectories, rejects = read_lines("pi_agent", start, *(line for pair in pairs for line in pair))
    assert trajectories[0].steps[0].action.call_id == "c69"
    assert [trajectory.relation for trajectory in trajectories] == [None] + ["branch"] * 64
    assert [(reject.reason, reject.transitions) for reject in rejects] == [("too_many_branches", 1)] * 5


Line = dict[str, Any]


def log(*lines: Line | str) -> bytes:
    return "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines).encode()


INIT: Line = {"type": "init", "session_id": "s", "model": "m"}


def use(key: str | None, name: str = "run_shell_command") -> Line:
    return {"type": "tool_use", "tool_name": name, "tool_id": key, "parameters": {"command": "x"}}


def answer(key: str | None, output: str | None = "ok", status: str = "success", **more: Any) -> Line:
    fields = {} if output is None else {"output": output}
    return {"type": "tool_result", "tool_id": key, "status": status, **fields, **more}


def event(key: str, kind: str, **more: Any) -> Line:
    return {"id": key, "type": kind, "processed_at": "2026-03-04T09:00:00.5Z", **more}


def call(key: str, **more: Any) -> Line:
    return event(key, "agent.tool_use", name="bash", input={"command": key}, **more)


@pytest.mark.parametrize(("ending", "cut"), [((), True), (("session.status_idle",), None)])
def test_an_interrupt_cuts_a_managed_session_only_at_work(ending: tuple[str, ...], cut: bool | None) -> None:
    again = event("r", "session.status_running")
    result = event("b", "agent.tool_result", tool_use_id="a", content=[])
    events = [event("i", "session.status_idle"), again, call("a"), result, *(event(kind, kind) for kind in ending)]
    (trajectory,) = ManagedAgent().parse(MemoryBlob("t.jsonl", log(*events, event("u", "user.interrupt"))))
    assert isinstance(trajectory, Trajectory)
    assert trajectory.steps[-1].truncated is cut


def pi(role: str, **more: Any) -> Line:
    message = {"role": role, **more}
    return {"type": "message", "id": "b", "parentId": "a", "timestamp": "2026-03-04T09:00:00Z", "message": message}


def copilot(kind: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": data, "id": kind, "parentId": kind}


def copilot_call(key: str, name: str, answer: str, **data: Any) -> list[dict[str, Any]]:
    """A call of Copilot and its answer; `data` is in both events."""
    request = {"toolCallId": key, "name": name, "arguments": {}}
    return [
        copilot("assistant.message", content="", toolRequests=[request], **data),
        copilot("tool.execution_complete", toolCallId=key, success=True, result={"content": answer}, **data),
    ]


def test_events_that_copilot_prints_hold_each_thought_once_and_no_unknown_type(tmp_path: Path) -> None:
    lines = [copilot("mcp.tools.list_changed", serverName="g"), copilot("model.call_start", model="m")]
    for number, thought in enumerate(("I list.", "I list.", "Again.")):
        message, answer = copilot_call(f"c{number}", "bash", "a")
        message["data"]["reasoningText"] = thought
        lines += [message, copilot("assistant.reasoning", reasoningId=f"r{number}", content=thought), answer]
    lines.append({"type": "result", "sessionId": "s9", "exitCode": 0})
    [trajectory] = read(tmp_path, {"out.jsonl": lines})["out.jsonl"]
    assert isinstance(trajectory, Trajectory)
    assert trajectory.native_id == "s9"
    assert [step.action.reasoning for step in trajectory.steps] == ["I list.", "I list.", "Again."]


def test_a_sub_agent_of_copilot_with_an_id_of_its_own_has_the_prompt_that_started_it(tmp_path: Path) -> None:
    task, answer = copilot_call("t1", "task", "two files")
    started = [
        copilot("subagent.started", toolCallId="t1"),
        copilot("user.message", content="Count.", source="agent-s"),
    ]
    own = copilot_call("c1", "view", "a b", parentToolCallId="t1")
    lines = [copilot("user.message", content="How many?"), task]
    lines += [{**line, "agentId": "47a0"} for line in (*started, *own)] + [answer]
    main, subagent = read(tmp_path, {"events.jsonl": lines})["events.jsonl"]
    assert isinstance(main, Trajectory)
    assert isinstance(subagent, Trajectory)
    assert links([main, subagent])[1] == ("session/t1", "session", 0, "subagent")
    assert [main.task.instruction, subagent.task.instruction] == ["How many?", "Count."]


@pytest.mark.parametrize(
    ("name", "answer", "content", "origin"),
    [
        ("web_fetch", "Contents of https://tea.example:\nGreen tea.", "Green tea.", "environment"),
        ("list_agents", "<no background agents>", "<no background agents>", "harness"),
    ],
)
def test_words_of_copilot_are_no_observation(tmp_path: Path, name: str, answer: str, content: str, origin: str) -> None:
    [trajectory] = read(tmp_path, {"events.jsonl": copilot_call("c", name, answer)})["events.jsonl"]
    assert isinstance(trajectory, Trajectory)
    observation = trajectory.steps[0].next_observation
    assert observation is not None
    assert (observation.content, observation.origin) == (content, origin)


def test_streams_are_told_from_each_other_and_from_other_json_lines() -> None:
    exported = {"role": "agent", "kind": "tool_use", "tool": "b", "content": "{}", "time": "t"}
    heads = {
        log("noise", INIT): "gemini_stream",
        log(use("a")): "gemini_stream",
        log(answer("a")): "gemini_stream",
        log(call("a")): "managed_agent",
        log({"role": "system", "kind": "x", "time": "t", "raw": event("a", "session.status_idle")}): "managed_agent",
        log(exported): "managed_agent",
        log(pi("toolResult", toolCallId="c", content=[]), pi("user")): "pi_agent",
    }
    for head, name in heads.items():
        assert [connector.name for connector, _ in sniff(head, "transcript.jsonl")][:1] == [name]
    for message in ({"type": "message", "role": "user", "content": "x"}, {"role": "user", "kind": "note"}):
        assert not any(c.sniff(log(message), "a.jsonl") for c in (GeminiStream(), ManagedAgent()))


HEAD = {"sessionId": "s", "projectHash": "p"}


def tool(key: str, seconds: float = 1, text: str | None = "ok", **more: Any) -> dict[str, Any]:
    result = None if text is None else [{"functionResponse": {"id": key, "name": "t", "response": {"output": text}}}]
    stamp = f"2026-01-05T10:00:{seconds:06.3f}Z"
    return {"id": key, "name": "t", "args": {}, "result": result, "status": "success", "timestamp": stamp, **more}


def says(key: str, content: Any = "", *calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": key, "type": "gemini", "content": content, "model": "m", "toolCalls": list(calls), **more}


def user(key: str, text: str) -> dict[str, Any]:
    return {"id": key, "type": "user", "content": text}


def read_gemini(*lines: dict[str, Any], whole: bool = False) -> tuple[list[Trajectory], list[Reject]]:
    data = json.dumps({**HEAD, "messages": lines}, indent=1) if whole else "\n".join(map(json.dumps, (HEAD, *lines)))
    return split_records(GeminiCli().parse(MemoryBlob("session.jsonl", data.encode() + b"\n")))


def test_parts_of_a_text_are_joined_as_the_client_joins_them():
    parts = [{"text": "Read @a."}, {"text": "\n--- Content from referenced files ---"}, {"text": "\nContent of a:\n"}]
    first: dict[str, Any] = {**user("u", ""), "content": [*parts, {"text": "x"}, "y"]}
    ((trajectory,), _) = read_gemini(first, says("a", [{"text": "I re"}, {"text": "ad it."}], tool("x")))
    assert trajectory.task.instruction == "Read @a.\n--- Content from referenced files ---\nContent of a:\nxy"
    assert trajectory.steps[0].action.message == "I read it."


def test_results_of_gemini_are_read_without_its_words_and_masked_ones_are_lost():
    tags = "<untrusted_context>\n{}\n</untrusted_context>"
    large = "Output too large. Showing first 8,000 and last 32,000 characters. For full output see: /tmp/x.txt\n"
    calls = [
        tool("a", text=tags.format("Output: no\nExit Code: 1\nProcess Group PGID: 7"), name="run_shell_command"),
        tool("b", text=tags.format("page"), name="mcp_web_read"),
        tool("c", text=large + "head\n\n... [1,234 characters omitted] ...\n\ntail", name="mcp_web_read"),
        tool("d", text="<tool_output_masked>\nhead\n</tool_output_masked>", name="read_file"),
    ]
    ((trajectory,), _) = read_gemini(user("u", "Go."), says("m", "", *calls))
    steps = list(trajectory.steps)
    shown = [step.next_observation for step in steps]
    assert [observation and (observation.content, observation.truncation) for observation in shown] == [
        ("no", "none"),
        ("page", "none"),
        ("head\n\n... [1,234 characters omitted] ...\n\ntail", "harness"),
        ("<tool_output_masked>\nhead\n</tool_output_masked>", "recorder"),
    ]
    assert [step.exit_code for step in steps] == [1, None, None, None]


def test_rewinds_without_end_are_bounded():
    lines = [line for n in range(BRANCHES + 9) for line in (says(f"a{n}", "", tool(f"x{n}")), {"$rewindTo": f"a{n}"})]
    trajectories, rejects = read_gemini(*lines, says("last", "", tool("z")))
    assert len(trajectories) == BRANCHES + 1
    assert {reject.reason for reject in rejects} == {"too_many_branches"}
