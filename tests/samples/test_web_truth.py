"""One session, recorded in four ways at once, beside what the browser itself said of each target and page.

`samples.makers.record_truth` asks the browser. What a way of recording cannot know is written down here as data.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from tests.samples.test_web_samples import SAMPLES
from trajmill.connectors.screens.tree import Node, Tree
from trajmill.pipelines.normalize.input_reading import read_input
from trajmill.pipelines.plan.plan import make_plan
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.schemas import Reject, Step

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

UNSEEN_BY_RRWEB: Final = {"hover", "press", "drag", "back"}
"""Acts that leave no event of their own in rrweb: it sees what the page makes of them."""

NAMED_ONLY: Final = frozenset(
    {"document", "textbox", "searchbox", "spinbutton", "slider", "combobox", "radio", "checkbox", "image", "iframe"}
    | {"navigation", "list", "group"}
)
"""Roles whose name is no text of the line."""


@cache
def steps_of(name: str) -> list[Step]:
    """The steps of the session in one way of recording."""
    recipe = Recipe(name="samples", source="samples")
    plan = make_plan(recipe, [str(SAMPLES / "fair" / name)])
    assert [one.connector for one in plan.inputs] == [WAYS[name]]
    (trajectory,) = [trajectory for trajectory, _ in read_input(plan.inputs[0], recipe)]
    assert not isinstance(trajectory, Reject)
    return list(trajectory.steps)


def words_of(content: str) -> Counter[str]:
    """The words that a person reads on a page."""
    words = Counter[str]()
    for node in Tree.parse(content).nodes:
        words.update(text_of(node).split())
    return words


def text_of(node: Node) -> str:
    if node.role == "textbox" and node.name == "Memo":
        return node.value
    return node.name if node.role not in NAMED_ONLY or node.role == "group" else ""


def differences(content: str, truth: dict[str, Any]) -> tuple[list[str], list[str]]:
    """(words that only the browser shows, words that only the tree shows)."""
    ours, theirs = words_of(content), Counter(" ".join(truth["lines"]).split())
    return sorted((theirs - ours).elements()), sorted((ours - theirs).elements())


if __name__ == "__main__":
    for place, (step, truth) in enumerate(zip(steps_of("trace.zip"), TRUTH)):
        print(
            place,
            truth["verb"],
            step.action.text,
            truth.get("role"),
            truth.get("name"),
            differences(step.observation.content, truth),
        )
    seen = [t for t in TRUTH if t["verb"] not in UNSEEN_BY_RRWEB]
    for place, (step, truth) in enumerate(zip(steps_of("events.json.gz"), seen)):
        print(
            place,
            truth["verb"],
            step.action.text,
            truth.get("role"),
            truth.get("name"),
            differences(step.observation.content, truth),
        )
