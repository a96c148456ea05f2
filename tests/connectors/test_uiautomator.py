"""Dumps with an event log: which screen stood before and after each action, and what an action touched."""

import json

import pytest

from tests.connectors.android_logs import dump, node, read
from trajmill.connectors.android.uiautomator import UiAutomator
from trajmill.connectors.connector import MemoryBlob
from trajmill.schemas import ParseError, Step

CONNECTOR = UiAutomator()


def screen(name: str) -> bytes:
    """A screen that shows one button of that name."""
    return dump(node("[0,0][100,50]", name, **{"class": "android.widget.Button", "clickable": "true"}))


def steps(log: str, *names: str, log_name: str = "events.jsonl", **files: bytes) -> list[Step]:
    """The steps of a log beside screens; `names` are screens 1, 2, … , each showing its name."""
    members = {f"screen_{number}.xml": screen(name) for number, name in enumerate(names, 1)}
    members |= {name.replace("__", "."): data for name, data in files.items()}
    return list(read(CONNECTOR, MemoryBlob("run", {**members, log_name: log.encode()}))[0][0].steps)


def shown(step: Step) -> tuple[str | None, str | None]:
    """The names of the buttons before and after a step; None where no screen is known."""
    sides = (step.observation, step.next_observation)
    return tuple(side.content.split('button "')[1].split('"')[0] if side and side.content else None for side in sides)  # type: ignore[return-value]


def test_dumps_that_leave_a_gap_or_do_not_add_up_are_refused() -> None:
    tap = '{"action": "tap", "x": 5, "y": 5}\n'
    for log, names in ((tap, ("a", "b", "c")), (tap * 4, ("a", "b"))):
        with pytest.raises(ParseError, match="unaligned"):
            steps(log, *names)
    with pytest.raises(ParseError, match="unaligned"):
        steps(tap, screen_1__xml=screen("a"), screen_3__xml=screen("c"))


def test_a_side_that_the_log_does_not_name_is_what_its_neighbour_names() -> None:
    log = '{"type": "tap", "x": 5, "y": 5, "screen": 1}\n{"type": "tap", "x": 5, "y": 5, "screen": "screen_2.xml"}\n'
    assert [shown(step) for step in steps(log, "a", "b", "c")] == [("a", "b"), ("b", "c")]
    assert [shown(step) for step in steps(log, "a", "b", "c", "d")] == [("a", "b"), ("b", None)]
    log = '{"type": "tap", "x": 5, "y": 5, "after": 2}\n{"type": "tap", "x": 5, "y": 5, "after": 3}\n'
    assert [shown(step) for step in steps(log, "a", "b", "c")] == [("a", "b"), ("b", "c")]


def adb(*commands: str) -> str:
    return "".join(f"adb shell {command}\n" for command in commands)


@pytest.mark.parametrize(("next_before", "cut"), [("c", "recorder"), ("b", "none")])
def test_a_named_screen_that_had_changed_before_the_next_action_is_marked_as_unsettled(
    next_before: str, cut: str
) -> None:
    log = (
        '{"type": "tap", "x": 5, "y": 5, "before": "a.xml", "after": "b.xml"}\n'
        '{"type": "tap", "x": 5, "y": 5, "before": "c.xml", "after": "d.xml"}\n'
    )
    first, second = steps(log, a__xml=screen("a"), b__xml=screen("b"), c__xml=screen(next_before), d__xml=screen("d"))
    assert [shown(first), shown(second)] == [("a", "b"), (next_before, "d")]
    assert [step.next_observation and step.next_observation.truncation for step in (first, second)] == [cut, "none"]


def test_a_dump_that_was_pulled_under_another_name_is_found_there() -> None:
    capture = "adb shell uiautomator dump\nadb pull /sdcard/window_dump.xml {}\n"
    same = "adb shell uiautomator dump /sdcard/window_dump.xml\nadb pull /sdcard/window_dump.xml out/screen_{}.xml\n"
    log = same.format(1) + adb("input tap 5 5") + same.format(2)
    assert [shown(step) for step in steps(log, "a", "b", log_name="adb.log")] == [("a", "b")]
    log = capture.format(".") + adb("input tap 5 5") + capture.format(".")
    assert [shown(step) for step in steps(log, "a", "b", log_name="adb.log")] == [("a", "b")]


@pytest.mark.parametrize(
    "command",
    [
        "adb exec-out uiautomator dump /dev/tty > screen_1.xml",
        "adb shell uiautomator dump /sdcard/screen_1.xml > /dev/null 2>&1",
        "adb shell 'uiautomator dump --compressed /sdcard/screen_1.xml 2>/dev/null && cat /sdcard/screen_1.xml'",
        "uiautomator dump /sdcard/screen_1.xml; sleep 1",
        'adb -s "emulator-5554" shell "uiautomator dump \\"/sdcard/screen_1.xml\\""',
    ],
)
def test_a_capture_is_found_however_it_was_written(command: str) -> None:
    (step,) = steps(f"{command}\nadb shell input tap 5 5\n", "a", log_name="adb.log")
    assert shown(step) == ("a", None)


