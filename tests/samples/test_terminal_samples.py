"""The terminal samples are what their README says: enough of them, of the right shape, with what was planted."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from samples.makers import claude_code_chores, make_claude_code
from samples.makers.record_terminal import sessions, version_1
from tests.conftest import ROOT

TERMINAL: Final = ROOT / "samples" / "terminal"
CASTS: Final = sorted((TERMINAL / "asciicast").glob("*.cast"))
LOGS: Final = sorted((TERMINAL / "claude_code").glob("*/*.jsonl"))
CUT: Final = "cut_short.cast"


def events(path: Path) -> tuple[dict[str, Any], list[list[Any]]]:
    head, *rows = [json.loads(line) for line in path.read_bytes().splitlines()]
    return head, rows


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def blocks(log: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    contents = [row["message"]["content"] for row in log if "message" in row]
    return [block for content in contents if isinstance(content, list) for block in content if block["type"] == kind]


def test_there_are_enough_samples_over_enough_tasks() -> None:
    found, copies = sessions()
    assert {path.stem for path in CASTS} == {session.name for session in found} | set(copies)
    assert len(CASTS) >= 32
    assert len({session.title for session in found}) >= 24
    assert len(LOGS) >= 16


def test_the_whole_folder_is_small() -> None:
    assert sum(path.stat().st_size for path in TERMINAL.rglob("*") if path.is_file()) < 2_500_000


def test_nothing_of_the_recording_machine_shows() -> None:
    for path in [*CASTS, *LOGS]:
        data = path.read_bytes()
        assert set(re.findall(rb"/home/(\w+)", data)) <= {b"dev"}
        assert set(re.findall(rb"dev@(\w+)", data)) <= {b"devbox", b"example"}
        assert b"root@" not in data
        assert b"/tmp/" not in data


@pytest.mark.parametrize("path", [path for path in CASTS if path.name != CUT], ids=lambda path: path.stem)
def test_recordings_are_well_formed(path: Path) -> None:
    head, found = events(path)
    assert head["version"] in (1, 2, 3)
    if head["version"] == 1:
        assert not found
        assert all(delay >= 0 and isinstance(data, str) for delay, data in head["stdout"])
        return
    assert all(len(event) == 3 and event[1] in "oirx" and isinstance(event[2], str) for event in found)
    assert all(event[0] >= 0 for event in found)


def test_some_recordings_hold_no_input_and_all_three_versions_occur() -> None:
    heads = {path.stem: events(path) for path in CASTS if path.name != CUT}
    assert Counter(head["version"] for head, _ in heads.values()).keys() == {1, 2, 3}
    silent = [name for name, (_, found) in heads.items() if all(event[1] != "i" for event in found)]
    assert 8 <= len(silent) < len(heads) / 2


def test_the_truncated_recording_ends_within_a_line() -> None:
    *whole, last = (TERMINAL / "asciicast" / CUT).read_bytes().split(b"\n")
    assert all(json.loads(line) for line in whole)
    with pytest.raises(ValueError, match="1"):
        json.loads(last)


def test_the_empty_shell_was_only_cleared_and_left() -> None:
    _, found = events(TERMINAL / "asciicast" / "empty_shell.cast")
    assert "".join(data for _, kind, data in found if kind == "i") == "clear\r\x04"


def test_the_crashed_shell_says_no_exit() -> None:
    _, found = events(TERMINAL / "asciicast" / "crashed_shell.cast")
    assert found[-1][2].startswith("Killed")


def test_two_files_are_exact_copies() -> None:
    times = Counter(path.read_bytes() for path in [*CASTS, *LOGS])
    assert sorted(times.values())[-3:] == [1, 2, 2]


@pytest.mark.parametrize("path", LOGS, ids=lambda path: f"{path.parent.name}/{path.stem[:8]}")
def test_session_lines_form_chains_and_results_answer_calls(path: Path) -> None:
    log = rows(path)
    chained = [row for row in log if "uuid" in row]
    known = {row["uuid"] for row in chained}
    assert len(known) == len(chained)
    assert all(row["parentUuid"] is None or row["parentUuid"] in known for row in chained)
    assert sum(row["parentUuid"] is None for row in chained) == 1 + any(row["isSidechain"] for row in chained)
    calls = [block["id"] for block in blocks(log, "tool_use")]
    results = [block["tool_use_id"] for block in blocks(log, "tool_result")]
    assert set(results) <= set(calls)
    assert len(calls) - len(results) == (path.parent.name == "porting")


def test_the_kinds_of_lines_that_real_logs_have_all_occur() -> None:
    every = [row for path in LOGS for row in rows(path)]
    assert {row["type"] for row in every} == {"user", "assistant", "summary", "file-history-snapshot"}
    names = {block["name"] for block in blocks(every, "tool_use")}
    assert names == {"Bash", "Read", "Write", "Edit", "Grep", "Glob", "TodoWrite", "Task"}
    assert any(block["is_error"] for block in blocks(every, "tool_result"))
    assert any(row.get("isMeta") for row in every)
    shared = Counter(row["message"]["id"] for row in every if row["type"] == "assistant")
    assert max(shared.values()) > 4


def test_a_session_is_written_alike_each_time() -> None:
    first = make_claude_code.written("people", claude_code_chores.tidy_csv, 11, 3)
    assert first == make_claude_code.written("people", claude_code_chores.tidy_csv, 11, 3)
    assert first != make_claude_code.written("people", claude_code_chores.tidy_csv, 12, 3)


def test_version_1_keeps_the_output_and_its_delays() -> None:
    lines = ('{"version": 2, "width": 80, "height": 24}', '[0.5, "o", "a"]', '[0.75, "i", "x"]', '[2.0, "o", "b"]')
    cast = json.loads(version_1("\n".join(lines).encode()))
    assert cast == {"version": 1, "width": 80, "height": 24, "duration": 2.0, "stdout": [[0.5, "a"], [1.5, "b"]]}
