"""Claude Code sessions: who said what, branches, files beside the log, entries kept in a file, and hostile logs."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.claude_logs import CONNECTOR, SESSION, Talk, answered, log, parsed, rows, seen, text, use
from tests.rows import split_records
from tests.tables import table
from trajmill.connectors.agents.claude_code import BRANCHES
from trajmill.connectors.conversation.reminders import voices
from trajmill.pipelines.normalize.input_reading import read_input
from trajmill.pipelines.plan.plan import Plan, make_plan
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.schemas import Reject, Trajectory, spool

# what is said


@pytest.mark.parametrize(
    ("words", "own", "expected"),
    table(__file__, "claude_messages"),
)
def test_what_the_harness_put_into_a_users_message_is_told_apart(words: str, own: bool, expected: list[Any]) -> None:
    assert list(map(list, voices(words, own))) == expected


# results


@pytest.mark.parametrize(
    ("tool", "content", "error", "origin"),
    [
        ("Bash", "fine", False, "environment"),
        ("Bash", "Exit code 2\nno", True, "environment"),
        ("Edit", "The user doesn't want to proceed with this tool use. STOP", True, "user"),
        ("Read", "The user doesn't want to proceed with this tool use. (a file's words)", False, "environment"),
        ("Edit", "<tool_use_error>File has not been read yet.</tool_use_error>", True, "harness"),
        ("Edit", "<tool_use_error>String to replace not found in file.</tool_use_error>", True, "environment"),
        ("Glob", "<tool_use_error>Sibling tool call errored</tool_use_error>", True, "harness"),
        ("TodoWrite", "ok", False, "harness"),
        ("ExitPlanMode", "User has approved your plan.", False, "user"),
        ("Task", "what the sub-agent found", False, "agent"),
        ("Agent", "Async agent launched successfully.", False, "harness"),
        ("TaskOutput", "<task_type>local_agent</task_type>", False, "agent"),
        ("TaskOutput", "<task_type>local_bash</task_type>", False, "environment"),
    ],
)
def test_who_answered_a_call_is_told_apart(tool: str, content: str, error: bool, origin: str) -> None:
    observation = answered(tool, content, block={"is_error": error}).next_observation
    assert observation is not None
    assert (observation.origin, observation.is_error) == (origin, error)


@pytest.mark.parametrize(
    ("tool", "content", "more", "code"),
    [
        ("Bash", "Exit code 127\nnot found", {"block": {"is_error": True}}, 127),
        ("Bash", "Error: Exit code 1", {"block": {"is_error": True}}, 1),
        ("Bash", "Exit code 3221225786", {"block": {"is_error": True}}, -1073741510),
        ("Bash", "Exit code 99999999999", {"block": {"is_error": True}}, None),
        ("Bash", "Exit code 1 is what it says", {}, None),
        ("Read", "Exit code 1", {"block": {"is_error": True}}, None),
        ("Bash", "x", {"toolUseResult": {"exitCode": 0}}, 0),
        ("Bash", "x", {"toolUseResult": {"exitCode": True}}, None),
        ("BashOutput", "<status>failed</status>\n<exit_code>137</exit_code>", {}, 137),
    ],
)
def test_exit_code_is_what_the_log_states(tool: str, content: str, more: Any, code: int | None) -> None:
    assert answered(tool, content, **more).exit_code == code


# sniffing


@pytest.mark.parametrize(
    "head",
    [
        b'{"type":"summary","summary":"s","leafUuid":"l"}\n',
        b'{"type":"file-history-snapshot","messageId":"m","snapshot":{}}\n',
        b'{"type":"queue-operation","operation":"enqueue","sessionId":"s"}\n',
        b'garbage\n"massive error"\n{"parentUuid":null,"sessionId":"s","type":"user","message":{"content":"x"}}\n',
        b'{"parentUuid":null,"isSidechain":false,"sessionId":"s","type":"user","message":{"content":"' + b"x" * 65000,
    ],
)
def test_claude_code_lines_are_recognized(head: bytes) -> None:
    guess = CONNECTOR.sniff(head, "x.jsonl")
    assert guess is not None
    assert guess.score >= 0.8


@pytest.mark.parametrize(
    ("content", "streams", "shown"),
    [
        ("two\nlines\n[kept for later as k7]", {"stdout": "two\nlines", "stderr": ""}, "two\nlines"),
        ("<shell>\nout\nerr\n</shell>", {"stdout": "out", "stderr": "err"}, "out\nerr"),
        ("Started in the background as b3", {"stdout": "", "stderr": ""}, ""),
        ("cut in the mid…", {"stdout": "cut in the middle", "stderr": ""}, "cut in the mid…"),
        ("ok\nok", {"stdout": "ok", "stderr": ""}, "ok\nok"),
        ("notok", {"stdout": "ok", "stderr": ""}, "notok"),
        ("alone", {"stdout": 3}, "alone"),
    ],
)
def test_what_stands_around_a_shells_own_output_is_the_clients(content: str, streams: dict[str, Any], shown: str):
    assert seen(answered("Bash", content, toolUseResult=streams)) == shown


# turns and branches


def test_a_prompt_that_follows_the_hooks_of_the_turn_before_continues_that_turn() -> None:
    talk = Talk()
    turn = [talk.user("u1", "Go."), talk.call("a1", "m1", "c1"), talk.result("r1", "c1", "one")]
    turn += [talk.call("a2", "m2", "c2"), talk.result("r2", "c2", "two"), talk.agent("a3", "m3", text("Done."))]
    hooks = [talk.line("progress", "h1", "a1"), talk.line("progress", "h2"), talk.line("system", "h3")]
    later = [talk.user("u2", "More."), talk.call("a4", "m4", "c4"), talk.result("r4", "c4", "three")]
    (trajectory,), rejects = parsed(log(*turn, *hooks, *later))
    assert rejects == []
    assert [seen(step) for step in trajectory.steps if step.action.name == "Bash"] == ["one", "two", "three"]


def test_hooks_of_a_call_do_not_join_what_was_answered_on_another_branch() -> None:
    talk = Talk()
    shared = [talk.user("u1", "Go."), talk.call("a1", "m1", "c1"), talk.result("r1", "c1", "one")]
    left = [talk.user("u2", "Left."), talk.call("a2", "m2", "c2"), talk.result("r2", "c2", "two")]
    right = [talk.user("u3", "Right.", "r1"), talk.line("progress", "h1"), talk.call("a3", "m3", "c3")]
    trajectories, _ = parsed(log(*shared, *left, *right, talk.result("r3", "c3", "three")))
    assert [list(map(seen, trajectory.steps)) for trajectory in trajectories] == [["one", "three"], ["one", "two"]]


def test_lines_repeated_under_new_ids_at_the_same_moment_count_once() -> None:
    talk = Talk()
    lines = [
        talk.user("u", "go", None),
        talk.agent("a1", "msg_000000000000001", use("t1", "Bash")),
        talk.result("r1", "t1", "one"),
        talk.user("u2", "on"),
    ]
    names = {"u": "v", "a1": "b1", "r1": "s1", "u2": "v2"}
    again = [{**line, "uuid": names[line["uuid"]], "parentUuid": names.get(line["parentUuid"])} for line in lines]
    talk.last = "v2"
    trajectories, rejects = parsed(log(*lines, *again, talk.call("a2", "msg_2", "t2"), talk.result("r2", "t2", "two")))
    assert [[seen(step) for step in trajectory.steps] for trajectory in trajectories] == [["one", "two"]]
    assert not rejects


def test_a_circle_of_parents_is_cut_and_loses_no_call() -> None:
    talk = Talk()
    lines = [talk.call("a1", "msg_1", "t1", parent="r2"), talk.result("r1", "t1", "one")]
    lines += [talk.call("a2", "msg_2", "t2"), talk.result("r2", "t2", "two")]
    trajectories, _ = parsed(log(*lines))
    assert sorted(str(seen(step)) for trajectory in trajectories for step in trajectory.steps) == ["one", "two"]


def test_branches_beyond_the_limit_are_rejected() -> None:
    talk = Talk()
    lines = [talk.user("u", "go", None)]
    for number in range(BRANCHES + 3):
        lines += [
            talk.call(f"a{number}", f"m{number}", f"t{number}", parent="u"),
            talk.result(f"r{number}", f"t{number}", "x"),
        ]
    trajectories, rejects = parsed(log(*lines))
    assert len(trajectories) == 1 + BRANCHES
    assert [reject.reason for reject in rejects] == ["too_many_branches"] * 2


def events() -> list[dict[str, Any]]:
    """A run that `claude -p` printed, in which a sub-agent lists a folder."""

    def event(kind: str, started: str | None, *blocks: Any, **more: Any) -> dict[str, Any]:
        return {"type": kind, "session_id": "s", "parent_tool_use_id": started, "message": {"content": blocks}, **more}

    def result(call: str, content: str) -> dict[str, Any]:
        return {"type": "tool_result", "tool_use_id": call, "content": content}

    return [
        {
            "type": "system",
            "subtype": "init",
            "session_id": "s",
            "cwd": "/home/a/repo",
            "claude_code_version": "2.1.1",
        },
        event("assistant", None, use("t", "Task", prompt="Look.")),
        event("user", "t", text("Look.")),
        event("assistant", "t", use("b", "Bash", command="ls")),
        event("user", "t", result("b", "a.txt")),
        event("user", None, result("t", "One file."), tool_use_result={"agentId": "f00"}),
        event("assistant", None, text("There is one file.")),
        {"type": "result", "subtype": "success", "session_id": "s", "result": "There is one file."},
    ]


@pytest.mark.parametrize("data", [log(*events()), json.dumps(events(), indent=2).encode()], ids=["lines", "array"])
def test_the_events_of_a_run_are_read_with_its_sub_agents(data: bytes) -> None:
    guess = CONNECTOR.sniff(data, "run.txt")
    assert guess is not None
    assert guess.score >= 0.9
    (main, agent), rejects = parsed(data)
    assert rejects == []
    assert [step.action.name for step in main.steps] == ["Task", "message"]
    assert (agent.parent, agent.parent_step, agent.relation) == (main.native_id, 0, "subagent")
    assert [seen(step) for step in agent.steps] == ["a.txt"]
    assert (main.agent.version, main.environment.instance_id) == ("2.1.1", "/home/a/repo")


@pytest.mark.parametrize("other", [{"qwen_code_version": "0.5"}, {"session_id": "T-f916"}])
def test_events_of_other_clients_are_not_taken_for_those_of_claude_code(other: dict[str, str]) -> None:
    start, *rest = events()
    head = log({**start, **other}, *rest)
    assert CONNECTOR.sniff(head, "run.txt") is None


# sub-agents


RECIPE = Recipe(name="t", source="t")
LOG = f"p/{SESSION}.jsonl"
WHOLE = "line\n" * 9_000


def moved(to: str) -> str:
    return (
        f"<persisted-output>\nOutput too large (44KB). Full output saved to: {to}\n\nPreview (first 2KB):\nline\n...\n"
        "</persisted-output>"
    )


def session(answer: str = "done", agent: str = "x1") -> bytes:
    """A session that starts a sub-agent and runs a command."""
    talk = Talk()
    return log(
        talk.user("u", "go", None),
        talk.agent("a1", "msg_1", use("t1", "Agent", prompt="look")),
        talk.result("r1", "t1", [text("found")], toolUseResult={"agentId": agent}),
        talk.call("a2", "msg_2", "t2"),
        talk.result("r2", "t2", answer),
    )


def agent(name: str) -> bytes:
    talk = Talk(isSidechain=True, agentId=name)
    return log(
        talk.user(f"{name}-u", "look", None),
        talk.call(f"{name}-a", f"msg_{name}", f"{name}-t"),
        talk.result(f"{name}-r", f"{name}-t", f"{name} saw it"),
    )


def laid(root: Path, files: Mapping[str, bytes]) -> Plan:
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return make_plan(RECIPE, [str(root)], strict=True)


def read(plan: Plan) -> tuple[list[Trajectory], list[Reject]]:
    records = [record for source in plan.inputs for record, _ in read_input(source, RECIPE)]
    return split_records(records)


@pytest.mark.parametrize("place", [f"p/{SESSION}/subagents/agent-x1.jsonl", "p/agent-x1.jsonl"])
def test_a_sub_agent_in_a_file_of_its_own_has_the_step_that_started_it_as_its_parent(tmp_path, place):
    other_agent = agent("y1").replace(SESSION.encode(), b"another-session")
    plan = laid(tmp_path, {LOG: session(), place: agent("x1"), "p/agent-y1.jsonl": other_agent})
    assert [(source.uri, len(source.members)) for source in plan.inputs] == [(LOG, 2), ("p/agent-y1.jsonl", 1)]
    (main, sub_agent, orphan), rejects = read(plan)
    assert rejects == []
    assert (main.native_id, main.parent, main.steps[0].member) == (SESSION, None, f"{SESSION}.jsonl")
    assert (sub_agent.parent, sub_agent.parent_step, sub_agent.relation) == (SESSION, 0, "subagent")
    assert (sub_agent.steps[0].member, sub_agent.steps[0].offset) == (
        place.removeprefix("p/"),
        agent("x1").index(b"\n") + 1,
    )
    assert (orphan.parent, orphan.relation) == (None, "subagent")


@pytest.mark.parametrize(
    "to",
    [f"/home/u/.claude/projects/p/{SESSION}/tool-results/b1.txt", rf"C:\u\.claude\p\{SESSION}\tool-results\b1.txt"],
)
def test_an_answer_that_was_moved_to_a_file_is_read_from_there_whole(tmp_path, to):
    plan = laid(tmp_path, {LOG: session(moved(to)), f"p/{SESSION}/tool-results/b1.txt": WHOLE.encode()})
    [main] = read(plan)[0]
    shown = main.steps[1].next_observation
    assert shown is not None
    assert (shown.content, shown.truncation) == (WHOLE, "none")


def test_the_client_s_words_behind_an_answer_are_told_before_the_next_action(tmp_path):
    talk, told = Talk(), "agentId: x1 (for resuming to continue this agent's work if needed)"
    lines = log(
        talk.user("u", "go", None),
        talk.agent("a1", "msg_1", use("t1", "Agent", prompt="look")),
        talk.result("r1", "t1", [text("found"), text(told)]),
        talk.call("a2", "msg_2", "t2"),
        talk.result("r2", "t2", "done"),
    )
    [main] = read(laid(tmp_path / "raw", {LOG: lines}))[0]
    shown = main.steps[0].next_observation
    assert shown is not None
    assert shown.content == "found"
    assert told in str(main.steps[1].interleaved)


def test_an_answer_is_read_from_its_own_session_alone_and_else_is_what_the_agent_saw_of_it(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    raw = tmp_path / "raw"
    folder = raw / "p" / SESSION / "tool-results"
    folder.mkdir(parents=True)
    (folder / "b1.txt").symlink_to(secret)
    (raw / "p" / "b2.txt").write_text("of nobody")
    for name in ("b1.txt", "../../b2.txt", "../../../../secret"):
        note = moved(f"{folder}/{name}")
        [main] = read(laid(raw, {LOG: session(note)}))[0]
        shown = main.steps[1].next_observation
        assert shown is not None
        assert (shown.content, shown.truncation) == ("line\n...", "harness")


LONG = "a line that is long enough to be put away\n" * 20


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every entry goes to the file."""
    monkeypatch.setattr(spool, "HELD_BYTES", 1)


