"""The issue and the touched files of a prompt."""

import json

import pytest

from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.swe.issue import issue_in, issue_of_trajectory, state_in, touched

PATCH = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+c\n"


@pytest.mark.parametrize(
    ("text", "issue"),
    [
        ("Solve it.\n<issue>\nIt is dark.\n</issue>\nGo.", "It is dark."),
        ("<pr_description>\nIt is dark.\n</pr_description>", "It is dark."),
        ("We solve an issue:\nISSUE:\nIt is dark.\n\nINSTRUCTIONS:\nGo.", "It is dark."),
        ("ISSUE:\nIt breaks off", None),
        ("<issue>\n \n</issue>", None),
        ("<issue>never closed", None),
        ("It is dark.", None),
    ],
)
def test_an_issue_is_what_stands_between_known_marks(text, issue):
    assert issue_in(text) == issue


def test_of_the_files_of_a_prompt_those_that_the_patch_touches_are_taken():
    files = "[start of x.py]\n1 '</code>'\n[end of x.py]\n[start of y.py]\n1 c\n[end of y.py]"
    text = f"<issue>\nUse <code>a</code>.\n</issue>\n<code>\n{files}\n</code>\nGo."
    assert touched(PATCH) == ["x.py", "new.py"]
    assert state_in(text, PATCH) == "Use <code>a</code>.\n\n[start of x.py]\n1 '</code>'\n[end of x.py]"
    assert state_in("Go.", PATCH) is None


def test_a_demonstration_and_a_file_that_cannot_be_read_state_no_issue():
    shown = {"role": "user", "content": "<issue>\nanother\n</issue>", "is_demo": True}
    asked = {"role": "user", "content": [{"type": "text", "text": "<issue>\nthis\n</issue>"}]}
    data = json.dumps({"history": [shown, asked]}).encode()
    assert issue_of_trajectory(MemoryBlob("x", {"t.traj": data}), "t.traj") == "this"
    assert issue_of_trajectory(MemoryBlob("x", {"t.traj": data[:-9]}), "t.traj") is None
    assert issue_of_trajectory(MemoryBlob("x", {"t.traj": b'{"messages": 5}'}), "t.traj") is None


def test_marks_are_looked_for_in_linear_time():
    for text in (
        "<issue>" * 100_000,
        "</issue>\n<code>\n" * 100_000,
        "[start of x.py]\n" * 100_000,
        "ISSUE:\n" * 100_000,
    ):
        state_in(text, PATCH)
        state_in(text, text)
