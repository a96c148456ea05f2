"""Claude Code logs whose entries stand in a file: nothing of what comes out may tell that they did."""

from typing import Any

import pytest

from tests.connectors.claude_logs import Talk, log, rows, text, use
from trajmill.connectors.agents.claude_code import ClaudeCode
from trajmill.connectors.connector import MemoryBlob
from trajmill.schemas import Reject, Trajectory, spool

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


def read(data: bytes) -> tuple[list[Trajectory], list[str]]:
    found = list(ClaudeCode().parse(MemoryBlob("log.jsonl", data)))
    return [o for o in found if isinstance(o, Trajectory)], [o.reason for o in found if isinstance(o, Reject)]


def test_rows_are_the_same_whether_entries_stand_in_memory_or_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    data = conversation()
    whole = rows(data)
    assert len(whole) == 5
    assert sum(LONG[:40] in str(row) for row in whole) == 5
    for held in (1, 2000, len(data) // 2):
        monkeypatch.setattr(spool, "HELD_BYTES", held)
        assert rows(data) == whole


@pytest.mark.usefixtures("far")
def test_replicas_of_long_texts_count_once_and_texts_that_differ_at_their_end_do_not() -> None:
    talk = Talk()
    words = [talk.user("u", f"{LONG}a", None), talk.agent("a1", "msg_000000000000001", use("t1", "Bash", c=f"{LONG}x"))]
    words.append(talk.result("r1", "t1", f"{LONG}1"))
    names = {"u": "v", "a1": "b1", "r1": "s1"}
    again = [{**line, "uuid": names[line["uuid"]], "parentUuid": names.get(line["parentUuid"])} for line in words]
    assert [len(one.steps) for one in read(log(*words, *again))[0]] == [1]
    other = talk.result("r2", "t1", f"{LONG}2", parent="a1")
    assert read(log(*words, other))[1] == ["result_repeated"]
    assert read(log(*words, talk.result("r3", "t1", f"{LONG}1", parent="a1")))[1] == []
