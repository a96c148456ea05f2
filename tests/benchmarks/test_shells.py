"""Sessions of a scripted agent are really run, and the mill reads them."""

from __future__ import annotations

from itertools import islice

import pytest

from benchmarks.shells import sessions
from tests.rows import parsed
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.registry import connector


@pytest.fixture(scope="module")
def logs() -> list[tuple[str, bytes]]:
    return list(islice(sessions(60, 0), 1))


def test_what_shells_answered_stands_in_the_log(logs: list[tuple[str, bytes]]) -> None:
    (name, data), *_ = logs
    rows, _ = parsed(connector("claude_code"), MemoryBlob(name, data))
    assert len(rows) > 4
    assert "data.csv" in rows[0]["next_observation"]["content"]
    assert "# Project 0" in rows[0]["next_observation"]["content"]
