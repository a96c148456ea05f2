"""Claude Code sessions of several files: sub-agents and answers that stand beside the session's log."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.connectors.claude_logs import SESSION, Talk, log, text, use
from trajmill.pipelines.normalize.input_reading import read_input
from trajmill.pipelines.plan.plan import Plan, make_plan
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.schemas import Reject, Trajectory

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
    found = [one for given in plan.inputs for one, _ in read_input(given, RECIPE)]
    return [one for one in found if isinstance(one, Trajectory)], [one for one in found if isinstance(one, Reject)]


@pytest.mark.parametrize("place", [f"p/{SESSION}/subagents/agent-x1.jsonl", "p/agent-x1.jsonl"])
def test_a_sub_agent_in_a_file_of_its_own_has_the_step_that_started_it_as_its_parent(tmp_path, place):
    other = agent("y1").replace(SESSION.encode(), b"another-session")
    plan = laid(tmp_path, {LOG: session(), place: agent("x1"), "p/agent-y1.jsonl": other})
    assert [(one.uri, len(one.members)) for one in plan.inputs] == [(LOG, 2), ("p/agent-y1.jsonl", 1)]
    (main, found, orphan), rejects = read(plan)
    assert rejects == []
    assert (main.native_id, main.parent, main.steps[0].member) == (SESSION, None, f"{SESSION}.jsonl")
    assert (found.parent, found.parent_step, found.relation) == (SESSION, 0, "subagent")
    assert (found.steps[0].member, found.steps[0].offset) == (place.removeprefix("p/"), agent("x1").index(b"\n") + 1)
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


def test_an_answer_is_read_from_its_own_session_alone_and_else_is_what_the_agent_saw(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    raw = tmp_path / "raw"
    folder = raw / "p" / SESSION / "tool-results"
    folder.mkdir(parents=True)
    (folder / "b1.txt").symlink_to(secret)
    (raw / "p" / "b2.txt").write_text("of nobody")
    for name in ("b1.txt", "../../b2.txt", "../../../../secret"):
        given = moved(f"{folder}/{name}")
        [main] = read(laid(raw, {LOG: session(given)}))[0]
        shown = main.steps[1].next_observation
        assert shown is not None
        assert (shown.content, shown.truncation) == (given, "harness")
