"""Connectors that read large JSON documents by their outline: what they make of one must not depend on its size."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.rows import blob_at
from trajmill.connectors.reading import structure
from trajmill.connectors.reading.large import damage, outline, parts
from trajmill.connectors.registry import connectors
from trajmill.schemas import ParseError, Reject, spool

NAMES = ("inspect", "sweagent", "mini_swe_agent", "mcp_recorder", "tau2", "tau_bench", "chat_tools", "claude_code")
FIXTURES = ROOT / "tests" / "fixtures"


def logs(name: str) -> list[Path]:
    places = (FIXTURES / name / "input", FIXTURES / name / "bad")
    return sorted(path for place in places for path in place.iterdir() if path.suffix != ".reason")


def found_in(name, blob):
    """Everything that a connector says of a log, and the offsets apart: small logs may leave them at 0."""
    told: list[object] = []
    offsets: list[int] = []
    try:
        for one in connectors()[name].parse(blob):
            if isinstance(one, Reject):
                told.append((one.unit, one.reason, one.detail, one.member, one.transitions, one.excerpt))
                offsets.append(one.offset)
            else:
                steps = list(one.steps)
                offsets += [step.offset for step in steps]
                told.append(replace(one, steps=[replace(step, offset=0) for step in steps]))
    except ParseError as error:
        told.append((error.reason, error.detail, error.member, error.excerpt))
        offsets.append(error.offset)
    return told, offsets


def both_ways(name, blob):
    small = found_in(name, blob)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outline, "LARGE_BYTES", 0)
        patch.setattr(outline, "PIECE_BYTES", 0)
        patch.setattr(outline, "BLOCK_BYTES", 300)
        patch.setattr(parts, "READ_BYTES", 300)
        patch.setattr(damage, "NEAR_BYTES", 1)
        patch.setattr(structure, "CHUNK_BYTES", 1000)
        patch.setattr(spool, "HELD_BYTES", 0)
        large = found_in(name, blob)
    assert large[0] == small[0]
    for place, exact in zip(small[1], large[1], strict=True):
        assert place <= exact or is_wrapped(blob)


def is_wrapped(blob):
    """Tell a document whose rows stand within an object: a large one does not tell their places."""
    return b'"eval_cases"' in blob.read(blob.members[0])


@pytest.mark.parametrize(("name", "path"), [(name, path) for name in NAMES for path in logs(name)], ids=str)
def test_a_large_document_becomes_what_a_small_one_becomes(name, path):
    both_ways(name, blob_at(path))
