"""Terminal-Bench trials: what is one log, what is the harness's own, and what agents logged in the recording."""

import json

import pytest

from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.recordings.terminal_bench import TerminalBench
from trajmill.connectors.recordings.terminal_bench.agent_logs import plain
from trajmill.schemas import ParseError, Reject, Trajectory

CONNECTOR = TerminalBench()
RESULTS = {
    "id": "u-1",
    "trial_name": "t.1-of-1",
    "task_id": "t",
    "instruction": "Do [it].",
    "is_resolved": True,
    "failure_mode": "unset",
    "parser_results": {"a": "passed", "b": "failed"},
}
PROMPT = "\x1b[?2004hroot@b:/app# "


def cast(*events: tuple[str, str]) -> bytes:
    rows = [{"version": 2, "width": 60, "height": 10, "timestamp": 1900000000}]
    rows += [[float(number), code, data] for number, (code, data) in enumerate(events)]  # type: ignore[misc]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def typed(command: str, shown: str = "") -> list[tuple[str, str]]:
    return [("i", f"{command}\r"), ("o", f"{command}\r\n\x1b[?2004l\r{shown}{PROMPT}")]


def parsed(*events: tuple[str, str], **results: object) -> tuple[list[Trajectory], list[Reject]]:
    members = {
        "results.json": json.dumps({**RESULTS, **results}).encode(),
        "sessions/agent.cast": cast(("o", PROMPT), *typed("clear"), *events, ("i", "\x04"), ("o", "exit\r\n")),
    }
    found = list(CONNECTOR.parse(MemoryBlob("t.1-of-1", members)))
    return [one for one in found if isinstance(one, Trajectory)], [one for one in found if isinstance(one, Reject)]


def test_a_timeout_of_the_agent_cuts_the_last_step():
    (one,), _ = parsed(*typed("ls"), failure_mode="agent_timeout")
    assert one.steps[-1].truncated is True


def test_an_entry_of_commands_that_is_a_plain_string_is_read_like_a_list_of_one():
    def told(commands: bytes) -> list[str]:
        members = {"results.json": json.dumps(RESULTS).encode(), "commands.txt": commands}
        members["sessions/agent.cast"] = cast(("o", PROMPT), *typed("ls"))
        found = list(CONNECTOR.parse(MemoryBlob("t", members)))
        assert any(isinstance(one, Trajectory) for one in found)
        return [one.reason for one in found if isinstance(one, Reject)]

    assert told(b"'source /setup.sh'\n['ls', 'Enter']\n\"it's\"\n") == []
    assert told(b"'cut\n7\nNone\n") == ["bad_command"] * 3
    with pytest.raises(ParseError) as caught:
        told(b"'source /installed-agent/setup-env.sh'\n")
    assert caught.value.reason == "unknown_agent_log"


def test_lines_drawn_anew_show_the_last():
    assert plain("10%\r20%\r\n\x1b[32mok\x1b[0m\r\n") == "20%\nok\n"
    assert plain("wait\r\n\x1b[1A\x1b[2K\rdone") == "done\n"
    assert plain("longer\rab") == "abnger"
