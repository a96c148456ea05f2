"""What the recorder of Mind2Web measured of each element, told in the attributes that HTML has.

Attribute names have `_` for `-`; `bounding_box_rect` is left, top, width and height in pixels of the page, all -1 for
what was not laid out; `input_value`, `input_checked` and `option_selected` are the live state of fields; `is_clickable`
says that something listens to clicks. Nothing here reads markup.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from connectors.web.dom import DomNode

KEPT_HIDDEN: Final = frozenset({"option", "optgroup"})
"""Elements that count though they have no box."""

UNDRAWN: Final = frozenset({"html", "body", "head", "title"})
"""Elements that are not hidden though they have no box."""

_LIVE: Final = {"input-value": "value", "option-selected": "selected", "is-clickable": "onclick"}

DROPPED, PLAIN, VALUE, FLAG, BOX, NUMBER = range(6)
"""What an attribute of the recorder's is; a flag is set where it is `true`."""


@lru_cache(maxsize=4096)
def meaning(name: str) -> tuple[int, str]:
    """(what an attribute of the recorder's is, its name in HTML)"""
    key = name.lower().replace("_", "-")
    if key == "backend-node-id":
        return NUMBER, key
    if name == "bounding_box_rect":
        return BOX, key
    if key == "bounding-box-rect" or key.startswith("data-pw-testid-buckeye"):
        return DROPPED, key
    if key == "input-value":
        return VALUE, _LIVE[key]
    return (FLAG, _LIVE.get(key, "checked")) if key in _LIVE or key == "input-checked" else (PLAIN, key)


class Layout:
    """What of a document was laid out; nodes are placed in it parents first. `nodes` are those with a number,
    `shows` those in which something was laid out."""

    def __init__(self) -> None:
        self.nodes: dict[str, DomNode] = {}
        self.shows: set[DomNode] = set()
        self._undrawn: list[tuple[DomNode, DomNode, bool]] = []

    def place(self, node: DomNode, parent: DomNode, told: Iterable[tuple[str, str]], in_option: bool) -> None:
        """Gives a node its attributes by the names that HTML has; a text that was not laid out is empty."""
        attributes: dict[str, str] = {}
        box: str | None = None
        for name, value in told:
            kind, key = meaning(name)
            if kind == PLAIN:
                if key not in attributes:
                    attributes[key] = value
            elif kind == BOX:
                box = value
            elif kind == NUMBER:
                self.nodes[value] = node
            elif kind == VALUE or (kind == FLAG and value.lower() == "true"):
                attributes[key] = value
        node.attributes = attributes
        if node.tag == "a" and "href" not in attributes:
            # Addresses were taken out of the data, links were not.
            attributes["href"] = ""
        self.measure(node, parent, box, in_option)

    def measure(self, node: DomNode, parent: DomNode, box: str | None, in_option: bool) -> None:
        """Notes whether a node was laid out, by its box if it has one."""
        tag = node.tag
        if (box is None and tag != "#text") or (box is not None and _is_drawn(box)):
            self.shows.add(parent)
        elif tag != "#text":
            self._undrawn.append((node, parent, in_option or tag in KEPT_HIDDEN or tag in UNDRAWN))
        elif box is not None and not in_option:
            node.text = ""

    def hide(self) -> None:
        """Hides the elements that were not laid out, and nothing in them either."""
        for node, parent, is_kept in reversed(self._undrawn):
            if node in self.shows:
                self.shows.add(parent)
            elif not is_kept:
                node.attributes["hidden"] = ""


def _is_drawn(box: str) -> bool:
    """Whether the box is that of an element that was laid out."""
    return box[:1].isdecimal() or not box.replace(" ", "").startswith("-1,-1,-1,-1")
