"""Desktop logs: accessibility trees of three systems, code that is read and not run, and OSWorld's folders."""

import json
from typing import Any, Final
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import FUZZ, ROOT
from trajmill.connectors.connector import Choices, MemoryBlob
from trajmill.connectors.desktop import action as act
from trajmill.connectors.desktop import dump_xml
from trajmill.connectors.desktop.action import action_of
from trajmill.connectors.desktop.atspi import Screen, read_screen
from trajmill.connectors.desktop.dump_xml import Reader
from trajmill.connectors.desktop.osworld import OSWorld
from trajmill.connectors.desktop.osworld.computer_13 import call_of
from trajmill.connectors.desktop.osworld.runtime_log import align_answers, answers_of
from trajmill.connectors.desktop.pyautogui import calls_of
from trajmill.connectors.desktop.steps_recorder import StepsRecorder
from trajmill.connectors.desktop.workflow import Workflow
from trajmill.connectors.registry import sniff
from trajmill.schemas import COMPLETE, WAIT, ParseError, Reject, Trajectory

KINDS: Final = {"st": "state", "attr": "attributes", "cp": "component", "val": "value", "act": "action"}
SHOWN: Final = 'st:showing="true" st:visible="true" st:enabled="true" '


def desktop(body: str, system: str = "ubuntu", root: str = "desktop-frame") -> bytes:
    kinds = {**KINDS, "class": "class", "role": "role"}
    spaces = " ".join(f'xmlns:{k}="https://accessibility.{system}.example.org/ns/{v}"' for k, v in kinds.items())
    return f"<{root} {spaces}>{body}</{root}>".encode()


def box(left: int, top: int, width: int, height: int) -> str:
    return f'cp:screencoord="({left}, {top})" cp:size="({width}, {height})"'


def frame(name: str, body: str, more: str = "", bounds: str = box(0, 0, 400, 300)) -> str:
    return f'<application name="{name.lower()}"><frame name="{name}" {more}{SHOWN}{bounds}>{body}</frame></application>'


def screen(body: str, system: str = "ubuntu", root: str = "desktop-frame") -> Screen:
    return read_screen(desktop(body, system, root), "dump")


def reason(data: bytes) -> str:
    with pytest.raises(ParseError) as caught:
        read_screen(data, "dump")
    return caught.value.reason


def test_a_mac_widget_is_what_its_ax_role_says_in_whatever_language_its_tag_is() -> None:
    inside = (
        f'<taste role:AXRole="AXButton" attr:AXTitle="Sichern" st:AXEnabled="True" {box(1, 1, 9, 9)}/>'
        f'<textfeld role:AXRole="AXTextField" attr:AXDescription="Name" st:AXFocused="True" '
        f"{box(1, 20, 9, 9)}>Ada</textfeld>"
    )
    shown = screen(f'<standardfenster name="Mail" {box(0, 0, 90, 90)}>{inside}</standardfenster>', "macos", "desktop")
    assert shown.text.splitlines() == [
        '#1 window "Mail" [0,0][90,90]',
        '  #2 button "Sichern" [1,1][10,10]',
        '  #3 textbox "Name" value="Ada" focused [1,20][10,29]',
    ]


def test_of_two_ids_the_one_that_lasts_is_shown() -> None:
    button = f'<button name="A" attr:id=":r4:" class:automation_id="save" {box(1, 1, 9, 9)}/>'
    assert screen(frame("W", button), "windows").text.endswith('button "A" id=save [1,1][10,10]')


def test_dumps_with_the_namespaces_of_2024_are_read_too() -> None:
    spaces = 'xmlns:s="uri:deskat:state.at-spi.gnome.org" xmlns:c="uri:deskat:component.at-spi.gnome.org"'
    shown = 's:showing="true" s:visible="true" s:enabled="true" c:screencoord="(1, 2)" c:size="(3, 4)"'
    dump = f'<desktop-frame {spaces}><application name="a"><frame name="W" {shown}/></application></desktop-frame>'
    assert read_screen(dump.encode(), "dump").text == '#1 window "W" description="a" [1,2][4,6]'


