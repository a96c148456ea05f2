"""AndroidWorld episodes and Rico traces: indices and fingers become nodes, pickles are refused unread."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.connectors.android_logs import outcome, read
from tests.rows import parsed
from trajmill.connectors.android.android_world import AndroidWorld
from trajmill.connectors.android.rico import Rico
from trajmill.connectors.connector import Choices, MemoryBlob
from trajmill.schemas import ParseError, Step

WORLD, RICO = AndroidWorld(), Rico()
OK = {"text": "OK", "class_name": "android.widget.Button", "package_name": "org.example", "is_clickable": True}
BOX = {"x_min": 0, "x_max": 40, "y_min": 10, "y_max": 50}
PLAIN = {"class_name": "android.widget.FrameLayout", "is_visible": True, "bbox_pixels": BOX}


def output(**action: Any) -> str:
    return f"Reason: because.\nAction: {json.dumps(action)}"


def world(*steps: dict[str, Any], **told: Any) -> list[Step]:
    data = json.dumps({"goal": "g", "episode_data": list(steps), **told}).encode()
    return list(read(WORLD, MemoryBlob("x", data))[0][0].steps)


@pytest.mark.parametrize(
    ("told", "name", "arguments"),
    [
        ({"action_type": "click", "index": 1}, "click", {"element": "#2"}),
        ({"action_type": "click", "index": 0}, "click", {"x": 20, "y": 30}),
        ({"action_type": "click", "index": 9}, "click", {"index": 9}),
        ({"action_type": "double_tap", "x": 1, "y": 2}, "double_tap", {"x": 1, "y": 2}),
        ({"action_type": "long-press", "index": 1}, "long_press", {"element": "#2"}),
        (
            {"action_type": "input_text", "text": "a", "index": 1, "clear_text": True},
            "input_text",
            {"element": "#2", "text": "a", "clear": True},
        ),
        ({"action_type": "scroll", "direction": "up"}, "scroll", {"direction": "up"}),
        ({"action_type": "keyboard_enter"}, "press", {"key": "enter"}),
        ({"action_type": "open_app", "app_name": "Zed"}, "open_app", {"app": "Zed"}),
        ({"action_type": "answer", "text": "42"}, "answer", {"text": "42"}),
        ({"action_type": "wait"}, "wait", {}),
        ({"action_type": "status", "goal_status": "infeasible"}, "task_complete", {"status": "infeasible"}),
    ],
)
def test_a_called_action_is_of_the_vocabulary(told: dict[str, Any], name: str, arguments: dict[str, Any]) -> None:
    (step,) = world({"before_element_list": [PLAIN, OK], "action_output": output(**told)})
    assert json.loads(step.action.text) == {"name": name, "arguments": arguments}
    assert step.action.reasoning == "because."


def test_the_still_screen_of_the_next_step_goes_before_the_one_seen_at_once() -> None:
    early, late = {**OK, "text": "early"}, {**OK, "text": "late"}
    wait = output(action_type="wait")
    first, second = world(
        {"before_element_list": [OK], "after_element_list": [early], "action_output": wait},
        {"before_element_list": [late], "after_element_list": [early], "action_output": wait},
    )
    assert first.next_observation is not None
    assert '"late"' in (first.next_observation.content or "")
    assert second.next_observation is not None
    assert '"early"' in (second.next_observation.content or "")


def test_a_step_whose_output_calls_nothing_is_rejected_and_the_others_stay() -> None:
    steps = [{"before_element_list": [OK], "action_output": text} for text in ("hm", output(action_type="wait"))]
    data = json.dumps({"episode_data": steps, "is_successful": float("nan")}).encode()
    trajectories, rejects = read(WORLD, MemoryBlob("x", data.replace(b"NaN", b"null")))
    assert len(trajectories[0].steps) == 1
    assert trajectories[0].outcome is None
    assert [one.reason for one in rejects] == ["no_action"]


class Trap:
    """Were it unpickled, the test would fail."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return pytest.fail, ("a pickle was loaded",)


def test_a_pickle_is_named_and_never_loaded() -> None:
    data = pickle.dumps([{"episode_data": Trap()}])
    assert WORLD.sniff(data, "NotesWrite_0.pkl") is not None
    assert WORLD.sniff(data[:3] + b"other", "x.bin") is None
    with pytest.raises(ParseError) as caught:
        list(WORLD.parse(MemoryBlob("x", data)))
    assert caught.value.reason == "pickle"


def rico(gestures: dict[str, Any], choices: Choices | None = None, **screens: str) -> list[Step]:
    members = {f"view_hierarchies/{name[1:]}.json": text.encode() for name, text in screens.items()}
    members["gestures.json"] = json.dumps(gestures).encode()
    return list(read(RICO, MemoryBlob("app/trace_0", members, choices or Choices()))[0][0].steps)


def hierarchy(text: str, *, right: int = 1440, **view: Any) -> str:
    told = {"class": "android.widget.Button", "text": text, "bounds": [0, 0, 720, 1280], "clickable": True, **view}
    root = {"class": "android.widget.FrameLayout", "bounds": [0, 0, right, 4000 - right], "children": [told, None]}
    return json.dumps({"activity_name": "org.example/.Main", "activity": {"root": root}})


