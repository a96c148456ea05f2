"""In every format that has text of a harness: it stands in `interleaved`, and in no observation of the environment."""

import json

import pytest

from tests.rows import parsed
from tests.tables import table
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.conversation.harness_text import Source, read_output
from trajmill.connectors.registry import connectors

CASES = table(__file__, "harness_text")
"""Of each log its format, its members, and the words of the harness in it; the environment says SEEN."""


@pytest.mark.parametrize(("name", "members", "harness"), CASES, ids=[case[0] for case in CASES])
def test_harness_text_is_interleaved_and_in_no_observation(name, members, harness):
    data = {member: text.encode() for member, text in members.items()}
    rows, rejects = parsed(connectors()[name], MemoryBlob("log", data.get("log", data)))
    assert rejects == []
    seen = [row["next_observation"] for row in rows if row["next_observation"]]
    shown = "\n".join(observation["content"] for observation in seen if observation["origin"] == "environment")
    notes = [
        message for row in rows for message in json.loads(row["interleaved"] or "[]") if message["role"] == "harness"
    ]
    assert "SEEN" in shown
    for text in harness:
        assert text not in shown
        assert text in "\n".join(message["content"] for message in notes)


@pytest.mark.parametrize(
    "text", ["(Open file: " * 50000 + "\nbash-$", "[Current working directory:]\n" * 50000, "\n" * 500000]
)
def test_templates_are_looked_for_in_linear_time(text):
    assert len(read_output(text, Source()).notes) <= 10