def test_text_leaves_that_are_empty_or_repeat_what_they_stand_in_have_no_line() -> None:
    def label(name: str, left: int, more: str = "") -> str:
        return f'<label name="{name}" {more}{SHOWN}{box(left, 0, 9, 9)}/>'

    busy, hint = 'st:busy="true" ', 'attr:id="hint" '
    body = (
        f'<link name="Order 12 boats" {SHOWN}{box(0, 0, 90, 9)}>{label("Order 12", 0)}{label("boats", 20)}</link>'
        + label(" ", 90)
        + f'<link name="Inbox 10" {SHOWN}{box(100, 0, 90, 9)}>{label("1", 100)}{label("Inbox", 110, busy)}</link>'
        + f'<label name="Mail" {SHOWN}{box(200, 0, 90, 9)}>{label("Mail", 200)}'
        + f'<entry name="Mail" st:editable="true" {SHOWN}{box(250, 0, 9, 9)}/></label>'
        + label("", 300, hint)
    )
    assert [
        line.partition(" [")[0] for line in screen(frame("Order", body + label("Order", 320))).text.splitlines()
    ] == [
        '#1 window "Order" description="order"', '  #2 link "Order 12 boats"', '  #3 link "Inbox 10"',
        '    #4 text "1"', '    #5 text "Inbox" busy', '  #6 text "Mail"', '    #7 textbox "Mail"',
        "  #8 text id=hint", '  #9 text "Order"',
    ]  # fmt: skip


def test_a_point_on_a_part_of_a_control_meets_the_control() -> None:
    body = (
        f'<link name="Home" {SHOWN}{box(0, 0, 40, 9)}><image name="House" {SHOWN}{box(0, 0, 9, 9)}/></link>'
        f'<list-item name="" {SHOWN}{box(0, 20, 40, 9)}><label name="Milk" {SHOWN}{box(0, 20, 9, 9)}/></list-item>'
        f'<combo-box name="Boat" st:expandable="true" {SHOWN}{box(0, 40, 40, 20)}>'
        f'<menu-item name="Orca" {SHOWN}{box(0, 40, 40, 9)}/></combo-box>'
        f'<combo-box name="Crew" st:expandable="true" st:expanded="true" {SHOWN}{box(0, 60, 40, 20)}>'
        f'<menu-item name="Two" {SHOWN}{box(0, 60, 40, 9)}/></combo-box>'
    )
    shown = screen(frame("W", body))
    nodes = [shown.tree.nodes[(shown.at(5, down) or 0) - 1] for down in (5, 25, 45, 65)]
    assert [(node.role, node.name) for node in nodes] == [
        ("link", "Home"),
        ("text", "Milk"),
        ("combobox", "Boat"),
        ("menuitem", "Two"),
    ]


@pytest.mark.parametrize(
    ("body", "first", "truncation"),
    [
        ('<push-button name="1" st:visible="true"/>', "content_unknown", "recorder"),
        ('<filler name="" st:visible="true"/>', "", "none"),
        ('<push-button name="1"/>', "", "none"),
        (f'<push-button name="1" st:visible="true"/><label name="0" {SHOWN}/>', "", "none"),
    ],
)
def test_the_content_of_a_window_whose_controls_are_visible_and_never_showing_is_unknown(
    body: str, first: str, truncation: str
) -> None:
    shown = screen(frame("Calc", body))
    assert " ".join(shown.tree.nodes[0].states) == first
    assert shown.observation(raw=False).truncation == truncation


def test_a_screen_is_whole_where_another_window_than_that_of_unknown_content_is_active() -> None:
    unknown = frame("Calc", '<push-button name="1" st:visible="true"/>')
    shown = screen(unknown + frame("Mail", f'<label name="0" {SHOWN}/>', 'st:active="true" '))
    assert [node.states for node in shown.tree.nodes] == [("active",), (), ("content_unknown",)]
    assert shown.observation(raw=False).truncation == "none"


@pytest.mark.parametrize(
    "declared",
    [
        '<!DOCTYPE d [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>',
        '<!DOCTYPE d SYSTEM "file:///etc/passwd">',
        '<!DOCTYPE d [<!ENTITY b SYSTEM "file:///etc/passwd">]>',
    ],
)
def test_a_dump_that_declares_entities_is_refused_before_it_is_parsed(declared: str) -> None:
    dump = declared.encode() + desktop(frame("W", '<label name="&b;"/>'))
    assert reason(dump) == "doctype"
    assert reason(dump.decode().encode("utf-16")) == "doctype"


