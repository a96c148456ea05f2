"""Server logs of Appium: which commands are actions, which screen stood before and after, and what a log cuts off."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.connectors.android_logs import read
from trajmill.connectors.android.appium_log import AppiumLog
from trajmill.connectors.android.appium_log.commands import Elements, performed
from trajmill.connectors.connector import MemoryBlob
from trajmill.schemas import Step

CONNECTOR = AppiumLog()
SESSION = "4d2e1c5b-0a63-4f0e-9b1d-7c1f6a2b3c4d"
W3C = "element-6066-11e4-a52e-4f735466cecf"


def source(*names: str) -> str:
    """A page source with a button of each name, one under the other."""
    buttons = "".join(
        f'<android.widget.Button class="android.widget.Button" package="org.example" text="{name}" clickable="true" '
        f'bounds="[0,{100 * place}][100,{100 * place + 99}]" displayed="true" />'
        for place, name in enumerate(names)
    )
    frame = '<android.widget.FrameLayout class="android.widget.FrameLayout" package="org.example" displayed="true">'
    return f"<?xml version='1.0' ?><hierarchy>{frame}{buttons}</android.widget.FrameLayout></hierarchy>"


def asked(
    method: str, path: str, body: Any = None, value: Any = None, status: int = 200, cut: int | None = None
) -> str:
    """The lines that a server writes of one command; the answer is cut to so many characters."""
    answer = json.dumps(value)
    shown = answer if cut is None else answer[:cut] + "..."
    return (
        f"[HTTP] --> {method} /session/{SESSION}/{path}\n[HTTP] {json.dumps(body or {})}\n"
        f"[debug] [W3C (4d2e1c5b)] Responding to client with driver.any() result: {shown}\n"
        f"[HTTP] <-- {method} /session/{SESSION}/{path} {status} 12 ms - {len(answer)}\n[HTTP] \n"
    )


def steps(*parts: str) -> list[Step]:
    return list(read(CONNECTOR, MemoryBlob("appium.log", "".join(parts).encode()))[0][0].steps)


def names(step: Step) -> list[list[str] | None]:
    """The buttons before and after a step; None where no screen is known."""
    sides = (step.observation, step.next_observation)
    return [side and [part.split('"')[0] for part in (side.content or "").split('button "')[1:]] for side in sides]  # type: ignore[misc]


CLICK = asked("POST", "element/1/click", {"id": "1"})


def test_a_command_whose_body_was_cut_is_rejected_and_its_effect_is_no_other_commands():
    screen = asked("GET", "source", value=source("a")), asked("GET", "source", value=source("b"))
    typed = asked("POST", "element/1/value", {"text": "long"}).replace('{"text": "long"}', '{"text": "lo...')
    log = "".join([screen[0], CLICK, typed, screen[1], CLICK])
    (found,), rejects = read(CONNECTOR, MemoryBlob("appium.log", log.encode()))
    assert [names(step) for step in found.steps] == [[["a"], None], [["b"], None]]
    assert [one.reason for one in rejects] == ["truncated"]


@pytest.mark.parametrize(
    ("locator", "wanted"),
    [
        ({"using": "xpath", "value": '//*[@text="pay"]'}, "#3"),
        ({"using": "xpath", "value": '//*[@text="pay"]/../*[@text="all"]'}, None),
        ({"using": "-android uiautomator", "value": 'new UiSelector().text("all")'}, "#2"),
        ({"using": "accessibility id", "value": "twice"}, None),
        ({"using": "class name", "value": "android.widget.Button"}, None),
    ],
)
def test_an_element_is_a_line_of_the_screen_where_what_it_was_found_by_names_one(locator, wanted):
    screen = source("all", "pay", "twice", "twice")
    found = asked("POST", "element", locator, {W3C: "1"})
    (step,) = steps(asked("GET", "source", value=screen), found, CLICK)
    told = json.loads(step.action.text)["arguments"]
    assert told == ({"element": wanted} if wanted else {"target": f"{locator['using']}={locator['value']}"})


def finger(*points: tuple[int, int], pause: int = 0) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [
        {"type": "pointerMove", "x": points[0][0], "y": points[0][1]},
        {"type": "pointerDown"},
    ]
    steps += [{"type": "pause", "duration": pause}]
    steps += [{"type": "pointerMove", "x": x, "y": y} for x, y in points[1:]]
    return {"actions": [{"type": "pointer", "actions": [*steps, {"type": "pointerUp"}]}]}


def script(name: str, **told: Any) -> dict[str, Any]:
    return {"script": f"mobile: {name}", "args": [told]}


@pytest.mark.parametrize(
    ("path", "body", "name", "told"),
    [
        ("element/1/value", {"text": "ab", "value": ["a", "b"]}, "input_text", {"text": "ab"}),
        ("element/1/value", {"value": ["a", "b"]}, "input_text", {"text": "ab"}),
        ("element/1/clear", {}, "input_text", {"text": "", "clear": True}),
        ("appium/element/1/replace_value", {"text": "ab"}, "input_text", {"text": "ab", "clear": True}),
        ("execute/sync", script("dragGesture", startX=1, startY=2, endX=3, endY=4), "swipe", {}),
        ("execute/sync", script("doubleClickGesture", elementId="1"), "double_tap", {}),
        ("back", {}, "press", {"keys": ["back"]}),
        ("appium/device/press_keycode", {"keycode": 66}, "press", {"keys": ["66"]}),
        ("appium/device/start_activity", {"appPackage": "p"}, "open_app", {"package": "p", "activity": None}),
        ("actions", finger((5, 6)), "click", {}),
        ("actions", finger((5, 6), pause=900), "long_press", {}),
        ("actions", finger((5, 6), (5, 90)), "swipe", {}),
        ("touch/perform", {"actions": [{"action": "tap", "options": {"x": 1, "y": 2}}]}, "click", {}),
        ("execute/sync", script("scrollGesture", direction="down"), "scroll", {"direction": "down"}),
        ("execute/sync", script("shell", command="ls", args=["-l"]), "shell", {"command": "ls -l"}),
        ("appium/device/lock", {"seconds": 2}, "lock", {"seconds": 2}),
    ],
)
def test_a_command_that_acts_is_an_action_of_the_vocabulary(path, body, name, told):
    deed = performed(path, body, Elements(), 7, None)
    assert deed is not None
    assert (deed.name, dict(deed.told), deed.offset) == (name, told, 7)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("element", {"using": "id", "value": "a"}),
        ("element/3/elements", {"using": "id", "value": "a"}),
        ("timeouts/implicit_wait", {"ms": 5}),
        ("appium/settings", {"settings": {}}),
        ("context", {"name": "NATIVE_APP"}),
        ("execute/sync", {"script": "mobile: deviceInfo", "args": []}),
    ],
)
def test_a_command_that_only_looks_is_no_action(path, body):
    assert performed(path, body, Elements(), 0, None) is None


@pytest.mark.parametrize(
    ("head", "score"),
    [
        (b"[HTTP] --> POST /wd/hub/session\n", 0.9),
        (b"2024-05-06 10:00:00:000 [HTTP] --> GET /status \n", 0.9),
        (
            b"\x1b[32minfo\x1b[39m: \x1b[37m-->\x1b[39m \x1b[37mGET\x1b[39m \x1b[37m/wd/hub/session/1/source\x1b[39m",
            0.9,
        ),
        (b"[Appium] Welcome to Appium v2.0.0\n", 0.85),
        (b"GET /session HTTP/1.1\n", None),
        (b"info: --> something else\n", None),
    ],
)
def test_the_format_is_recognized_by_its_lines(head, score):
    told = CONNECTOR.sniff(head, "appium.log")
    assert (told.score if told else None) == score
