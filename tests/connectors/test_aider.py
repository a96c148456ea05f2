"""Aider: how a line is written decides who spoke."""

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.swe.aider import Aider
from trajmill.connectors.swe.aider.lines import sessions
from trajmill.schemas import Reject, Step, Trajectory

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


def steps_of(text: str) -> list[Step]:
    (trajectory,) = Aider().parse(MemoryBlob("h.md", (START + text).encode()))
    assert isinstance(trajectory, Trajectory)
    return list(trajectory.steps)


def test_what_aider_passes_on_as_the_user_is_no_observation_and_no_message():
    plan = "Make x.py:\n\n- add `run`"
    passed = "#### Make x.py:  \n####   \n#### - add `run`  \n\n"
    tokens, applied = "> Tokens: 9 sent, 2 received.  \n\n", "> Applied edit to x.py  \n\n"
    text = f"#### /architect Go.  \n\n#### Go.  \n\n{plan}\n\n{tokens}{passed}x.py\nrun()\n\n{applied}"
    planned, edited = steps_of(text)
    assert (planned.next_observation, planned.action.name, edited.action.name) == (None, "message", "edit")
    assert json.loads(edited.interleaved or "") == [{"role": "harness", "content": "Tokens: 9 sent, 2 received."}]
    assert "Go." not in (planned.interleaved or "")


def test_the_file_or_command_that_aider_asks_about_is_no_output():
    asked = (
        "> a.py  \n> Add file to the chat? (Y)es/(N)o/(D)on't ask again [Yes]: y  \n"
        "> b.py  \n> Create new file? (Y)es/(N)o [Yes]: y  \n> Applied edit to b.py  \n"
        "> make  \n> Run shell command? [Y/n] n  \n"
    )
    edited, later = steps_of(f"#### Go.  \n\nb.py\n1\n\n```bash\nmake\n```\n\n{asked}\n#### More.  \n\nSo.\n")
    assert edited.next_observation is not None
    assert edited.next_observation.content == "Applied edit to b.py"
    notes = json.loads(later.interleaved or "")
    assert [note["content"].split("\n")[0] for note in notes if note["role"] == "harness"] == ["a.py", "b.py", "make"]


def test_reasoning_at_the_head_of_a_reply_is_no_part_of_what_was_said():
    tag = "thinking-content-" + "7b" * 16
    cut = "#### Go.  \n\n<think>\nHm, is\n\n> ^C KeyboardInterrupt  \n\n"
    (step,) = steps_of(f"{cut}#### Go on.  \n\n<{tag}>\n\nIt is a lamp.\n\n</{tag}>\n\nA lamp.\n")
    assert step.action.reasoning == "It is a lamp."
    assert json.loads(step.action.arguments or "") == {"content": "A lamp."}


def test_a_session_whose_lines_a_formatter_trimmed_is_rejected_for_that():
    text = START + "> Aider v0.50.1  \n\n#### Go.\n\n#### A heading\n\nDone.\n\n" + START + "#### Go.  \n\nDone.\n"
    trimmed, whole = Aider().parse(MemoryBlob("h.md", text.encode()))
    assert isinstance(trimmed, Reject)
    assert trimmed.reason == "rewritten"
    assert isinstance(whole, Trajectory)


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