def test_what_is_no_screen_is_refused_for_its_reason() -> None:
    whole = desktop(frame("W", ""))
    assert reason(b"") == "empty"
    assert reason(whole[:-20]) == "truncated"
    assert reason(whole.replace(b"</frame>", b"</fram>")) == "bad_xml"
    assert reason(whole.replace(b"W", b"\xff")) == "not_utf8"
    assert reason(b'{"AT": 7}') == "empty"
    assert reason(b"<html><body/></html>") == "no_nodes"
    assert reason(desktop(f"<panel {SHOWN}>" * 400 + "</panel>" * 400)) == "nested_too_deeply"


PIECES: Final = (
    "<", "<!-- -->", "<?a b?>", "</label>", "<label/>", "&amp;", "&x;", '"', "/>", ">", ' xmlns:st="u"', "\x01",
)  # fmt: skip


@settings(max_examples=24 * FUZZ)
@given(system=st.sampled_from(["ubuntu", "windows"]), data=st.data())
def test_a_dump_reads_the_same_whichever_dumps_were_read_before(system: str, data: Any) -> None:
    labels = "".join(
        f'<label name="{name}" {SHOWN}{box(9 - left, 1, 5, 5)}>t</label>\n<x/>' for left, name in enumerate("abc")
    )
    whole = desktop(frame("W", labels), system).decode()
    reader = Reader()
    for _ in range(4):
        begin, end = sorted(data.draw(st.tuples(*[st.integers(0, len(whole))] * 2)))
        middle = data.draw(st.sampled_from([whole[begin:end], whole[begin:end] * 2, "", *PIECES]))
        dump = (whole[:begin] + middle + whole[end:]).encode()
        with patch.object(dump_xml, "_LONGEST", 0):
            wanted = told(dump, Reader())
        assert told(dump, reader) == wanted


def told(dump: bytes, reader: Reader) -> Any:
    """What comes of a dump: its screen, or why there is none."""
    try:
        return read_screen(dump, "dump", reader=reader)
    except ParseError as error:
        return error.args


def test_a_point_meets_open_menus_then_the_active_window_then_the_smaller_one() -> None:
    menu = (
        f'<menu name="File" {SHOWN}{box(0, 0, 40, 10)}><menu-item name="Save" {SHOWN}{box(0, 10, 80, 20)}/></menu>'
        f'<push-button name="Tiny" {SHOWN}{box(5, 12, 4, 4)}/>'
    )
    dialog = frame("Ask", f'<push-button name="Yes" {SHOWN}{box(110, 110, 20, 20)}/>', "", box(100, 100, 90, 90))
    back = f'<push-button name="Under" {SHOWN}{box(112, 112, 4, 4)}/>'
    back += f'<push-button name="Free" {SHOWN}{box(200, 200, 9, 9)}/>'
    shown = screen(frame("Main", menu + back) + dialog.replace("<frame", '<frame st:active="true"'))

    def name_at(x: int, y: int) -> str | None:
        node = shown.at(x, y)
        return shown.tree.nodes[node - 1].name if node is not None else None

    assert name_at(6, 13) == "Save"
    assert name_at(113, 113) == "Yes"
    assert name_at(205, 205) == "Free"
    assert name_at(150, 150) is None
    assert name_at(390, 290) is None
    assert name_at(5000, 5) is None


def test_the_wheel_turns_the_list_around_a_row_and_not_the_row() -> None:
    row = f'<list-item {SHOWN}{box(0, 0, 90, 20)}><label name="One" {SHOWN}{box(2, 2, 40, 10)}/></list-item>'
    slider = f'<slider name="Volume" {SHOWN}{box(0, 60, 90, 20)}/>'
    song_list = f'<list name="Songs" {SHOWN}{box(0, 0, 90, 100)}>{row}{slider}</list>'
    button = f'<push-button name="Play" {SHOWN}{box(100, 0, 20, 20)}/>'
    shown = screen(frame("Main", song_list + button))

    def names(x: int, y: int) -> list[str]:
        met = (shown.at(x, y), shown.wheel_target_at(x, y))
        return [shown.tree.nodes[node - 1].name for node in met if node is not None]

    assert names(5, 5) == ["One", "Songs"]
    assert names(5, 70) == ["Volume", "Volume"]
    assert names(110, 5) == ["Play", "Play"]
    assert names(5000, 5) == []