def conversation() -> bytes:
    """A log with long texts of every kind: words, thoughts, arguments, answers, summaries, prompts of sub-agents."""
    talk, side = Talk(), Talk(isSidechain=True)
    lines: list[Any] = [
        talk.user("u0", f"<command-name>/init</command-name> {LONG}", None),
        talk.user("u1", f"{LONG} do it \udc80 ü"),
        talk.agent("a1", "msg_1", {"type": "thinking", "thinking": f"{LONG} thought"}, text(f"{LONG} said")),
        talk.agent("a2", "msg_1", use("t1", "Bash", command=f"{LONG} run")),
        talk.result("r1", "t1", f"{LONG} out\n<system-reminder>{LONG}</system-reminder>"),
        talk.agent("a3", "msg_2", use("t2", "Task", prompt=f"{LONG} look")),
        side.user("x1", f"{LONG} look", None),
        side.call("x2", "msg_x", "t9"),
        side.result("x3", "t9", f"{LONG} seen"),
        talk.result("r2", "t2", f"{LONG} told"),
        talk.line("system", "c", None, subtype="compact_boundary", logicalParentUuid="r2"),
        talk.user("s", f"{LONG} summary", isCompactSummary=True),
        talk.agent("a4", "msg_3", use("t3", "Bash", command="ls")),
        talk.result("r3", "t3", [{"type": "text", "text": f"{LONG} one"}, {"type": "text", "text": "two"}]),
        talk.agent("a5", "msg_4", text(f"{LONG} bye")),
        talk.user("u9", f"{LONG} thanks"),
    ]
    return log(*lines)


