"""Logs of Android agents: heads, elements, actions and folders of traces."""

import json
import pickle
import re
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.android_logs import FIXTURES, dump, node, read
from tests.connectors.android_records import example, tfrecord
from tests.rows import blob_at
from trajmill.connectors.android.aitw import AndroidInTheWild
from trajmill.connectors.android.aitz import AndroidInTheZoo
from trajmill.connectors.android.android_world import AndroidWorld
from trajmill.connectors.android.appagent import AppAgent
from trajmill.connectors.android.rico import Rico
from trajmill.connectors.connector import Blob, Choices, Connector, MemoryBlob
from trajmill.connectors.registry import connectors
from trajmill.connectors.screens.tree import Tree
from trajmill.schemas import ParseError, Step, Trajectory

WILD, ZOO = AndroidInTheWild(), AndroidInTheZoo()
NONE = [-1.0, -1.0]


def wild(number: int, kind: int, touch: list[float] = NONE, lift: list[float] = NONE, **more: Any) -> bytes:
    """A serialized step on a screen of 100 by 200 with the text `big`, in it the icon `small`."""
    fields = {"episode_id": "e", "step_id": number, "results__action_type": kind, "image__width": 100}
    fields |= {"image__height": 200, "results__yx_touch": touch, "results__yx_lift": lift}
    fields |= {"image__ui_annotations_positions": [0.1, 0.1, 0.5, 0.5, 0.2, 0.2, 0.1, 0.1]}
    fields |= {"image__ui_annotations_text": ["big", ""], "image__ui_annotations_ui_types": ["TEXT", "ICON_X"]}
    return example(**{**fields, **more})


def zoo(number: int, kind: int, touch: str = "[-1.0, -1.0]", lift: str = "[-1.0, -1.0]", **more: Any) -> dict[str, Any]:
    fields = {"episode_id": "e", "step_id": number, "result_action_type": kind, "result_action_text": ""}
    fields |= {"ui_positions": "[[10, 20, 30, 40]]", "ui_text": '["a"]', "ui_types": '["TEXT"]'}
    return {**fields, "result_touch_yx": touch, "result_lift_yx": lift, **more}


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
    assert [reject.reason for reject in rejects] == ["bad_record"]


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


ANDROID = [one for one in connectors().values() if type(one).__module__.startswith("trajmill.connectors.android.")]
CASES = [
    pytest.param(one, path, id=f"{one.name}-{path.name}")
    for one in ANDROID
    if one.name != "autodroid"  # its screens are text of its own, in which elements have its ids
    for path in sorted((FIXTURES / one.name / "input").iterdir())
]


def elements(connector: Connector, blob: Blob) -> list[tuple[Any, str | None, str | None]]:
    """(element, text before, its dialect) of each action that names one, in its text or its arguments."""
    references = []
    for record in connector.parse(blob):
        for step in record.steps if isinstance(record, Trajectory) else ():
            before = step.observation
            shown = (before.content, before.dialect) if before is not None else (None, None)
            arguments = [json.loads(step.action.text)["arguments"], json.loads(step.action.arguments or "{}")]
            references += [(values["element"], *shown) for values in arguments if "element" in values]
    return references


def assert_named(connector: Connector, blob: Blob) -> int:
    """How many elements were named; each stands in the tree that it was named in."""
    references = elements(connector, blob)
    for element, text, dialect in references:
        assert re.fullmatch(r"#[1-9][0-9]*", element)
        assert dialect == "uitree/1"
        assert Tree.parse(text or "").node(int(element[1:])) is not None
    return len(references)


@pytest.mark.parametrize(("connector", "path"), CASES)
def test_an_element_is_a_node_of_the_tree_that_it_was_touched_in(connector: Connector, path: Path) -> None:
    assert_named(connector, blob_at(path))


@pytest.mark.parametrize(("connector", "path"), CASES)
def test_a_raw_screen_is_the_logs_own_text_and_has_no_ids(connector: Connector, path: Path) -> None:
    plain = blob_at(path)
    blob = MemoryBlob(plain.uri, {member: plain.read(member) for member in plain.members}, Choices(screen="raw"))
    texts = {blob.read(member).decode("utf-8", "replace") for member in blob.members}
    for element, text, dialect in elements(connector, blob):
        assert isinstance(element, dict)
        assert set(element) <= {"resource_id", "bounds"}
        assert dialect != "uitree/1"
        assert text is not None
        values = [element["bounds"] if isinstance(element["bounds"], str) else None, element.get("resource_id")]
        assert all(value in text for value in values if value)
    for record in connector.parse(blob):
        for step in record.steps if isinstance(record, Trajectory) else ():
            seen = step.observation
            if (
                seen is not None
                and seen.content is not None
                and connector.name in ("uiautomator", "appagent", "droidbot")
            ):
                assert seen.content in texts


