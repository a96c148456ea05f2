"""getevent: events of fingers become gestures by both protocols, and a log of them alone is refused."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
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
            told = {"EV_KEY": {"1": "DOWN", "0": "UP"}.get(value, number)}.get(kind, number)
            rows.append(f"[{time:15.6f}] {DEVICE}: {kind:<12} {name:<20} {told:<20}\r")
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
    assert [finger for one in gestures if isinstance(one, Gesture) for finger in one.fingers] == paths
    assert all(isinstance(one, Gesture) for one in gestures)


def test_two_fingers_at_once_are_one_gesture_and_two_after_each_other_are_two() -> None:
    assert len(found(lines(CASES[3][0]))) == 1
    assert len(found(lines(CASES[2][0]))) == 2


def test_a_finger_that_is_still_down_at_the_end_is_no_gesture() -> None:
    touches = Touches(MemoryBlob("x", lines("id=1 x=5 y=6 . x=9 .").encode()))
    assert list(touches.events()) == []
    assert touches.is_cut


def test_a_key_is_one_press_and_other_sensors_are_passed_over() -> None:
    other = "[ 1.0] /dev/input/event9: EV_REL REL_X 00000008\n[ 1.0] /dev/input/event9: EV_SYN SYN_REPORT 00000000\n"
    (key,) = found(lines("KEY_BACK=1 . KEY_BACK=0 .") + other)
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


@pytest.mark.parametrize("head", [HEAD, HEAD + RANGES.replace("1999", "500")])
def test_points_without_a_scale_are_refused(head: str) -> None:
    with pytest.raises(ParseError) as caught:
        steps("id=1 x=5 y=6 . id=-1 .", head)
    assert caught.value.reason == "unscaled"


@given(
    st.lists(
        st.sampled_from(
            ["id=1", "id=-1", "x=5", "y=6", "slot=1", "slot=99", ".", "-", "BTN_TOUCH=1", "BTN_TOUCH=0", "KEY_BACK=1"]
        )
    )
)
@settings(max_examples=60)
def test_events_in_any_order_make_gestures_with_points(events: list[str]) -> None:
    for one in found(lines(" ".join(events))):
        assert not isinstance(one, ParseError)
        assert isinstance(one, Key) or (one.fingers and all(one.fingers))


@pytest.mark.corpus
def test_real_logs_hold_the_taps_that_they_show(record_property: Callable[[str, object], None]) -> None:
    album, yelp = real_files("getevent", "*.txt", record_property)
    assert found(album.read_bytes().decode()) == []
    (gesture,) = [one for one in found(yelp.read_bytes().decode()) if isinstance(one, Gesture)]
    assert gesture.fingers == (((0x172, 0x9D4), (0x172, 0x9D5)),)
    assert (gesture.started, gesture.ended) == (10462.142048, 10462.256008)


def test_events_of_one_device_alone_name_no_device_and_are_read_with_its_ranges() -> None:
    def tap(time: int, across: int, down: int) -> str:
        rows = (
            ("EV_ABS", "ABS_MT_TRACKING_ID", "0000001a"),
            ("EV_ABS", "ABS_MT_POSITION_X", f"{across:08x}"),
            ("EV_ABS", "ABS_MT_POSITION_Y", f"{down:08x}"),
            ("EV_SYN", "SYN_REPORT", "00000000"),
            ("EV_ABS", "ABS_MT_TRACKING_ID", "ffffffff"),
            ("EV_SYN", "SYN_REPORT", "00000000"),
        )
        return "".join(f"[ {time:12.6f}] {kind:<12} {code:<20} {value}\r\n" for kind, code, value in rows)

    log = tap(10, 540, 350) + tap(12, 540, 550)
    listed = (
        "add device 1: /dev/input/event2\n  events:\n    ABS (0003): ABS_MT_POSITION_X : value 0, min 0, max 1079,\n"
    )
    none: dict[str, int] = {}
    for text, device, ranges in ((log, "", none), (listed + log, "/dev/input/event2", {"x": 1079})):
        touches = Touches(MemoryBlob("log", text.encode()))
        found = [one for one in touches.events() if isinstance(one, Gesture)]
        assert [one.fingers for one in found] == [(((540, 350),),), (((540, 550),),)]
        assert {one.device for one in found} == {device}
        assert touches.ranges.get(device, {}) == ranges