@pytest.mark.parametrize(
    ("code", "name", "arguments"),
    [
        ("import pyautogui\npyautogui.click(10, 20)", "click", {"x": 10, "y": 20}),
        ("pyautogui.click((10, 20), clicks=2)", "double_click", {"x": 10, "y": 20}),
        ("pyautogui.click(x=1, y=2, button='right')", "right_click", {"x": 1, "y": 2}),
        ("pyautogui.middleClick()", "middle_click", {}),
        ("computer.triple_click(x=0.25, y=0.5)", "triple_click", {"x": 0.25, "y": 0.5}),
        ("x, y = 960, 1080 // 2\npyautogui.click(x, y - 40)", "click", {"x": 960, "y": 500}),
        ("import pyautogui as pg\npg.moveTo(3, 4, duration=1)", "move", {"x": 3, "y": 4}),
        ("pyautogui.move(-30, 0)", "move", {"dx": -30, "dy": 0}),
        ("pyautogui.moveTo(1, 2)\npyautogui.dragTo(3, 4, button='left')", "drag", {"from": [1, 2], "to": [3, 4]}),
        ("pyautogui.dragTo(3, 4)", "drag", {"to": [3, 4]}),
        ("pyautogui.moveTo(5, 6); pyautogui.click()", "click", {"x": 5, "y": 6}),
        ("pyautogui.scroll(-5, x=1, y=2)", "scroll", {"x": 1, "y": 2, "clicks": -5}),
        ("pyautogui.hscroll(3)", "scroll", {"dx": 3}),
        ("pyautogui.typewrite('a' 'b\\n', interval=0.1)", "type", {"text": "ab\n"}),
        ('pyautogui.write(message="it\'s")', "type", {"text": "it's"}),
        ("pyautogui.typewrite(['a', 'Enter'])", "press", {"keys": ["a", "enter"]}),
        ("pyautogui.press('down', presses=3)", "press", {"key": "down", "times": 3}),
        ("pyautogui.hotkey('Ctrl', 'C')", "hotkey", {"keys": ["ctrl", "C"]}),
        ("pyautogui.hotkey(['ctrl', 'o'])", "hotkey", {"keys": ["ctrl", "o"]}),
        ("from time import sleep\nsleep(1.5)", "wait", {"seconds": 1.5}),
        ("import time\npyautogui.press('a')\ntime.sleep(2)", "press", {"key": "a", "seconds_after": 2}),
        ("computer.terminate(status='failure')", "fail", {}),
        ("computer.terminate(status='success')", "task_complete", {}),
        ("pyperclip.copy('é')", "set_clipboard", {"text": "é"}),
    ],
)
def test_code_becomes_the_action_that_it_takes(code: str, name: str, arguments: dict[str, Any]) -> None:
    calls = calls_of(code)
    assert calls
    action = action_of(calls, None, {"code": code})
    assert json.loads(action.text) == {"name": name, "arguments": arguments}
    assert json.loads(action.arguments or "") == {"code": code}


def test_several_calls_of_one_step_are_one_action_in_their_order() -> None:
    calls = calls_of("with pyautogui.hold('shift'):\n    pyautogui.click(1, 2)\ntime.sleep(1)\npyautogui.press('a')")
    assert calls is not None
    action = action_of(calls, None, {})
    assert action.name == act.SEQUENCE
    names = [call["name"] for call in json.loads(action.text)["arguments"]["calls"]]
    assert names == [act.KEY_DOWN, act.CLICK, act.KEY_UP, WAIT, act.PRESS]


@pytest.mark.parametrize(
    "code",
    [
        "for _ in range(9):\n    pyautogui.press('a')", "import os\nos.system('ls')", "pyautogui.click('button.png')",
        "pyautogui.click(*locate())", "pyautogui.click(x=nowhere, y=1)", "pyautogui.press('a')\nopen('/etc/passwd')",
        "pyautogui.typewrite('a' * 10 ** 9)", "pyautogui.click(1e999, 1)", "pyautogui.write(f'{x}')",
        "pyautogui.click(1 / 0, 1)", "pyautogui.click(1, 2", "(" * 5000, "-" * 30000 + "1", "\0",
        "pyautogui.screenshot()",
    ],
)  # fmt: skip
def test_code_that_does_anything_else_is_not_told_as_calls(code: str) -> None:
    assert calls_of(code) is None


