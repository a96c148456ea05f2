"""The issue and the touched files of a prompt."""

import json

import pytest

from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.swe.issue import issue_in, issue_of_trajectory


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


def test_a_demonstration_and_a_file_that_cannot_be_read_state_no_issue():
    shown = {"role": "user", "content": "<issue>\nanother\n</issue>", "is_demo": True}
    asked = {"role": "user", "content": [{"type": "text", "text": "<issue>\nthis\n</issue>"}]}
    data = json.dumps({"history": [shown, asked]}).encode()
    assert issue_of_trajectory(MemoryBlob("x", {"t.traj": data}), "t.traj") == "this"
    assert issue_of_trajectory(MemoryBlob("x", {"t.traj": data[:-9]}), "t.traj") is None
    assert issue_of_trajectory(MemoryBlob("x", {"t.traj": b'{"messages": 5}'}), "t.traj") is None
