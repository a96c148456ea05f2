"""Services that really answer, and what goes wrong in the logs of their wire."""

from __future__ import annotations

from itertools import islice

import pytest

from benchmarks.services import LOST, sessions
from tests.rows import parsed
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.registry import connector


@pytest.fixture(scope="module")
def rows() -> list[dict[str, object]]:
    logs = list(islice(sessions(120, 0), 24))
    assert len({name for name, _ in logs}) == len(logs)
    return [row for name, data in logs for row in parsed(connector("mcp_jsonrpc"), MemoryBlob(name, data))[0]]


def answers(rows: list[dict[str, object]], tool: str) -> list[str]:
    found = [row for row in rows if row["action"]["name"] == tool and row["next_observation"]]  # type: ignore[index]
    return [row["next_observation"]["content"] for row in found]  # type: ignore[index]


def test_databases_and_files_answer_what_they_hold(rows: list[dict[str, object]]) -> None:
    told = answers(rows, "query")
    assert any(text.startswith('{"name": "') and '"line": ' in text for text in told)
    assert "Error: no such column: names" in told
    assert any("1: " in text for text in answers(rows, "read_file"))


def test_what_the_rules_look_for_is_met(rows: list[dict[str, object]]) -> None:
    assert any(LOST in text for tool in ("query", "read_file", "search") for text in answers(rows, tool))
    assert any("<|im_start|>" in text for text in answers(rows, "read_file"))
    assert any(row["next_observation"] is None for row in rows)