@settings(max_examples=30 * FUZZ)
@given(st.text(alphabet="pyautogi.clk()[]{},='\"0123456789 \n-+*/\\xé:#_\0", max_size=120))
def test_no_text_makes_the_reader_of_code_raise(code: str) -> None:
    for text in (code, "pyautogui." + code, f"pyautogui.click({code})"):
        calls = calls_of(text)
        assert calls is None or {call.name for call in calls} <= act.VOCABULARY


@pytest.mark.parametrize(
    ("action", "name", "told"),
    [
        ({"action_type": "CLICK", "parameters": {"x": 1, "y": 2, "num_clicks": 2}}, "double_click", {"x": 1, "y": 2}),
        ({"action_type": "TYPING", "parameters": {"text": "a"}}, "type", {"text": "a"}),
        ({"action_type": "SCROLL", "parameters": {"dx": 0, "dy": -3}}, "scroll", {"clicks": -3}),
        ({"action_type": "HOTKEY", "parameters": {"keys": ["ctrl", "s"]}}, "hotkey", {"keys": ["ctrl", "s"]}),
        ({"action_type": "DONE"}, COMPLETE, {}),
        ({"name": "computer", "input": {"action": "left_click", "coordinate": [1, 2]}}, "click", {"x": 1, "y": 2}),
        (
            {"name": "computer", "input": {"action": "key", "text": "ctrl+Return"}},
            "hotkey",
            {"keys": ["ctrl", "return"]},
        ),
        (
            {"action": "scroll", "coordinate": [1, 2], "scroll_direction": "down", "scroll_amount": 3},
            "scroll",
            {"x": 1, "y": 2, "clicks": -3},
        ),
        ({"type": "drag", "path": [{"x": 1, "y": 2}, {"x": 3, "y": 4}]}, "drag", {"from": [1, 2], "to": [3, 4]}),
        ({"type": "keypress", "keys": ["CTRL", "A"]}, "hotkey", {"keys": ["ctrl", "A"]}),
    ],
)
def test_a_structured_action_is_the_same_call(action: dict[str, Any], name: str, told: dict[str, Any]) -> None:
    call = call_of(action)
    assert call is not None
    assert (call.name, call.arguments(None)) == (name, told)


def line(number: int, action: Any = "WAIT", **more: Any) -> bytes:
    stamp = f"20250101@00000{number}"
    row = {"step_num": number, "action_timestamp": stamp, "action": action, **more}
    return json.dumps(row).encode() + b"\n"


def parsed(members: dict[str, bytes], raw: bool = False) -> tuple[list[Trajectory], list[str]]:
    blob = MemoryBlob("results/pyautogui/a11y_tree/org/model/calc/7", members, Choices("raw" if raw else "tree"))
    records = list(OSWorld().parse(blob))
    rejects = [record.reason for record in records if isinstance(record, Reject)]
    return [record for record in records if isinstance(record, Trajectory)], rejects


def dump(name: str) -> bytes:
    return desktop(frame(name, ""))


def contents(trajectory: Trajectory) -> list[tuple[str | None, str | None]]:
    def title(side: Any) -> str | None:
        return side.content.split('"')[1] if side is not None and side.content else None

    return [(title(step.observation), title(step.next_observation)) for step in trajectory.steps]


def test_a_step_at_which_nothing_was_done_is_the_screen_before_the_first_action() -> None:
    start = {"step_num": 0, "action_timestamp": "20250101@000000", "action": "__init__", "screenshot_file": "a.png"}
    log = json.dumps(start).encode() + b"\n" + line(1)
    trees = {"step_1.xml": dump("b")}
    (trajectory,), rejects = parsed({"traj.jsonl": log, "a.xml": dump("a"), **trees})
    assert (contents(trajectory), rejects) == ([("a", "b")], [])
    (trajectory,), _ = parsed({"traj.jsonl": log, "a.png": b"\x89PNG", **trees})
    before = trajectory.steps[0].observation
    assert before is not None
    assert (before.content, before.attachments[0].name) == (None, "a.png")
    trajectories, _ = parsed({"traj.jsonl": log + log, "a.xml": dump("a"), **trees})
    assert [contents(trajectory) for trajectory in trajectories] == [[("a", None)], [("a", None)]]