@pytest.mark.parametrize(
    ("points", "name", "arguments"),
    [
        ([[0.25, 0.25]], "click", {"element": "#2"}),
        ([[0.75, 0.25]], "click", {"x": 1080, "y": 640}),
        ([[0.25, 0.25], [0.26, 0.25]], "click", {"element": "#2"}),
        ([[0.25, 0.25], [0.3, 0.25]], "swipe", {"from": [360, 640], "to": [432, 640]}),
        ([[0.25, 0.25], [0.5, 0.25], [0.25, 0.25]], "swipe", {"from": [360, 640], "to": [360, 640]}),
    ],
)
def test_points_are_a_tap_or_a_swipe(points: list[list[float]], name: str, arguments: dict[str, Any]) -> None:
    (step,) = rico({"1": points}, s1=hierarchy("a"))
    assert json.loads(step.action.text) == {"name": name, "arguments": arguments}


def test_screens_follow_by_number_whatever_the_order_of_the_keys() -> None:
    steps = rico({"10": [[0.1, 0.1]], "9": [[0.1, 0.1]], "11": []}, s9=hierarchy("i"), s10=hierarchy("x"), s11="null")
    shown = [((step.observation and step.observation.content) or "").count('"i"') for step in steps]
    assert shown == [1, 0]
    assert steps[1].next_observation is None


def test_a_view_below_the_screen_or_without_an_area_has_no_line() -> None:
    for box in ([0, 2560, 720, 2700], [0, 900, 720, 800]):
        (step,) = rico({"1": [[0.5, 0.5]]}, s1=hierarchy("a", bounds=box))
        assert step.observation is not None
        assert step.observation.content == '#1 window "org.example" [0,0][1440,2560]'


def test_a_lying_screen_is_as_wide_as_its_root() -> None:
    (step,) = rico({"1": [[0.5, 0.5]]}, s1=hierarchy("a", right=2560, clickable=False))
    assert json.loads(step.action.text)["arguments"] == {"x": 1280, "y": 720}


def test_a_raw_screen_is_the_file_itself() -> None:
    named: dict[str, Any] = {"resource-id": "org.example:id/go"}
    text = hierarchy("a", **named)
    (step,) = rico({"1": [[0.1, 0.1]]}, Choices(screen="raw"), s1=text)
    assert step.observation is not None
    assert (step.observation.content, step.observation.dialect) == (text, "rico_hierarchy")
    element = {"resource_id": "org.example:id/go", "bounds": [[0, 0], [720, 1280]]}
    assert json.loads(step.action.text)["arguments"] == {"element": element}


def test_heads_tell_the_files_of_each() -> None:
    assert RICO.sniff(b'{"12": [[0.1, 0.2]], "13": []}', "a/gestures.json") is not None
    assert RICO.sniff(b'{"name": [[0.1, 0.2]]}', "a/gestures.json") is None
    assert WORLD.sniff(b'{"episode_data": {"action_output": ["x"]}}', "x.json") is not None
    assert WORLD.sniff(b'{"episode_data": 1}', "x.json") is None
    paths = ["a/t/gestures.json", "a/t/screenshots/1.jpg", "a/t/view_hierarchies/1.json", "b/gestures.json"]
    (log,) = RICO.join(paths)
    assert (log.uri, log.anchor, len(log.members)) == ("a/t", "gestures.json", 3)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["bounds", "children", "class", "x_min", "text"]), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["1", "2", "x"]), VALUES), VALUES, VALUES)
@settings(max_examples=40)
def test_values_of_any_shape_raise_nothing_but_a_parse_error(points: dict[str, Any], one: Any, other: Any) -> None:
    hierarchies = {
        "view_hierarchies/1.json": json.dumps({"activity_name": one, "activity": {"root": other}}),
        "view_hierarchies/2.json": json.dumps({"activity": {"root": {"children": [one, other], "bounds": one}}}),
        "gestures.json": json.dumps({"1": [[0.1, 0.1]], **points}),
    }
    step = {"before_element_list": [one, other], "after_element_list": one, "action_output_json": other}
    click = {"before_element_list": [{"bbox_pixels": one, "text": other}], "action_output": output(action_type="click")}
    episode = json.dumps({"goal": one, "episode_data": [step, click], "is_successful": other, "seed": one})
    cases = ((RICO, hierarchies), (WORLD, {"": episode}))
    for connector, members in cases:
        blob = MemoryBlob("any", {name: text.encode("utf-8", "surrogatepass") for name, text in members.items()})
        if outcome(connector, blob)[0]:
            assert parsed(connector, blob)[0]


def test_the_elements_of_the_multimodal_agent_and_a_result_that_is_not_a_number_are_read() -> None:
    told = {"before_ui_elements": [PLAIN, OK], "action_output_json": {"action_type": "click", "index": 1}}
    log = json.dumps({"goal": "g", "is_successful": float("nan"), "episode_data": [{**told, "action_reason": "why"}]})
    for data in (log, f"[{log}]", f"{log}\n{log}\n"):
        trajectories, rejects = read(WORLD, MemoryBlob("x", data.encode()))
        assert rejects == []
        for one in trajectories:
            (step,) = one.steps
            assert step.observation is not None
            assert json.loads(step.action.text) == {"name": "click", "arguments": {"element": "#2"}}
            assert (step.action.reasoning, one.outcome) == ("why", None)
