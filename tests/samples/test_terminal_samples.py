"""The terminal samples are what their README says: enough of them, of the right shape, with what was planted."""

from __future__ import annotations

import json
import re
from typing import Final

from samples.makers import claude_code_chores, make_claude_code
from samples.makers.record_terminal import version_1
from tests.conftest import ROOT

TERMINAL: Final = ROOT / "samples" / "terminal"
CASTS: Final = sorted((TERMINAL / "asciicast").glob("*.cast"))
LOGS: Final = sorted((TERMINAL / "claude_code").glob("*/*.jsonl"))


def test_nothing_of_the_recording_machine_shows() -> None:
    for path in [*CASTS, *LOGS]:
        data = path.read_bytes()
        assert set(re.findall(rb"/home/(\w+)", data)) <= {b"dev"}
        assert set(re.findall(rb"dev@(\w+)", data)) <= {b"devbox", b"example"}
        assert b"root@" not in data
        assert b"/tmp/" not in data


def test_a_session_is_written_alike_each_time() -> None:
    first = make_claude_code.written("people", claude_code_chores.tidy_csv, 11, 3)
    assert first == make_claude_code.written("people", claude_code_chores.tidy_csv, 11, 3)
    assert first != make_claude_code.written("people", claude_code_chores.tidy_csv, 12, 3)


def test_version_1_keeps_the_output_and_its_delays() -> None:
    lines = ('{"version": 2, "width": 80, "height": 24}', '[0.5, "o", "a"]', '[0.75, "i", "x"]', '[2.0, "o", "b"]')
    cast = json.loads(version_1("\n".join(lines).encode()))
    assert cast == {"version": 1, "width": 80, "height": 24, "duration": 2.0, "stdout": [[0.5, "a"], [1.5, "b"]]}