def test_a_tree_in_the_line_counts_and_a_file_outside_of_the_folder_does_not() -> None:
    (trajectory,), rejects = parsed({"traj.jsonl": line(1, accessibility_tree=dump("b").decode())})
    assert contents(trajectory) == [(None, "b")]
    assert rejects == []
    (trajectory,), rejects = parsed({"traj.jsonl": line(1, accessibility_tree_file="../../etc/passwd")})
    assert contents(trajectory) == [(None, None)]
    assert rejects == ["missing_screen"]


def test_a_table_of_the_agents_log_is_matched_by_the_answer_that_follows_it() -> None:
    table = "LINEAR AT: tag\tname\nframe\t{}\nGenerating content with GPT model: m\nRESPONSE: {}\n"
    log = (
        table.format("a", "one")
        + "LINEAR AT: None\nRESPONSE: lost\n"
        + table.format("b", "two")
        + table.format("c", "one")
    )
    answers = answers_of(log)
    assert [answer.table and answer.table[-1] for answer in answers] == ["a", None, "b", "c"]
    aligned = align_answers(["one", "unknown", "two", "one"], answers)
    assert [answer and answer.table and answer.table[-1] for answer in aligned] == ["a", None, "b", "c"]


def test_the_formats_are_told_apart_and_what_is_none_of_them_is_left() -> None:
    def taken(data: bytes, name: str) -> list[str]:
        return [connector.name for connector, _ in sniff(data, name)]

    assert taken(line(1), "any.jsonl") == ["osworld"]
    assert taken(dump("a"), "screen.xml") == ["osworld"]
    assert taken(b"<desktop><icon/></desktop>", "screen.xml") == []
    assert taken(b'{"step_num": 1}\n', "other.jsonl") == []
    recording = b'{"name": "x", "start_time": 1, "events": [{"timestamp": 1, "event": {"Mouse": {}}}]}'
    assert taken(recording, "any.json") == ["terminator"]
    assert taken(b'{"events": [{"event": "Mouse"}]}', "any.json") == []
    task = b'{"task_id": "1", "traj": [{"image": "a.png", "value": {"code": "pyautogui.press(1)"}}]}\n'
    assert taken(task, "any.jsonl") == ["agentnet"]


def test_a_screenshot_that_two_lines_name_shows_what_the_later_one_led_to() -> None:
    log = line(1, screenshot_file="s.png") + line(1, screenshot_file="s.png") + line(2, screenshot_file="t.png")
    (trajectory,), _ = parsed({"traj.jsonl": log, "s.png": b"\x89PNG", "t.png": b"\x89PNG"})
    seen = [step.next_observation and step.next_observation.attachments[0].name for step in trajectory.steps]
    assert seen == [None, "s.png", "t.png"]
    assert [step.observation is None for step in trajectory.steps] == [True, True, False]
    (trajectory,), _ = parsed({"traj.jsonl": log, "s.xml": dump("s"), "t.xml": dump("t")})
    assert contents(trajectory) == [(None, None), (None, "s"), ("s", "t")]


def recorded(*events: tuple[str, dict[str, Any]]) -> list[str]:
    """The names of the acts of a recording, an event every 10 milliseconds."""
    return [call["name"] for call in told_calls(*events)]