def test_rows_are_the_same_whether_entries_stand_in_memory_or_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    data = conversation()
    whole = rows(data)
    assert len(whole) == 5
    assert sum(LONG[:40] in str(row) for row in whole) == 5
    for limit in (1, 2000, len(data) // 2):
        monkeypatch.setattr(spool, "HELD_BYTES", limit)
        assert rows(data) == whole


@pytest.mark.usefixtures("far")
def test_replicas_of_long_texts_count_once_and_texts_that_differ_at_their_end_do_not() -> None:
    talk = Talk()
    words = [talk.user("u", f"{LONG}a", None), talk.agent("a1", "msg_000000000000001", use("t1", "Bash", c=f"{LONG}x"))]
    words.append(talk.result("r1", "t1", f"{LONG}1"))
    names = {"u": "v", "a1": "b1", "r1": "s1"}
    again = [{**line, "uuid": names[line["uuid"]], "parentUuid": names.get(line["parentUuid"])} for line in words]
    assert [len(trajectory.steps) for trajectory in parsed(log(*words, *again))[0]] == [1]
    result = talk.result("r2", "t1", f"{LONG}2", parent="a1")
    assert parsed(log(*words, result))[1][0].reason == "result_repeated"
    assert parsed(log(*words, talk.result("r3", "t1", f"{LONG}1", parent="a1")))[1] == []


def hostile() -> Iterator[tuple[str, bytes]]:
    talk = Talk()
    lines = [talk.user("u", "go", None)]
    for number in range(800):
        lines.append(talk.call(f"a{number}", f"m{number}", f"t{number}", parent=f"a{number - 1}" if number else "u"))
        lines.append(talk.result(f"r{number}", f"t{number}", "x"))
        lines.append(talk.agent(f"b{number}", f"n{number}", text("no"), parent=f"r{number}"))
    yield "a comb", log(*lines)
    talk = Talk()
    yield (
        "one id",
        log(
            *(talk.agent(f"a{n}", "m", use("t", "Bash", n=n)) for n in range(800)),
            *(talk.result(f"r{n}", "t", n) for n in range(800)),
        ),
    )
    talk = Talk()
    yield (
        "reminders",
        log(talk.call("a", "m", "t"), talk.result("r", "t", "x" + "\n<system-reminder>y</system-reminder>" * 4000)),
    )
    talk = Talk()
    yield "texts", log(talk.user("u", [text("a<system-reminder>")] * 4000, None), talk.call("a", "m", "t"))


@pytest.mark.parametrize(("name", "data"), [pytest.param(*case, id=case[0]) for case in hostile()])
def test_hostile_log_takes_time_in_proportion_to_its_size(name: str, data: bytes) -> None:
    trajectories, _ = parsed(data)
    assert trajectories