WORLD, RICO = AndroidWorld(), Rico()
OK = {"text": "OK", "class_name": "android.widget.Button", "package_name": "org.example", "is_clickable": True}
BOX = {"x_min": 0, "x_max": 40, "y_min": 10, "y_max": 50}
PLAIN = {"class_name": "android.widget.FrameLayout", "is_visible": True, "bbox_pixels": BOX}


def output(**action: Any) -> str:
    return f"Reason: because.\nAction: {json.dumps(action)}"


def world(*steps: dict[str, Any], **fields: Any) -> list[Step]:
    data = json.dumps({"goal": "g", "episode_data": list(steps), **fields}).encode()
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


def test_heads_tell_the_traces_of_each() -> None:
    assert RICO.sniff(b'{"12": [[0.1, 0.2]], "13": []}', "a/gestures.json") is not None
    assert RICO.sniff(b'{"name": [[0.1, 0.2]]}', "a/gestures.json") is None
    assert WORLD.sniff(b'{"episode_data": {"action_output": ["x"]}}', "x.json") is not None
    assert WORLD.sniff(b'{"episode_data": 1}', "x.json") is None
    paths = ["a/t/gestures.json", "a/t/screenshots/1.jpg", "a/t/view_hierarchies/1.json", "b/gestures.json"]
    (log,) = RICO.join(paths)
    assert (log.uri, log.anchor, len(log.members)) == ("a/t", "gestures.json", 3)


CONNECTOR = AppAgent()
BUTTON = {"class": "android.widget.Button", "clickable": "true", "focusable": "true"}


def steps(*responses: object, screens: int = 9) -> list[Step]:
    """The steps of a log with these responses, beside that many screens of two buttons and a list."""
    shown = dump(
        node("[0,0][100,50]", "a", **BUTTON),
        node("[0,50][100,100]", "b", **BUTTON),
        node("[0,100][100,200]", **{"class": "android.widget.ListView", "focusable": "true", "scrollable": "true"}),
    )
    lines = [
        {"step": number, "prompt": "", "image": "", "response": response}
        for number, response in enumerate(responses, 1)
    ]
    members = {f"task_{number}.xml": shown for number in range(1, screens + 1)}
    log = "".join(json.dumps(line) + "\n" for line in lines).encode()
    return list(read(CONNECTOR, MemoryBlob("task", {**members, "log_x_task.txt": log}))[0][0].steps)


@pytest.mark.parametrize(
    ("response", "name", "arguments"),
    [
        ("Action: tap(1)", "click", {"element": "#2"}),
        ("Action: tap(2)\nFunction: tap(1)", "click", {"element": "#2"}),
        ("Action: Touch the list.\nFunction: tap(3)", "click", {"element": "#4"}),
        ("Action: tap(4)", "click", {"label": 4}),
        ("Action: tap(0)", "click", {"label": 0}),
        ("Action: long_press(2)", "long_press", {"element": "#3"}),
        ('Action: swipe(3, "up", "long")', "swipe", {"element": "#4", "direction": "up", "distance": "long"}),
        ("Action: swipe(3, 'down', 'short')", "swipe", {"element": "#4", "direction": "down", "distance": "short"}),
        ('Action: text("a, \\"b\\" (c)")', "input_text", {"text": 'a, \\"b\\" (c)'}),
        ('Action: tap(7, "top-left")', "click", {"area": 7, "subarea": "top-left"}),
        (
            'Action: swipe(1, "left", 2, "right")',
            "swipe",
            {"start_area": 1, "start_subarea": "left", "end_area": 2, "end_subarea": "right"},
        ),
        ("Action: grid()", "grid", {}),
        ("Action: back()", "press", {"key": "back"}),
        ("Action: FINISH", "task_complete", {}),
        ({"choices": [{"message": {"content": "Action: tap(2)"}}]}, "click", {"element": "#3"}),
        ({"Observation": "two buttons", "Action": "tap(2)"}, "click", {"element": "#3"}),
    ],
)
def test_a_call_becomes_an_action_of_the_vocabulary(response: object, name: str, arguments: dict[str, object]) -> None:
    (step,) = steps(response)
    assert json.loads(step.action.text) == {"name": name, "arguments": arguments}


def test_a_step_that_was_logged_twice_is_rejected_the_second_time() -> None:
    line = json.dumps({"step": 1, "prompt": "", "image": "", "response": "Action: tap(1)"}) + "\n"
    blob = MemoryBlob(
        "task", {"log_x_task.txt": (line * 2).encode(), "task_1.xml": dump(node("[0,0][9,9]", "a", **BUTTON))}
    )
    trajectories, rejects = read(CONNECTOR, blob)
    assert len(trajectories[0].steps) == 1
    assert [(reject.reason, reject.offset) for reject in rejects] == [("duplicate_step", len(line))]
