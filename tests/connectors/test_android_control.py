"""AndroidControl: screens stand around their actions, points become nodes, instructions are what was said."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.connectors.android_logs import outcome, read
from tests.connectors.android_records import BUTTON, FRAME, PNG, example, forest, screen, tfrecord
from trajmill.connectors.android.android_control import AndroidControl
from trajmill.connectors.android.android_control.forest import read_forest
from trajmill.connectors.android.android_control_jsonl import AndroidControlJsonl
from trajmill.connectors.connector import MemoryBlob
from trajmill.schemas import ParseError, Reject, Step

CONNECTOR = AndroidControl()
LINES = AndroidControlJsonl()
OK = {**BUTTON, "text": "OK", "view_id_resource_name": "org.example:id/ok", "box": (0, 0, 50, 50)}


def episode(*actions: Any, trees: list[bytes] | None = None, **more: Any) -> bytes:
    """A serialized episode of those actions; each of its screens has the button OK unless told."""
    shown = [screen(OK)] * (len(actions) + 1) if trees is None else trees
    pictures = [PNG + bytes([index]) for index in range(len(actions) + 1)]
    texts = [json.dumps(action) for action in actions]
    lists = {"accessibility_trees": shown, "screenshots": pictures, "actions": texts}
    return example(**{"episode_id": 5, "goal": "do it", **lists, **more})


def steps(*actions: Any, **more: Any) -> list[Step]:
    return list(read(CONNECTOR, MemoryBlob("x", tfrecord(episode(*actions, **more))))[0][0].steps)


@pytest.mark.parametrize(
    ("record", "reasons"),
    [
        (episode({"action_type": "wait"}, trees=[screen(OK)] * 3), ["unaligned", "no_transitions"]),
        (episode({"action_type": "wait"}, trees=[screen(OK)]), ["unaligned", "no_transitions"]),
        (episode(["wait"]), ["bad_record", "no_transitions"]),
        (episode(), ["no_actions", "no_transitions"]),
        (b"\x0a\xff", ["bad_record", "no_transitions"]),
        (example(), ["bad_record", "no_transitions"]),
    ],
)
def test_an_episode_whose_screens_cannot_be_told_apart_is_rejected(record: bytes, reasons: list[str]) -> None:
    records = CONNECTOR.parse(MemoryBlob("x", tfrecord(record)))
    rejected = next(records)
    with pytest.raises(ParseError) as caught:
        next(records)
    assert isinstance(rejected, Reject)
    assert [rejected.reason, caught.value.reason] == reasons


def test_views_off_the_screen_and_those_never_laid_out_have_no_line() -> None:
    boxes = [(0, 190, 50, 250), (0, 200, 50, 250), (50, 0, 40, 9), (0, 0, 0, 0), (0, 2**30, 9, 2**30 + 9)]
    views = [{**BUTTON, "text": str(number), "box": box} for number, box in enumerate(boxes)]
    shown = read_forest(screen(*views, {**BUTTON, "text": "no box"}), "x", 0)
    assert [node.name for node in shown.tree.nodes] == ["org.example", "0", "no box"]


def test_views_that_circle_or_hang_loose_are_walked_once_and_the_unseen_have_no_line() -> None:
    views = [
        {**FRAME, "children": [1, 1, 0]},
        {**OK, "text": "a", "children": [0, 2]},
        {**OK, "text": "unseen", "is_visible_to_user": False, "children": [3]},
        {**OK, "text": "in it"},
        {**OK, "text": "loose"},
    ]
    shown = read_forest(forest({"views": views}), "x", 0)
    assert list(zip(shown.tree.depths, [node.name for node in shown.tree.nodes], strict=True)) == [
        (0, "org.example"),
        (1, "a"),
        (2, "in it"),
        (1, "loose"),
    ]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(["click", "long_press"]), st.lists(st.floats() | st.integers() | VALUES, min_size=2, max_size=2))
def test_a_touch_of_which_nothing_more_is_told_reads_like_any_other(word: str, pair: list[Any]) -> None:
    plain = {"action": word, "coordinate": pair, "bbox": [1, 2]}
    actions = [plain, {**plain, "time": None}]
    line = json.dumps({"goal": "x", "steps": [{"action_content": action} for action in actions]})
    trajectories, _ = outcome(LINES, MemoryBlob("any", line.encode("utf-8", "surrogatepass")))
    for trajectory in trajectories:
        touch, other_touch = trajectory.steps
        assert touch.action == other_touch.action