def told_calls(*events: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The acts of a recording as their text tells them, an event every 10 milliseconds."""
    begun = 1_700_000_000_000
    entries = [{"timestamp": begun + 10 * index, "event": {kind: body}} for index, (kind, body) in enumerate(events)]
    log = json.dumps({"name": "w", "start_time": 1, "end_time": 2, "events": entries}).encode()
    records = list(Workflow().parse(MemoryBlob("w.json", log)))
    return [
        json.loads(step.action.text) for record in records if isinstance(record, Trajectory) for step in record.steps
    ]


def key(code: int, character: str | None = None, *modifiers: str) -> tuple[str, dict[str, Any]]:
    """A key as terminator records it: its character is the number of the key, whatever was typed."""
    text = character or (chr(code) if 32 <= code <= 126 else None)
    return "Keyboard", {
        "key_code": code,
        "is_key_down": True,
        "character": text,
        **{f"{name}_pressed": True for name in modifiers},
    }


def mouse(kind: str, x: int = 5, button: str = "Left") -> tuple[str, dict[str, Any]]:
    return "Mouse", {"event_type": kind, "button": button, "position": {"x": x, "y": 5}}


def clicked(x: int = 5) -> tuple[str, dict[str, Any]]:
    return "Click", {"element_text": "OK", "element_role": "Button", "click_position": {"x": x, "y": 5}}


def test_a_click_counts_once_whether_it_is_told_before_the_button_went_up_or_after() -> None:
    down, up = mouse("Down"), mouse("Up")
    assert recorded(down, clicked(), up) == ["click"]
    assert recorded(down, up, clicked()) == ["click"]
    assert recorded(down, up) == ["click"]
    assert recorded(down, up, clicked(), down, up, clicked()) == ["click", "click"]
    assert recorded(down, up, clicked(), clicked()) == ["click", "click"]
    assert recorded(down, up, clicked(400)) == ["click", "click"]
    right = mouse("Down", button="Right"), mouse("Up", button="Right"), clicked()
    assert recorded(*right) == ["right_click"]
    double = down, up, clicked(), down, up, mouse("DoubleClick")
    assert recorded(*double) == recorded(*double, clicked()) == ["double_click"]
    assert recorded(down, up, ("Hotkey", {"combination": "Ctrl+S"}), clicked()) == ["click", "hotkey", "click"]


def test_a_combination_counts_once_though_its_last_key_is_told_as_well() -> None:
    copy, c = ("Hotkey", {"combination": "Ctrl+C", "action": "Copy"}), key(67, None, "ctrl")
    assert recorded(key(17, None, "ctrl"), copy, c) == ["hotkey"]
    assert recorded(c, copy) == ["hotkey"]
    assert recorded(copy, c, copy, c) == recorded(copy, copy) == recorded(c, c) == ["hotkey", "hotkey"]
    assert recorded(copy, key(86, None, "ctrl")) == ["hotkey", "hotkey"]
    assert recorded(copy, mouse("Down"), mouse("Up"), c) == ["hotkey", "click", "hotkey"]


def test_pasted_text_is_the_combination_that_pasted_it() -> None:
    field = "TextInputCompleted", {"text_value": "hi", "input_method": "Pasted", "keystroke_count": 2}
    paste, copy = ("Hotkey", {"combination": "Ctrl+V"}), ("Hotkey", {"combination": "Ctrl+C"})
    assert recorded(paste, field) == ["hotkey"]
    assert recorded(copy, field) == ["hotkey", "type"]
    assert recorded(paste, ("TextInputCompleted", field[1] | {"input_method": "Typed"})) == ["hotkey", "type"]


def test_what_was_typed_is_told_by_the_keys_where_the_character_is_their_number() -> None:
    shift = "shift"
    events = key(72, None, shift), key(73), key(190), key(49), key(98), key(32), key(111)
    assert told_calls(*events) == [{"name": "type", "arguments": {"text": "Hi.12 /"}}]
    named = [call["arguments"] for call in told_calls(key(37), key(46), key(113), key(49, None, shift))]
    assert named == [{"key": "left"}, {"key": "delete"}, {"key": "f2"}, {"keys": ["shift", "1"]}]
    assert told_calls(key(49, "!", shift), key(190, ":"), key(65, "\u00e4"))[0]["arguments"] == {"text": "!:\u00e4"}
    assert recorded(key(10**12, "x"), key(-5, "y")) == ["type"]


def test_a_damaged_name_of_a_screenshot_costs_no_more_than_that_screenshot() -> None:
    data = (ROOT / "tests/fixtures/steps_recorder/input/missed.mht").read_bytes()
    (whole,) = StepsRecorder().parse(MemoryBlob("a.mht", data))
    data = data.replace(b"Content-Location: screenshot0002", b"Content-Location: screenshot\x80")
    (damaged,) = StepsRecorder().parse(MemoryBlob("a.mht", data))
    assert isinstance(whole, Trajectory)
    assert isinstance(damaged, Trajectory)
    assert [step.action for step in damaged.steps] == [step.action for step in whole.steps]