@pytest.mark.parametrize(
    ("command", "name", "arguments"),
    [
        ("input tap 5 6", "click", {"element": "#2"}),
        ("input -d 0 touchscreen tap 500 6.5", "click", {"x": 500, "y": 7}),
        ("input swipe 5 5 6 5 900", "long_press", {"element": "#2"}),
        ("input swipe 5 5 5 5", "click", {"element": "#2"}),
        ("input swipe 5 90 5 10 300", "swipe", {"from": [5, 90], "to": [5, 10]}),
        ("'input text \"a%sb\"'", "input_text", {"text": "a b"}),
        ("input keyevent --longpress KEYCODE_POWER", "press", {"key": "power"}),
        ("input keyevent 61 61 66", "press", {"keys": ["tab", "tab", "enter"]}),
        ("am start -n org.example/.Main", "open_app", {"package": "org.example", "activity": ".Main"}),
        (
            "am start -a android.intent.action.VIEW -d geo:0,0",
            "intent",
            {"command": "am start -a android.intent.action.VIEW -d geo:0,0"},
        ),
        ("am force-stop org.example", "close_app", {"package": "org.example"}),
        ("monkey -p org.example -c android.intent.category.LAUNCHER 1", "open_app", {"package": "org.example"}),
        ("svc wifi disable", "shell", {"command": "svc wifi disable"}),
    ],
)
def test_a_command_becomes_an_action_of_the_vocabulary(command: str, name: str, arguments: dict[str, object]) -> None:
    (step,) = steps(adb("uiautomator dump /sdcard/screen_1.xml", command), "a", log_name="adb.log")
    assert json.loads(step.action.text) == {"name": name, "arguments": arguments}


@pytest.mark.parametrize(
    ("event", "name", "arguments"),
    [
        ({"action": "tap", "coordinate": [5, 5]}, "click", {"element": "#2"}),
        ({"event_type": "Long Press", "element": {"bounds": "[0,0][100,50]"}}, "long_press", {"element": "#2"}),
        (
            {"action": {"action_type": "input_text", "text": "hi", "x": 5, "y": 5}},
            "input_text",
            {"element": "#2", "text": "hi"},
        ),
        ({"type": "scroll", "direction": "DOWN"}, "scroll", {"direction": "down"}),
        ({"kind": "swipe", "from": [1, 90], "to": {"x": 1, "y": 9}}, "swipe", {"from": [1, 90], "to": [1, 9]}),
        ({"action": "press", "key": "KEYCODE_ENTER"}, "press", {"key": "enter"}),
        ({"action": "navigate_home"}, "press", {"key": "home"}),
        ({"action": "open_app", "app_name": "Clock"}, "open_app", {"package": "Clock"}),
        ({"action": "wait", "ms": 1500}, "wait", {"seconds": 1.5}),
        ({"action": "tap", "x": 0.5, "y": 0.25}, "click", {"x": 0.5, "y": 0.25}),
        ({"action": "shake", "times": 3}, "shake", {"times": 3}),
        ({"action": "tap", "element": "a"}, "click", {"element": "#2"}),
        ({"action": "tap", "element": "nowhere"}, "click", {"target": "nowhere"}),
        ({"status": "done", "action": "done"}, "task_complete", {}),
    ],
)
def test_an_event_becomes_an_action_of_the_vocabulary(
    event: dict[str, object], name: str, arguments: dict[str, object]
) -> None:
    (step,) = steps(json.dumps(event), "a")
    assert json.loads(step.action.text) == {"name": name, "arguments": arguments}


def test_logs_are_joined_with_the_dumps_of_their_folder_and_of_one_below() -> None:
    listed = """a/adb.log a/d1.xml a/d2.xml b/dumps/1.xml b/events.jsonl c/pom.xml d/window_dump_1.xml
        d/window_dump_2.xml e/log_x_task.txt e/task_1.xml e/task_2.xml events.jsonl readme.md"""
    paths = listed.split()
    logs = {log.uri: (log.anchor, sorted(log.members)) for log in CONNECTOR.join(paths)}
    assert logs == {
        "a": ("adb.log", ["adb.log", "d1.xml", "d2.xml"]),
        "b": ("events.jsonl", ["dumps/1.xml", "events.jsonl"]),
        "d": ("window_dump_1.xml", ["window_dump_1.xml", "window_dump_2.xml"]),
    }


@pytest.mark.parametrize(
    ("uri", "head", "takes"),
    [
        ("x.xml", screen("a"), True),
        ("x.xml", screen("a").decode().encode("utf-16"), True),
        ("x.txt", b"ERROR: could not get idle state.", True),
        ("pom.xml", b"<?xml version='1.0'?><project/>", False),
        ("adb.log", b"# a\nadb -s x shell input tap 1 2\n", True),
        ("adb.log", b"nothing of the kind\n", False),
        ("events.jsonl", b'{"task": "x"}\n{"action": {"type": "tap"}}\n', True),
        ("events.jsonl", b'{"event": "page_view", "url": "x"}\n', False),
        ("other.jsonl", b'{"action": "tap"}\n', False),
    ],
)
def test_the_format_is_recognized_by_its_first_bytes(uri: str, head: bytes, takes: bool) -> None:
    assert (CONNECTOR.sniff(head, uri) is not None) == takes
