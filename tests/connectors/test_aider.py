"""Aider: how a line is written decides who spoke."""

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.swe.aider import Aider
from trajmill.connectors.swe.aider.lines import sessions
from trajmill.schemas import Trajectory

START = "# aider chat started at 2024-01-01 00:00:00\n\n"


def test_what_aider_asks_and_the_user_types_then_is_no_output():
    asks = "> a.py:1: E999  \n> Attempt to fix lint errors? y  \n"
    files = "> a.py  \n> b.py  \n> Add these files to the chat? n  \n"
    text = START + f"#### Go.  \n\n<<<<<<< SEARCH\na\n\n{asks}\nI need a.py and b.py.\n\n{files}\n#### Why?  \n\nSo.\n"
    trajectory = next(iter(Aider().parse(MemoryBlob("h.md", text.encode()))))
    assert isinstance(trajectory, Trajectory)
    steps = list(trajectory.steps)
    shown = [(step.next_observation.content, step.next_observation.origin) for step in steps if step.next_observation]
    assert shown == [("a.py:1: E999", "environment"), ("Why?", "user")]
    asked = json.loads(steps[2].interleaved or "")
    assert asked[0] == {"role": "harness", "content": "a.py\nb.py\nAdd these files to the chat?"}
    assert asked[1] == {"role": "user", "content": "n"}


def test_an_edit_of_lines_that_the_file_does_not_hold_is_answered_by_the_environment_with_an_error():
    refusal = "> The LLM did not conform to the edit format.  \n> # 1 SEARCH/REPLACE block failed to match!  \n"
    text = START + "#### Go.  \n\n<<<<<<< SEARCH\na\n\n" + refusal + "> # The other block was applied.  \n"
    trajectory = next(iter(Aider().parse(MemoryBlob("h.md", text.encode()))))
    assert isinstance(trajectory, Trajectory)
    seen = trajectory.steps[0].next_observation
    assert seen is not None
    assert (seen.origin, seen.is_error) == ("environment", True)


LINES = [
    "", "#### say  ", "#### head", "> out  ", "> quote", ">  ", "```", "text", START.strip(), "> ^C  ", "\x00",
    "word  ",
]  # fmt: skip


@given(st.lists(st.sampled_from(LINES), max_size=30))
def test_blocks_hold_every_word_of_a_history_in_order(lines):
    text = "\n".join([START.strip(), *lines])
    texts = [piece for session in sessions(MemoryBlob("h", text.encode())) for b in session.blocks for piece in b.texts]
    expected = [line for line in lines if line != START.strip()]
    assert re.sub(r"[>#\s]", "", "".join(texts)) == re.sub(r"[>#\s]", "", "".join(expected))
