"""Scripts of user actions: one reject a script, since they show no page."""

import json

import pytest

from tests.conftest import ROOT
from tests.rows import blob_at
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.registry import connector
from trajmill.schemas import Reject

SCRIPT = connector("recorded_script")
INPUT = ROOT / "tests" / "fixtures" / "recorded_script" / "input"


@pytest.mark.parametrize(("name", "count", "offset"), [("tides.side", 2, 140), ("recording.json", 3, 0)])
def test_each_script_is_one_reject_with_the_number_of_its_commands(name, count, offset):
    (reject,) = SCRIPT.parse(blob_at(INPUT / name))
    assert isinstance(reject, Reject)
    assert (reject.reason, reject.offset) == ("no_observation", offset)
    assert reject.detail.startswith(f"{count} commands")


def test_documents_with_steps_of_other_kinds_are_left_to_others():
    other = {"title": "x", "steps": [{"type": "thought", "text": "y"}]}
    assert SCRIPT.sniff(json.dumps(other).encode(), "x.json") is None
    assert SCRIPT.sniff(b'{"history": [{"model_output": {"title": 1, "steps": 2}}]}', "x.json") is None
    assert MemoryBlob("x", b"").uri == "x"
