"""getevent: events of fingers become gestures by both protocols, and a log of them alone is refused."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.connectors.android_logs import dump, node, read, real_files
from trajmill.connectors.android.touch import Gesture, Key, Touches
from trajmill.connectors.android.uiautomator import UiAutomator
from trajmill.connectors.connector import MemoryBlob
from trajmill.schemas import ParseError, Step

DEVICE = "/dev/input/event1"
NUMBERS = {"SYN_REPORT": "0000 0000", "SYN_MT_REPORT": "0000 0002", "BTN_TOUCH": "0001 014a", "KEY_BACK": "0001 009e"}
NUMBERS |= {"ABS_MT_SLOT": "0003 002f", "ABS_MT_POSITION_X": "0003 0035", "ABS_MT_POSITION_Y": "0003 0036"}
NUMBERS |= {"ABS_MT_TRACKING_ID": "0003 0039", "ABS_X": "0003 0000", "ABS_Y": "0003 0001"}
SHORT = {"x": "ABS_MT_POSITION_X", "y": "ABS_MT_POSITION_Y", "id": "ABS_MT_TRACKING_ID", "slot": "ABS_MT_SLOT"}


def lines(events: str, is_raw: bool = False, start: float = 1.0) -> str:
    """A log of events such as `id=1 x=5 y=6 . id=-1 .`; `.` ends a report, each 0.1 s later, and `-` a contact."""
    rows, time = [], start
    for word in events.split():
        name, _, value = word.partition("=")
        name = {".": "SYN_REPORT", "-": "SYN_MT_REPORT", **SHORT}.get(name, name)
        number = f"{int(value or 0) & 0xFFFFFFFF:08x}"
        if is_raw:
            rows.append(f"{DEVICE}: {NUMBERS[name]} {number}")
        else:
            kind = {"SYN": "EV_SYN", "ABS": "EV_ABS"}.get(name[:3], "EV_KEY")
            text = {"EV_KEY": {"1": "DOWN", "0": "UP"}.get(value, number)}.get(kind, number)
            rows.append(f"[{time:15.6f}] {DEVICE}: {kind:<12} {name:<20} {text:<20}\r")
        time += 0.1 if word == "." else 0
    return "\n".join(rows) + "\n"


def found(text: str) -> list[Gesture | Key | ParseError]:
    return list(Touches(MemoryBlob("x", text.encode())).events())


CASES = [
    ("id=1 x=5 y=6 . id=-1 .", [((5, 6),)]),
    ("id=1 BTN_TOUCH=1 x=5 y=6 . x=7 . y=9 . id=-1 BTN_TOUCH=0 .", [((5, 6), (7, 6), (7, 9))]),
    ("id=1 x=5 y=6 . id=-1 . id=2 x=9 . id=-1 .", [((5, 6),), ((9, 6),)]),
    ("id=1 x=5 y=6 . slot=1 id=2 x=50 y=60 . slot=0 id=-1 . slot=1 id=-1 .", [((5, 6),), ((50, 60),)]),
    ("x=5 y=6 - . x=7 y=6 - . - .", [((5, 6), (7, 6))]),
    ("x=5 y=6 - x=50 y=60 - . - .", [((5, 6),), ((50, 60),)]),
    ("BTN_TOUCH=1 ABS_X=5 ABS_Y=6 . BTN_TOUCH=0 .", [((5, 6),)]),
]


@pytest.mark.parametrize("is_raw", [False, True])
@pytest.mark.parametrize(("events", "paths"), CASES)
def test_fingers_are_followed_from_down_to_up(
    events: str, paths: list[tuple[tuple[int, int], ...]], is_raw: bool
) -> None:
    gestures = found(lines(events, is_raw))
    assert [finger for gesture in gestures if isinstance(gesture, Gesture) for finger in gesture.fingers] == paths
    assert all(isinstance(gesture, Gesture) for gesture in gestures)


def test_a_key_is_one_press_and_other_sensors_are_passed_over() -> None:
    motion = "[ 1.0] /dev/input/event9: EV_REL REL_X 00000008\n[ 1.0] /dev/input/event9: EV_SYN SYN_REPORT 00000000\n"
    (key,) = found(lines("KEY_BACK=1 . KEY_BACK=0 .") + motion)
    assert isinstance(key, Key)
    assert key.name == "back"


def test_a_line_cut_within_its_value_is_told_and_not_read() -> None:
    text = lines("id=1 x=5 y=6 . id=-1 .")
    assert isinstance(found(text[: text.rindex("ffffffff") + 3])[0], ParseError)


HEAD = f'add device 1: {DEVICE}\r\n  name: "t"\r\n'
RANGES = "    ABS (0003): ABS_MT_POSITION_X : value 0, min 0, max 999, fuzz 0\r\n"
RANGES += "                ABS_MT_POSITION_Y : value 0, min 0, max 1999, fuzz 0\r\n"


def steps(events: str, head: str = HEAD + RANGES) -> list[Step]:
    """The steps of a log beside two screens of 100 by 200 with a button in their upper half."""
    shown = dump(node("[0,0][100,100]", "go", **{"class": "android.widget.Button", "clickable": "true"}))
    members = {"getevent.txt": (head + lines(events)).encode(), "dump_1.xml": shown, "dump_2.xml": shown}
    return list(read(UiAutomator(), MemoryBlob("x", members))[0][0].steps)


@pytest.mark.parametrize(
    ("events", "name", "arguments"),
    [
        ("id=1 x=500 y=500 . id=-1 .", "click", {"element": "#2"}),
        ("id=1 x=500 y=1500 . id=-1 .", "click", {"x": 50, "y": 150}),
        ("id=1 x=500 y=1500 . . . . . . id=-1 .", "long_press", {"x": 50, "y": 150}),
        ("id=1 x=500 y=500 . y=1500 . id=-1 .", "swipe", {"from": [50, 50], "to": [50, 150]}),
        ("id=1 x=500 y=500 . y=1500 . y=500 . id=-1 .", "swipe", {"from": [50, 50], "to": [50, 50]}),
        (CASES[3][0], "multi_touch", {"fingers": [{"from": [0, 0], "to": [0, 0]}, {"from": [5, 6], "to": [5, 6]}]}),
        ("KEY_BACK=1 . KEY_BACK=0 .", "press", {"key": "back"}),
    ],
)
def test_beside_screens_a_gesture_is_one_action_in_pixels(events: str, name: str, arguments: dict[str, object]) -> None:
    (step,) = steps(events)
    assert json.loads(step.action.text) == {"name": name, "arguments": arguments}


@given(
    st.lists(
        st.sampled_from(
            ["id=1", "id=-1", "x=5", "y=6", "slot=1", "slot=99", ".", "-", "BTN_TOUCH=1", "BTN_TOUCH=0", "KEY_BACK=1"]
        )
    )
)
def test_events_in_any_order_make_gestures_with_points(events: list[str]) -> None:
    for action in found(lines(" ".join(events))):
        assert not isinstance(action, ParseError)
        assert isinstance(action, Key) or (action.fingers and all(action.fingers))


@pytest.mark.corpus
def test_real_logs_hold_the_taps_that_they_show(record_property: Callable[[str, object], None]) -> None:
    album, yelp = real_files("getevent", "*.txt", record_property)
    assert found(album.read_bytes().decode()) == []
    (gesture,) = [action for action in found(yelp.read_bytes().decode()) if isinstance(action, Gesture)]
    assert gesture.fingers == (((0x172, 0x9D4), (0x172, 0x9D5)),)
    assert (gesture.started, gesture.ended) == (10462.142048, 10462.256008)
