"""Small repositories in which bash, git and tests really run, and what goes wrong in the logs of it."""

from __future__ import annotations

from itertools import islice

import pytest

from benchmarks.repositories import runs
from benchmarks.repository_parts import PARTS
from tests.rows import parsed
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.registry import connector


@pytest.fixture(scope="module")
def rows() -> list[dict[str, object]]:
    logs = list(islice(runs(50, 0), 1))
    return [row for name, data in logs for row in parsed(connector("mini_swe_agent"), MemoryBlob(name, data))[0]]


def test_tests_fail_where_the_bug_is_and_the_log_says_so(rows: list[dict[str, object]]) -> None:
    told = [row["next_observation"]["content"] for row in rows if row["next_observation"]]  # type: ignore[index]
    assert any("Ran " in text and "FAILED" in text for text in told)
    assert any("+++ b/" in text for text in told)


def test_every_function_does_what_its_cases_say() -> None:
    for part in PARTS:
        known: dict[str, object] = {}
        exec(part.source, known)
        assert part.cases
        for given, wanted in part.cases:
            assert eval(f"{part.name}({given})", known) == eval(wanted), part.name
