"""The issue and the touched files of a prompt."""

import pytest

from trajmill.connectors.swe.issue import issue_in


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
