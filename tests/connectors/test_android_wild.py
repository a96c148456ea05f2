"""Android in the Wild and Android in the Zoo: gestures are taps or swipes, annotations are the screen."""

import json
from typing import Any

import pytest

from tests.connectors.android_logs import read
from tests.connectors.android_records import example, tfrecord
from trajmill.connectors.android.aitw import AndroidInTheWild
from trajmill.connectors.android.aitz import AndroidInTheZoo
from trajmill.connectors.connector import MemoryBlob

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
