"""Runs of BrowserGym: pickles are never opened, and actions are read from their code without running it."""

import json

import pytest

from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.registry import connector
from trajmill.connectors.web.browsergym import read_calls
from trajmill.schemas import ParseError

GYM = connector("browsergym")


@pytest.mark.parametrize(
    ("code", "name", "told"),
    [
        ("click('a46')", "click", {"element": "a46"}),
        ("click(bid='12', button='right')", "click", {"element": "12", "button": "right"}),
        ("fill('7', 'it\\'s')", "fill", {"element": "7", "text": "it's"}),
        ("press('7', 'Control+a')", "press", {"element": "7", "key": "Control+a"}),
        ("select_option('3', ['a', 'b'])", "select_option", {"element": "3", "options": ["a", "b"]}),
        ("select_option('3', 'a')", "select_option", {"element": "3", "options": ["a"]}),
        ("scroll(0, -200.5)", "scroll", {"dx": 0, "dy": -200.5}),
        ("noop()", "wait", {"seconds": 1.0}),
        ("noop(wait_ms=250)", "wait", {"seconds": 0.25}),
        ("tab_focus(1)", "tab_select", {"tab": 1}),
        ("fly('home')", "fly", {"argument_0": "home"}),
    ],
)
def test_a_call_is_read_by_the_signature_of_its_action(code, name, told):
    ((call_name, arguments, _),) = read_calls(code)
    assert (call_name, arguments) == (name, told)


@pytest.mark.parametrize(
    "code",
    [
        "__import__('os').system('true')",
        "click(open('/x'))",
        "x = click('1')",
        "click('1'",
        "I click on it",
        "(" * 4000,
        "",
    ],
)
def test_what_is_no_call_with_constants_is_no_action(code):
    assert read_calls(code) == []


def test_a_pickle_is_refused_by_name_and_its_bytes_are_not_looked_at():
    data = b"\x80\x04cposix\nsystem\n(S'false'\ntR."
    assert GYM.sniff(data, "run/step_3.pkl") is not None
    with pytest.raises(ParseError) as caught:
        list(GYM.parse(MemoryBlob("run/step_3.pkl", data)))
    assert caught.value.reason == "pickle"


def test_a_run_whose_pages_are_not_text_is_refused():
    steps = [{"action": "click('1')", "axtree_object": {"nodes": []}}] * 2
    with pytest.raises(ParseError) as caught:
        list(GYM.parse(MemoryBlob("r", json.dumps({"steps": steps}).encode())))
    assert caught.value.reason == "no_observation"
