"""A window's tree of controls as UFO saves it (`ui_tree/step_<n>.json`), read into a screen of the compact tree.

A control is an object `{id, name, control_type, rectangle, adjusted_rectangle, relative_rectangle, level, children}`,
of which `control_type` is UI Automation's word. Boxes are those of `adjusted_rectangle`, whose origin is the corner of
the window, since UFO's log of actions counts from there too; where a tree has none, those of `rectangle`. The log of
actions is not read here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from trajmill.connectors.desktop.element import clean
from trajmill.connectors.desktop.widgets import role_of
from trajmill.connectors.reading.documents import document_in
from trajmill.connectors.screens.element_ids import lasting
from trajmill.connectors.screens.tree import DIALECT, MAX_DEPTH, Box, Node, Tree
from trajmill.schemas import Attachment, Observation, ParseError

RAW_DIALECT: Final = "ufo-ui-tree"
_SIDES: Final = ("left", "top", "right", "bottom")
_FARTHEST: Final = 10**6


@dataclass(frozen=True, slots=True)
class Window:
    """A window's tree, its text, and the log's own text of it."""

    tree: Tree
    text: str
    source: str = field(repr=False)

    def observation(self, raw: bool, pictures: tuple[Attachment, ...] = ()) -> Observation:
        """The window as an observation: its compact tree, or the log's own JSON."""
        if raw:
            return Observation(self.source, "application/json", "screen", RAW_DIALECT, attachments=pictures)
        return Observation(self.text, form="screen", dialect=DIALECT, attachments=pictures)

    def node(self, name: str, box: Box | None) -> int | None:
        """The control of that name in that box, else the only one of that name; None if none or several fit."""
        nodes = list(enumerate(self.tree.nodes, 1))
        if box is not None:
            found = [place for place, node in nodes if node.bounds == box]
            named = [place for place in found if self.tree.nodes[place - 1].name == name]
            return next(iter(named or found[-1:]), None)
        alike = [place for place, node in nodes if name and node.name == name]
        return alike[0] if len(alike) == 1 else None


def read_window(data: bytes, uri: str, member: str) -> Window:
    """The window of a file.

    Raises:
        ParseError: it is no JSON document; `no_nodes`: it is no tree of controls; `nested_too_deeply`.
    """
    root = document_in(data, uri, member)
    nodes: list[Node] = []
    depths: list[int] = []
    stack: list[tuple[Any, int]] = [(root, 0)]
    while stack:
        source, depth = stack.pop()
        if not isinstance(source, dict) or not isinstance(source.get("control_type"), str):
            continue
        node = _node(source, not nodes)
        if node is not None:
            if depth >= MAX_DEPTH:
                raise ParseError(uri, 0, "nested_too_deeply", f"more than {MAX_DEPTH} levels of controls", member)
            nodes.append(node)
            depths.append(depth)
        children = source.get("children")
        inner: Sequence[Any] = children if isinstance(children, list) else ()
        if inner:
            depth += node is not None
            stack += [(one, depth) for one in reversed(inner)]
    if not nodes:
        raise ParseError(uri, 0, "no_nodes", "wanted a tree of controls with a control_type", member, data[:512])
    tree = Tree(nodes, depths)
    return Window(tree, tree.text, data.decode("utf-8", "replace"))


def _node(source: dict[str, Any], is_top: bool) -> Node | None:
    """The node of a control; None if it only lays out others."""
    name, ident, kind = source.get("name"), source.get("automation_id"), source["control_type"]
    name = clean(name) if isinstance(name, str) else ""
    # In UI Automation, Text cannot be edited; in other toolkits the word means a field.
    role = "window" if is_top else "text" if kind == "Text" else role_of(kind)
    if role == "group" and not name:
        return None
    box = box_of(source.get("adjusted_rectangle")) or box_of(source.get("rectangle"))
    return Node(role, name, "", "", (), lasting(clean(ident)) if isinstance(ident, str) else "", box)


def box_of(value: Any) -> Box | None:
    """The box of an object with its four sides; None if a side is missing, or it has no area."""
    if not isinstance(value, dict):
        return None
    sides: list[Any] = [value.get(side) for side in _SIDES]
    for one in sides:
        if type(one) is not int or not -_FARTHEST <= one <= _FARTHEST:
            sides = [round(one) for one in sides if isinstance(one, int | float) and abs(one) <= _FARTHEST]
            break
    if len(sides) != 4:
        return None
    left, top, right, bottom = sides
    return (left, top, right, bottom) if left < right and top < bottom else None
