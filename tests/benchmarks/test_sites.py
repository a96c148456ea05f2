"""Sites that are really served, and what goes on beside them in the recordings."""

from __future__ import annotations

from itertools import islice

import pytest

from benchmarks.sites import recordings
from tests.rows import parsed
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.registry import connector


@pytest.fixture(scope="module")
def rows() -> list[dict[str, object]]:
    logs = list(islice(recordings(120, 0), 20))
    return [row for name, data in logs for row in parsed(connector("har"), MemoryBlob(name, data))[0]]


def test_what_sites_answer_stands_in_the_recording(rows: list[dict[str, object]]) -> None:
    told = [row["next_observation"]["content"] for row in rows if row["next_observation"]]  # type: ignore[index]
    assert any('"functions": [{"name": ' in text for text in told)
    assert any("HTTP 404" in text and "Nothing is at" in text for text in told)
    assert any("HTTP 500" in text and "ValueError: invalid literal" in text for text in told)
    assert any(text.count("HTTP ") > 1 and "location: /module/" in text for text in told)


def test_what_the_rules_look_for_is_met(rows: list[dict[str, object]]) -> None:
    text = "\n".join(str(row["next_observation"]) for row in rows)
    assert "502 Bad Gateway" in text
    assert "gehört zum Modul" in text
    assert any('"third_party": true' in row["action"]["arguments"] for row in rows)  # type: ignore[index]
    assert any("'truncation': 'recorder'" in str(row["next_observation"]) for row in rows)
