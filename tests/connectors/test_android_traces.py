"""AndroidWorld episodes and Rico traces: indices and fingers become nodes, pickles are refused unread."""

import json
import pickle
from typing import Any

import pytest

from tests.connectors.android_logs import read
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


def test_heads_tell_the_files_of_each() -> None:
    assert RICO.sniff(b'{"12": [[0.1, 0.2]], "13": []}', "a/gestures.json") is not None
    assert RICO.sniff(b'{"name": [[0.1, 0.2]]}', "a/gestures.json") is None
    assert WORLD.sniff(b'{"episode_data": {"action_output": ["x"]}}', "x.json") is not None
    assert WORLD.sniff(b'{"episode_data": 1}', "x.json") is None
    paths = ["a/t/gestures.json", "a/t/screenshots/1.jpg", "a/t/view_hierarchies/1.json", "b/gestures.json"]
    (log,) = RICO.join(paths)
    assert (log.uri, log.anchor, len(log.members)) == ("a/t", "gestures.json", 3)
