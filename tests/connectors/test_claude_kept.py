"""Claude Code logs whose entries stand in a file: nothing of what comes out may tell that they did."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from benchmarks.logs.long_logs import pieces
from tests.connectors.claude_logs import Talk, log, rows, said, text, use
from trajmill.connectors.agents.claude_code import ClaudeCode
from trajmill.connectors.agents.claude_code.entry import Entry, Setting
from trajmill.connectors.agents.claude_code.kept import Kept
from trajmill.connectors.agents.claude_code.lines import entries
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
def test_a_sub_agent_is_found_by_a_prompt_that_stands_in_the_file() -> None:
    found, _ = read(conversation())
    assert [(one.relation, one.parent_step) for one in found] == [(None, None), ("subagent", 1)]
    assert found[1].task.instruction == f"{LONG} look"
    assert said(found[0].steps[1]) == [("harness", f"<system-reminder>{LONG}</system-reminder>")]


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


def test_an_entry_comes_back_from_the_file_as_it_was(far: None) -> None:
    kept, seen = Kept(), dict[str, int]()
    pictured = {"type": "image", "source": {"media_type": "image/png", "data": "aGFsbG8="}}
    talk = Talk()
    lines = [
        talk.user("u", [text(f"{LONG} \udc80"), pictured], None),
        talk.agent("a", "msg_1", text("said"), use("t1", "Task", prompt="look")),
        talk.result("r", "t1", [text("seen"), pictured]),
        talk.line("system", "c", None, subtype="compact_boundary", logicalParentUuid="r"),
    ]
    read = [one for one in entries(MemoryBlob("log.jsonl", log(*lines)), "", seen, 0) if isinstance(one, Entry)]
    for one in read:
        kept.add(one)
    assert [kept[place] for place in range(len(kept))] == read
    assert [kept[place] for place in (3, 0, 0, 2)] == [read[3], read[0], read[0], read[2]]
    assert kept[1] is not read[1]
    assert read[0].said[0].attachments
    assert read[2].results[0].attachments


def test_settings_of_one_session_and_agent_are_one_conversation() -> None:
    kept = Kept()
    for session, agent, cwd in (("s", None, "/a"), ("s", None, "/b"), ("s", "", "/a"), ("t", None, "/a")):
        kept.add(Entry(0, None, None, True, Setting(session, agent, cwd, None), None))
    assert [kept.conversation(place) for place in range(4)] == [0, 0, 1, 2]
    assert [kept.setting(place).cwd for place in range(4)] == ["/a", "/b", "/a", "/a"]


def peak_of(megabytes: int) -> int:
    """Bytes that parsing a log of that length takes at most, besides the log."""
    data = b"".join(pieces("claude_code", megabytes * 1_000_000))
    tracemalloc.start()
    try:
        (made,) = ClaudeCode().parse(MemoryBlob("log.jsonl", data))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(made, Trajectory)
    assert len(made.steps) > 200 * megabytes
    return peak


def test_what_a_log_takes_in_memory_grows_by_less_than_a_quarter_of_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "HELD_BYTES", 1 << 16)
    long = min(peak_of(10) for _ in range(2))  # what other threads take meanwhile counts too
    assert long - peak_of(2) < 2_000_000
