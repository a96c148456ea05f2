"""One action in an rrweb recording: its screen, element and arguments, and the `Action` built from them.

`acts` defines which raw events form an action.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from trajmill.connectors.screens.dom import DomNode, collapse_space, text_of
from trajmill.connectors.screens.page import Page
from trajmill.connectors.web import action as act
from trajmill.schemas import Action, Observation

EFFECT_MS: Final = 500
"""A scroll, resize or second click this soon after an action is part of it."""

BURST_MS: Final = 30
"""Events this soon after one another belong to one action; nobody acts twice within that time."""

PAGE_MS: Final = 5000
"""A new page this soon after an action is its effect."""

REST_MS: Final = 1000
"""A longer pause splits a scroll in two."""


@dataclass(slots=True, eq=False)
class Seen:
    """The screen at the beginning of an action."""

    observation: Observation | None
    page: Page | None


@dataclass(slots=True, eq=False)
class Act:
    """An action under construction.

    Attributes:
        page: the same screen, to find elements on. It is released when the next action begins, because a page has
            thousands of objects.
        time: time of its last event, in milliseconds.
    """

    kind: str
    observation: Observation | None
    page: Page | None
    line: int | None
    node: DomNode | None
    offset: int
    started: float | None
    time: float | None
    told: dict[str, Any] = field(default_factory=dict)
    original: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Press:
    """A mouse button or finger that went down; `used`: an action was made of it; `up`: it was released."""

    node: DomNode | None
    seen: Seen
    offset: int
    started: float | None
    mutations: int
    original: dict[str, Any]
    is_touch: bool
    used: bool = False
    up: bool = False


def point_of(position: Mapping[str, Any]) -> list[int] | None:
    """Return the whole x and y of a position; None if it has none."""
    x, y = position.get("x"), position.get("y")
    if not isinstance(x, int | float) or not isinstance(y, int | float) or not abs(x) + abs(y) < 1e9:
        return None
    return [act.whole(x), act.whole(y)]


def action_of(person_act: Act) -> Action:
    """Return the action, with its element named by the line of the tree, else by its point or a short description."""
    node, arguments = person_act.node, person_act.told
    element = person_act.line
    if node is not None and node.tag == "#document" and person_act.kind == act.SCROLL:
        element = None if element == 1 else element
    target = None
    if element is None and node is not None and node.tag not in ("#document", "#text"):
        target = _describe(node)
    if person_act.kind == act.FILL and node is not None and node.attributes.get("type", "").lower() == "password":
        sensitive = (str(arguments.get("text", "")),)
        arguments = {"text": act.MASK}
        return replace(
            act.call(act.FILL, arguments, {**person_act.original, **arguments}, element, target), sensitive=sensitive
        )
    return act.call(person_act.kind, arguments, person_act.original, element, target)


def _describe(node: DomNode) -> str:
    """Return a short description of an element that is not shown: its tag with its id, name or first words."""
    for name in ("id", "name", "aria-label"):
        if node.attributes.get(name):
            return f'{node.tag}[{name}="{node.attributes[name][:80]}"]'
    text = collapse_space(text_of(node))[:80]
    return f"{node.tag} {text!r}" if text else node.tag
