"""Edits as unified diffs, where a call tells the old text and the new."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipelines.render.assembled import samples_of
from tests.pipelines.render.test_turns import row
from tests.tables import table
from trajmill.pipelines.recipe.recipe import Mix
from trajmill.pipelines.render.edits import edit_of

OLD, NEW = "def lit():\n    return False\n", "def lit():\n    return True\n"


def call(tool, **arguments):
    return json.dumps({"name": tool, "arguments": arguments})


@pytest.mark.parametrize(
    ("text", "rest", "diff"),
    table(__file__, "edits"),
)
def test_an_edit_is_the_call_without_its_texts_and_a_diff_of_them(text, rest, diff):
    found = edit_of(text)
    assert found is not None
    assert json.loads(found.call)["arguments"] == rest
    assert json.loads(found.call)["name"] == json.loads(text)["name"]
    assert found.diff == diff


@pytest.mark.parametrize(
    "text",
    [
        "ls",
        "[]",
        '{"name": "bash"}',
        call("bash", command="sed -i s/a/b/ x"),
        call("Write", file_path="/t/x.py", content="all of it"),
        call("rename", old_str="a", new_str="b"),
        call("Edit", file_path="/t/x.py", old_string=5, new_string="b"),
        call("Edit", file_path="/t/x.py", old_string="a"),
        call("MultiEdit", file_path="/t/x.py", edits=[{"old_string": "a", "new_string": "b"}, "rest"]),
        call("MultiEdit", file_path="/t/x.py", edits=[]),
        call("MultiEdit", file_path="x", edits=[{"old_string": "a", "new_string": "b", "replace_all": True}]),
        call("str_replace_editor", command="view", path="/t/x.py", old_str="a", new_str="b"),
        call("str_replace_editor", command="insert", path="/t/x.py", insert_line=True, new_str="b"),
        call("submit_patch", patch=None),
    ],
)
def test_what_does_not_tell_old_and_new_is_no_edit(text):
    assert edit_of(text) is None


TEXTS = st.lists(st.sampled_from(["a", "b", "", " c"]), max_size=6).map("\n".join)


@given(old=TEXTS.filter(bool), new=TEXTS)
def test_nothing_of_the_two_texts_is_lost(old, new):
    found = edit_of(call("Edit", file_path="x", old_string=old, new_string=new))
    assert found is not None
    lines = found.diff.split("\n")[3:-1]
    was, becomes = ("\n".join(line[1:] for line in lines if line[0] in marks) for marks in (" -", " +"))
    if old.endswith("\n") == new.endswith("\n"):
        assert (was, becomes) == (old.removesuffix("\n"), new.removesuffix("\n"))
    elif new:
        assert (was, becomes) == (old, new)


def test_texts_of_many_lines_are_compared_in_bounded_time():
    old, new = ("\n".join(f"{mark}{n}" for n in range(30_000)) for mark in "ab")
    found = edit_of(call("Edit", file_path="x", old_string=old, new_string=new))
    assert found is not None
    assert found.diff.count("\n-a") == found.diff.count("\n+b") == 30_000


@pytest.mark.parametrize("pool", ["sft", "cpt", "rl", "eval"])
def test_samples_of_every_pool_follow_the_recipe(pool):
    text = call("Edit", file_path="x.py", old_string="a", new_string="b")
    rows = [
        {
            **row(0, text, "done"),
            **dict.fromkeys(("source", "group"), "s"),
            "num_segments": 1,
            "number": 1,
            "row_id": "r",
        }
    ]
    for edits in ("call", "diff"):
        (sample,) = samples_of(pool, rows, Mix(edits=edits))
        assert ("@@ ... @@" in json.dumps(sample)) == (edits == "diff")
