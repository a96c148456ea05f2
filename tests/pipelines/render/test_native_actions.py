"""Actions in the grammars of BrowserGym, pyautogui and AndroidWorld."""

import json

import pytest

from tests.pipelines.render.test_turns import row
from tests.tables import table
from trajmill.pipelines.render.native_actions import native_action
from trajmill.pipelines.render.pieces import View
from trajmill.pipelines.render.turns import turns


def call(name, **arguments):
    return json.dumps({"name": name, "arguments": arguments})


@pytest.mark.parametrize(
    ("domain", "text", "said"),
    table(__file__, "native_actions"),
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
