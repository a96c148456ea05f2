"""One damaged line in every format of JSON lines: it costs itself, and nothing else of the log."""

import json
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.golden.digests import outcome
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.registry import connectors

STOPS = {"asciicast"}
"""Formats of which a lost record changes what all later ones mean."""


def logs():
    for path in sorted((ROOT / "tests" / "fixtures").glob("*/input/*")):
        lines = path.read_bytes().strip(b"\n").split(b"\n") if path.is_file() else []
        try:
            records = [json.loads(line) for line in lines]
        except ValueError:
            continue
        if len(records) > 3 and all(isinstance(record, dict | list) for record in records):
            yield path.parents[1].name, path, lines


LOGS = [(name, path, lines) for name, path, lines in logs() if name in connectors() and name not in STOPS]


def damaged(lines: list[bytes], index: int, between: bytes) -> MemoryBlob:
    return MemoryBlob("log", b"\n".join(lines[:index]) + between + b"\n".join(lines[index:]) + b"\n")


@pytest.mark.parametrize(("name", "path", "lines"), LOGS, ids=[f"{name}/{path.name}" for name, path, _ in LOGS])
def test_a_line_without_its_end_half_a_line_and_zeros_cost_no_record(name: str, path: Path, lines: list[bytes]):
    connector, index = connectors()[name], len(lines) // 2
    whole = outcome(connector, MemoryBlob("log", path.read_bytes()))
    glued = outcome(connector, damaged(lines, index, b""))
    assert (glued["rows"], glued["rejects"]) == (whole["rows"], whole["rejects"])
    half = lines[index - 1][: len(lines[index - 1]) // 2]
    for more in (half, b"\0" * 64):
        result = outcome(connector, damaged(lines, index, b"\n" + more))
        assert result["rows"] == whole["rows"]
        assert sum(result["rejects"].values()) == sum(whole["rejects"].values()) + 1
