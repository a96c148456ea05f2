"""Actions in the grammars of BrowserGym, pyautogui and AndroidWorld."""

from __future__ import annotations

import json

import pytest

from tests.pipelines.render.test_turns import row
from trajmill.pipelines.render.native_actions import native_action
from trajmill.pipelines.render.pieces import View
from trajmill.pipelines.render.turns import turns


def call(name, **arguments):
    return json.dumps({"name": name, "arguments": arguments})


@pytest.mark.parametrize(
    ("domain", "text", "said"),
    [
        ("web", call("click", element="a51"), 'click("a51")'),
        ("web", call("click", element="#7"), 'click("7")'),
        ("web", call("click", x=10, y=20), "mouse_click(10, 20)"),
        ("web", call("fill", element="#22", text='2031 "or"'), 'fill("22", "2031 \\"or\\"")'),
        ("web", call("select_option", element="#16", options=["Dr Okafor"]), 'select_option("16", ["Dr Okafor"])'),
        ("web", call("press", key="Enter"), 'keyboard_press("Enter")'),
        ("web", call("goto", url="https://a.example/"), 'goto("https://a.example/")'),
        ("web", call("go_back"), "go_back()"),
        ("web", call("click", element=40), 'click("40")'),
        ("web", call("click", element="#1", button="right"), 'click("1", button="right")'),
        ("web", call("dblclick", element="#1"), 'dblclick("1")'),
        ("web", call("right_click", x=1, y=2), 'mouse_click(1, 2, button="right")'),
        ("web", call("fill", element=2, text="{tea}", enter=True), 'fill("2", "{tea}")\npress("2", "Enter")'),
        ("web", call("type", element="#1", text="tea"), 'focus("1")\nkeyboard_type("tea")'),
        ("web", call("upload", element="#1", files=["a.txt"]), 'upload_file("1", ["a.txt"])'),
        ("web", call("drag", element="#1", onto="#2"), 'drag_and_drop("1", "2")'),
        ("web", call("drag", **{"from": [1, 2], "to": [3, 4]}), "mouse_drag_and_drop(1, 2, 3, 4)"),
        ("web", call("scroll", dx=0, dy=400), "scroll(0, 400)"),
        ("web", call("tab_select", tab=2), "tab_focus(2)"),
        ("web", call("tab_new", url="https://a.example/"), 'new_tab()\ngoto("https://a.example/")'),
        ("web", call("wait", seconds=1.5), "noop(1500)"),
        ("web", call("message", content="Done."), 'send_msg_to_user("Done.")'),
        ("web", call("web_browser_click", element_id=151), 'click("151")'),
        ("os", call("code", code="import os\nos.sync()"), "import os\nos.sync()"),
        ("os", call("press", key="tab", times=3), 'pyautogui.press("tab", presses=3)'),
        ("os", call("press", keys=["a", "b"]), 'pyautogui.press(["a", "b"])'),
        ("os", call("mouse_down", x=1, y=2, button="left"), 'pyautogui.mouseDown(1, 2, button="left")'),
        ("os", call("key_up", key="shift"), 'pyautogui.keyUp("shift")'),
        ("os", call("move", dx=5, dy=-5), "pyautogui.moveRel(5, -5)"),
        ("os", call("drag", to=[3, 4]), "pyautogui.dragTo(3, 4)"),
        ("os", call("scroll", dx=-3, x=1, y=2), "pyautogui.hscroll(-3, x=1, y=2)"),
        ("os", call("wait", seconds=2), "time.sleep(2)"),
        ("os", call("set_clipboard", text="a"), 'pyperclip.copy("a")'),
        ("android", call("answer", text="Four."), '{"action_type":"answer","text":"Four."}'),
        ("android", call("task_complete", status="infeasible"), '{"action_type":"status","goal_status":"infeasible"}'),
        ("os", call("click", element="#6", x=219, y=149), "pyautogui.click(219, 149)"),
        ("os", call("hotkey", keys=["ctrl", "a"]), 'pyautogui.hotkey("ctrl", "a")'),
        ("os", call("scroll", element="#5", x=393, y=332, clicks=-15), "pyautogui.scroll(-15, x=393, y=332)"),
        (
            "os",
            call("drag", element="#16", **{"from": [272, 218], "to": [493, 218]}),
            "pyautogui.moveTo(272, 218)\npyautogui.dragTo(493, 218)",
        ),
        (
            "os",
            call("sequence", calls=[json.loads(call("click", x=1, y=2)), json.loads(call("type", text="ü"))]),
            'pyautogui.click(1, 2)\npyautogui.write("ü")',
        ),
        ("os", call("task_complete"), "DONE"),
        ("android", call("click", element="#7"), '{"action_type":"click","index":7}'),
        ("android", call("press", key="home"), '{"action_type":"navigate_home"}'),
        ("android", call("input_text", text="Mira"), '{"action_type":"input_text","text":"Mira"}'),
        ("android", call("task_complete"), '{"action_type":"status","goal_status":"complete"}'),
    ],
)
def test_an_action_is_said_in_the_grammar_of_its_domain(domain, text, said):
    found = native_action(domain, text)
    assert found is not None
    assert (
        (json.loads(found.text), found.language) == (json.loads(said), "json")
        if domain == "android"
        else (found.text == said and found.language == "python")
    )


@pytest.mark.parametrize(
    ("domain", "text"),
    [
        ("terminal", call("click", element="#1")),
        ("web", "GET https://a.example/"),
        ("web", call("scroll", x=0, y=400)),
        ("web", call("fill", element="#1", text="x", enter="yes")),
        ("web", call("click", element={"id": 1})),
        ("web", call("wait", target="#1", until="visible")),
        ("os", call("click", element="#6")),
        ("os", call("sequence", calls=[{"name": "click", "arguments": {"x": 1, "y": 2}}, {"name": "unheard of"}])),
        ("os", call("sequence", calls=[])),
        ("android", call("click", element="submit")),
        ("android", call("swipe", **{"from": [1, 2], "to": [3, 4]})),
        ("android", call("press", key="volume_up")),
    ],
)
def test_what_a_grammar_has_no_words_for_is_no_native_action(domain, text):
    assert native_action(domain, text) is None


def test_a_turn_shows_it_where_the_recipe_asks_for_it_and_else_the_call():
    text = call("click", element="a51")
    native = View(actions="native")
    assert turns([row(0, text, "page", domain="web")], native)[0].user.endswith('```python\nclick("a51")\n```')
    assert '"name": "click"' in turns([row(0, text, "page", domain="web")])[0].user
    shown = turns([row(0, call("wait", until="visible"), "page", domain="web")], native)[0].user
    assert '```json\n{\n  "name": "wait"' in shown
    tapped = turns([row(0, call("click", element="#7"), "page", domain="android")], native)[0].user
    assert tapped.endswith('```json\n{\n  "action_type": "click",\n  "index": 7\n}\n```')
