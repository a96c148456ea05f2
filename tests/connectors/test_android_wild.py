"""Android in the Wild and Android in the Zoo: gestures are taps or swipes, annotations are the screen."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.connectors.android_logs import outcome, read
from tests.connectors.android_records import example, tfrecord
from tests.rows import parsed
from trajmill.connectors.android.aitw import AndroidInTheWild
from trajmill.connectors.android.aitz import AndroidInTheZoo, _boxes
from trajmill.connectors.android.annotations import screen_text, touched_node
from trajmill.connectors.connector import DEFAULT_CHOICES, Choices, MemoryBlob
from trajmill.connectors.screens.tree import Node, Tree
from trajmill.schemas import Step

WILD, ZOO = AndroidInTheWild(), AndroidInTheZoo()
NONE = [-1.0, -1.0]


def wild(number: int, kind: int, touch: list[float] = NONE, lift: list[float] = NONE, **more: Any) -> bytes:
    """A serialized step on a screen of 100 by 200 with the text `big`, in it the icon `small`."""
    told = {"episode_id": "e", "step_id": number, "results__action_type": kind, "image__width": 100}
    told |= {"image__height": 200, "results__yx_touch": touch, "results__yx_lift": lift}
    told |= {"image__ui_annotations_positions": [0.1, 0.1, 0.5, 0.5, 0.2, 0.2, 0.1, 0.1]}
    told |= {"image__ui_annotations_text": ["big", ""], "image__ui_annotations_ui_types": ["TEXT", "ICON_X"]}
    return example(**{**told, **more})


def zoo(number: int, kind: int, touch: str = "[-1.0, -1.0]", lift: str = "[-1.0, -1.0]", **more: Any) -> dict[str, Any]:
    told = {"episode_id": "e", "step_id": number, "result_action_type": kind, "result_action_text": ""}
    told |= {"ui_positions": "[[10, 20, 30, 40]]", "ui_text": '["a"]', "ui_types": '["TEXT"]'}
    return {**told, "result_touch_yx": touch, "result_lift_yx": lift, **more}


def wild_steps(*records: bytes, choices: Choices = DEFAULT_CHOICES) -> list[Step]:
    return list(read(WILD, MemoryBlob("x", tfrecord(*records), choices))[0][0].steps)


@pytest.mark.parametrize(
    ("touch", "lift", "name", "arguments"),
    [
        ([0.25, 0.25], [0.25, 0.25], "click", {"element": "#3"}),
        ([0.5, 0.5], [0.5, 0.5399], "click", {"element": "#2"}),
        ([0.9, 0.5], [0.9, 0.53], "click", {"x": 50, "y": 180}),
        ([0.5, 0.5], [0.5, 0.55], "swipe", {"from": [50, 100], "to": [55, 100]}),
        ([0.5, 0.5], [0.53, 0.53], "swipe", {"from": [50, 100], "to": [53, 106]}),
    ],
)
def test_a_gesture_is_a_tap_up_to_the_papers_distance(
    touch: list[float], lift: list[float], name: str, arguments: dict[str, Any]
) -> None:
    (step,) = wild_steps(wild(0, 4, touch, lift))
    assert json.loads(step.action.text) == {"name": name, "arguments": arguments}


@pytest.mark.parametrize(
    ("kind", "name", "arguments"),
    [
        (3, "input_text", {"text": "hi"}),
        (5, "press", {"key": "back"}),
        (6, "press", {"key": "home"}),
        (7, "press", {"key": "enter"}),
        (10, "task_complete", {}),
        (11, "task_complete", {"status": "impossible"}),
    ],
)
def test_a_number_is_an_action_of_the_vocabulary(kind: int, name: str, arguments: dict[str, Any]) -> None:
    (step,) = wild_steps(wild(0, kind, results__type_action="hi"))
    assert json.loads(step.action.text) == {"name": name, "arguments": arguments}
    (row,) = read(ZOO, MemoryBlob("x", json.dumps([zoo(0, kind, result_action_text="hi")]).encode()))[0][0].steps
    assert row.action.text == step.action.text


def test_the_next_screen_is_that_of_the_next_number_only() -> None:
    found = wild_steps(wild(0, 6), wild(1, 6), wild(3, 6), wild(4, 10), wild(5, 6))
    assert [step.next_observation is not None for step in found] == [True, False, True, False, False]
    assert all(step.observation is not None for step in found)


def test_episodes_follow_each_other_and_a_number_twice_is_rejected() -> None:
    data = tfrecord(wild(0, 6), wild(0, 5), wild(1, 10), wild(0, 6, episode_id="f"))
    trajectories, rejects = read(WILD, MemoryBlob("x", data))
    assert [(one.native_id, len(one.steps)) for one in trajectories] == [("e", 2), ("f", 1)]
    assert [(one.reason, one.offset) for one in rejects] == [("duplicate_step", len(tfrecord(wild(0, 6))))]


@pytest.mark.parametrize(
    "told",
    [
        {"results__action_type": 2},
        {"results__action_type": 4},
        {"image__width": 0},
        {"image__ui_annotations_text": ["big"]},
        {"image__ui_annotations_positions": [float("nan")] * 8},
        {"episode_id": 7},
    ],
)
def test_a_step_that_is_none_is_rejected(told: dict[str, Any]) -> None:
    data = tfrecord(wild(0, 6, **told), wild(1, 6))
    trajectories, rejects = read(WILD, MemoryBlob("x", data))
    assert len(trajectories[0].steps) == 1
    assert [one.reason for one in rejects] == ["bad_record"]


def test_raw_annotations_are_kept_as_told_and_taps_have_coordinates() -> None:
    (step,) = wild_steps(wild(0, 4, [0.25, 0.25], [0.25, 0.25]), choices=Choices(screen="raw"))
    assert step.observation is not None
    assert json.loads(step.observation.content or "")["image/ui_annotations_ui_types"] == ["TEXT", "ICON_X"]
    assert json.loads(step.action.text)["arguments"] == {"x": 25, "y": 50}
    blob = MemoryBlob("x", json.dumps([zoo(0, 6)]).encode(), Choices(screen="raw"))
    (row,) = read(ZOO, blob)[0][0].steps
    assert row.observation is not None
    assert json.loads(row.observation.content or "")["ui_positions"] == "[[10, 20, 30, 40]]"


def test_fractions_become_pixels_only_by_the_header_of_the_screenshot() -> None:
    rows = json.dumps([zoo(0, 4, "[0.1, 0.2]", "[0.1, 0.2]"), zoo(1, 4, "[0.1, 0.2]", "[0.5, 0.2]")]).encode()
    head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 270, 600)
    blob = MemoryBlob("e", {"e.json": rows, "e_0.png": head})
    first, second = read(ZOO, blob)[0][0].steps
    assert json.loads(first.action.text)["arguments"] == {"x": 54, "y": 60}
    assert json.loads(second.action.text)["arguments"] == {"from": [0.2, 0.1], "to": [0.2, 0.5]}
    assert first.observation is not None
    assert first.observation.attachments[0].name == "e_0.png"


def test_what_a_model_said_of_a_screen_is_no_observation() -> None:
    row = zoo(0, 6, coat_screen_desc="D", coat_action_think="T", coat_action_result="R")
    (step,) = read(ZOO, MemoryBlob("x", json.dumps([row]).encode()))[0][0].steps
    assert step.action.reasoning == "T"
    assert (step.observation and step.observation.content) == '#1 window\n  #2 text "a" [20,10][60,40]'


def test_folders_are_joined_by_their_own_name() -> None:
    paths = ["r/e-1/e-1.json", "r/e-1/e-1_0.png", "r/e-1/e-1_1.png", "r/e-1/other.png", "r/e-2/e-2.json", "x.json"]
    (log,) = ZOO.join(paths)
    assert (log.uri, log.anchor, sorted(log.members)) == ("r/e-1", "e-1.json", ["e-1.json", "e-1_0.png", "e-1_1.png"])


def test_heads_tell_the_files_of_each() -> None:
    assert WILD.sniff(tfrecord(wild(0, 6)), "x") is not None
    assert WILD.sniff(tfrecord(example(episode_id=3)), "x") is None
    assert WILD.sniff(tfrecord(example(episode_id="3", goal_info="g")), "x") is not None
    assert ZOO.sniff(json.dumps([zoo(0, 6)]).encode(), "x") is not None
    assert ZOO.sniff(b'[{"ui_positions": 1}]', "x") is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | st.just("[[1, 2, 3, 4]]"),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=6,
)
KEYS = ["episode_id", "step_id", "ui_positions", "ui_text", "ui_types", "result_action_type", "result_touch_yx"]


@given(st.dictionaries(st.sampled_from([*KEYS, "result_lift_yx", "instruction", "coat_action_think"]), VALUES))
@settings(max_examples=40)
def test_steps_of_any_shape_raise_nothing_but_a_parse_error(told: dict[str, Any]) -> None:
    text = json.dumps([zoo(0, 4, "[0.1, 0.2]", "[0.1, 0.2]", **told)])
    blob = MemoryBlob("any", text.encode("utf-8", "surrogatepass"))
    if outcome(ZOO, blob)[0]:
        assert parsed(ZOO, blob)[0]


NUMBERS = st.integers(-1_100_000, 1_100_000)
ANNOTATIONS = st.tuples(
    st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS),
    st.one_of(st.sampled_from(["", "a", 'a","b', "ü\\", "\ud800"]), st.text(max_size=9)),
    st.sampled_from(["TEXT", "", "ICON_X", 'a "b"', "text"]),
)


@given(st.lists(ANNOTATIONS, max_size=9), st.sampled_from([None, (100, 200)]))
@settings(max_examples=80, deadline=None)
def test_the_text_of_a_screen_is_that_of_the_tree_of_its_nodes(told: list[Any], size: tuple[int, int] | None) -> None:
    nodes = [Node("window", "org.example", bounds=None if size is None else (0, 0, *size))]
    for box, text, kind in told:
        is_text = kind in ("TEXT", "")
        nodes.append(Node("text" if is_text else "icon", text, "", "" if is_text else kind, (), "", box))
    boxes = [box for box, _, _ in told]
    written = screen_text(boxes, [text for _, text, _ in told], [kind for _, _, kind in told], size, "org.example")
    assert written == Tree(nodes, [0] + [1] * len(told)).text


def test_a_screen_of_thousands_of_annotations_is_written_to_its_end() -> None:
    boxes = [(place, 0, place + 1, 1) for place in range(3000)]
    text = screen_text(boxes, ["a"] * 3000, ["TEXT"] * 3000, None, "")
    assert text.split("\n")[-1] == '  #3001 text "a" [2999,0][3000,1]'
    assert Tree.parse(text).text == text
    assert touched_node(boxes, (0.5, 0.0), (3000, 1)) == 1502


def test_boxes_are_read_of_whole_numbers_and_of_no_other_values() -> None:
    assert _boxes([[1, 2, 3, 4], [0.4, 0.6, 1, 1]]) == [(2, 1, 6, 4), (1, 0, 2, 1)]
    for row in ([1, 2, 3], [1, 2, 3, "x"], [1, 2, 3, None], 7, [1, 2, 3, 2e9]):
        assert _boxes([[1, 2, 3, 4], row]) is None
