"""One session, recorded in four ways at once, beside what the browser itself said of each target and page.

`samples.makers.record_truth` asks the browser. What a way of recording cannot know is written down here as data:
nothing else may differ.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from tests.samples.test_web_samples import SAMPLES
from trajmill.connectors.screens.tree import Node, Tree
from trajmill.pipelines.normalize.input_reading import read_input
from trajmill.pipelines.plan.plan import make_plan
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.schemas import Observation, Reject, Step

TRUTH: Final[list[dict[str, Any]]] = json.loads(Path(__file__).with_name("truth.json").read_text("utf-8"))
WAYS: Final = {
    "trace.zip": "playwright_trace",
    "events.json.gz": "rrweb",
    "session.har.gz": "har",
    "cdp.jsonl.gz": "cdp",
}

ROLES: Final = {
    "DisclosureTriangle": "button",
    "generic": "text",
    "graphics-symbol": "circle",
    "heading": "h1",
    "paragraph": "textbox",
}
"""Role in the accessibility tree of Chromium → in ours, where they differ."""

UNREAD: Final = frozenset(
    {"document", "textbox", "searchbox", "spinbutton", "slider", "combobox", "radio", "checkbox", "image", "iframe"}
    | {"navigation", "list"}
)
"""Roles whose name is no text of the page, or stands there as the text of a label."""

EDITED: Final = {"Memo"}
"""Elements whose value is text of the page."""

WORDS: Final = {
    "trace.zip": {"back": "go_back", "end": "wait", "select": "select_option"},
    "events.json.gz": {"back": "goto", "check": "click", "press": "fill", "select": "select_option", "type": "fill"},
}
"""File → the browser's act → in the words of that way of recording, where they differ."""

UNTOLD: Final = {
    "trace.zip": set[str](),
    # The pointer and the keyboard leave no act of their own, but for what they change in a field.
    "events.json.gz": {"hover", "drag", "press Escape", "press Enter", "press End", "end"},
}
"""File → acts that are not in it."""

UNNAMED: Final = {"press", "type"}
"""Acts on what has the focus, of which a trace does not tell."""

BY_SIZE: Final = ["Seats for forty."]
"""Hidden by the size of a box, which no log holds."""

BY_WINDOW: Final = ["Open from nine to five."]
"""Hidden by the size of the window, which a network log does not hold."""

BY_SCRIPT: Final = ["Steep for three minutes", "Start the clock"]
"""Not in the document as it was sent."""

IN_FRAME: Final = ["Guest Sign", "No guests yet."]
"""In the frame's own response."""


@cache
def steps_of(name: str) -> list[Step]:
    """The steps of the session in one way of recording."""
    recipe = Recipe(name="samples", source="samples")
    plan = make_plan(recipe, [str(SAMPLES / "fair" / name)])
    assert [log.connector for log in plan.inputs] == [WAYS[name]]
    (trajectory,) = [trajectory for trajectory, _ in read_input(plan.inputs[0], recipe)]
    assert not isinstance(trajectory, Reject)
    return list(trajectory.steps)


def words_of(lines: Iterable[str]) -> Counter[str]:
    return Counter(" ".join(lines).split())


def read_on(observation: Observation | None) -> Counter[str]:
    """The words that a person reads on a page, by its tree."""
    assert observation is not None
    assert observation.content is not None
    tree = observation.content[observation.content.index("#1 document") :]
    return words_of(_text_of(node) for node in Tree.parse(tree).nodes)


def _text_of(node: Node) -> str:
    return node.value if node.name in EDITED else "" if node.role in UNREAD else node.name


def acts_in(name: str) -> list[tuple[int, dict[str, Any]]]:
    """The acts of the session that a way of recording tells of, each with its place."""
    untold = UNTOLD[name]
    return [
        (index, act)
        for index, act in enumerate(TRUTH)
        if not untold & {act["verb"], f"{act['verb']} {act.get('value')}"}
    ]


@pytest.mark.parametrize("name", UNTOLD)
def test_every_act_names_the_target_that_the_browser_named(name):
    steps, acts = steps_of(name), acts_in(name)
    assert [step.action.name for step in steps] == [WORDS[name].get(act["verb"], act["verb"]) for _, act in acts]
    for step, (_, act) in zip(steps, acts, strict=True):
        arguments = json.loads(step.action.text)["arguments"]
        if "role" not in act or (name == "trace.zip" and act["verb"] in UNNAMED):
            assert "element" not in arguments
            continue
        assert step.observation is not None
        assert target_of(step.observation, arguments["element"]) == named(act)
        if "onto" in act:
            assert target_of(step.observation, arguments["onto"]) == named(act["onto"])


def target_of(observation: Observation, element: str) -> tuple[str, str]:
    """Role and name of a line."""
    (line,) = [line for line in (observation.content or "").splitlines() if line.split()[0] == element]
    (node,) = Tree.parse("#1" + line.strip().removeprefix(element)).nodes
    return node.role, node.name


def named(target: Mapping[str, str]) -> tuple[str, str]:
    """Role and name of a target in the browser."""
    return ROLES.get(target["role"], target["role"]), target["name"]


@pytest.mark.parametrize("name", UNTOLD)
def test_every_page_shows_what_the_browser_showed(name):
    for step, (index, act) in zip(steps_of(name), acts_in(name), strict=True):
        unknown = words_of(BY_SIZE) if act["url"].endswith("example/") else Counter[str]()
        assert read_on(step.observation) == words_of(act["lines"]) + unknown, index


def test_a_trace_shows_what_each_act_led_to():
    for step, act in zip(steps_of("trace.zip"), TRUTH[1:], strict=False):
        unknown = words_of(BY_SIZE) if act["url"].endswith("example/") else Counter[str]()
        assert read_on(step.next_observation) == words_of(act["lines"]) + unknown


@pytest.mark.parametrize("name", sorted(WAYS.keys() - UNTOLD))
def test_every_document_that_the_network_brought_shows_what_the_browser_showed_at_first(name):
    shown: dict[str, list[str]] = {}
    for act in TRUTH:
        shown.setdefault(act["url"], act["lines"])
    documents: list[str] = []
    for step in steps_of(name):
        answer = step.next_observation
        if answer is None or answer.dialect != "http+uitree/1" or answer.uri is None or answer.is_error:
            continue
        path = answer.uri.removeprefix("http://fair.example")
        documents.append(path)
        lines = {"/frame.html": IN_FRAME}.get(path) or shown[answer.uri]
        unknown = {"/": words_of([*BY_SIZE, *BY_WINDOW])}.get(path, Counter())
        unseen = {"/board.html": words_of([*BY_SCRIPT, *IN_FRAME])}.get(path, Counter())
        assert read_on(answer) + unseen == words_of(lines) + unknown, path
    assert documents == ["/", "/order.html", "/thanks.html", "/board.html", "/frame.html", "/thanks.html"]
