"""Window trees of UI Automation controls that a recorder saved as JSON, as trees of `connectors.screens.tree`.

UFO and AgentNet Tool use different keys for a control (`Spelling`); its kind is UI Automation's word. This module does
not read the log of actions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from trajmill.connectors.desktop.element import clean
from trajmill.connectors.desktop.folding import control_around, fold
from trajmill.connectors.desktop.widgets import role_of
from trajmill.connectors.reading.documents import document_in
from trajmill.connectors.screens.element_ids import lasting
from trajmill.connectors.screens.tree import DIALECT, MAX_DEPTH, Box, Node, Tree
from trajmill.schemas import Attachment, Observation, ParseError

_SIDES: Final = ("left", "top", "right", "bottom")
_FARTHEST: Final = 10**6


class Spelling(NamedTuple):
    """The keys of a control in a recorder's tree.

    Attributes:
        name, kind, ident, children: keys of these properties.
        boxes: keys of its box, the best first.
        dialect: dialect of an observation that keeps the recorder's own text of the tree.
    """

    name: str
    kind: str
    ident: str
    children: str
    boxes: tuple[str, ...]
    dialect: str


UFO: Final = Spelling(
    "name", "control_type", "automation_id", "children", ("adjusted_rectangle", "rectangle"), "ufo-ui-tree"
)
"""Boxes are relative to the window's corner, as in UFO's log of actions, or else to the screen."""

AGENTNET: Final = Spelling(
    "Name", "ControlType", "AutomationId", "Children", ("BoundingRectangle",), "agentnet-ui-tree"
)


@dataclass(frozen=True, slots=True)
class Window:
    """A window's tree, its text, and the log's own text of it."""

    tree: Tree
    text: str
    source: str = field(repr=False)
    source_dialect: str

    def observation(self, raw: bool, pictures: tuple[Attachment, ...] = (), *, is_whole: bool = True) -> Observation:
        """Return the window as an observation: its compact tree, or the log's own JSON.

        Args:
            raw: whether to keep the log's own text.
            pictures: screenshots of the same moment.
            is_whole: whether the recorder had the time to read the whole tree.
        """
        return Observation(
            self.source if raw else self.text,
            "application/json" if raw else "text/plain",
            "screen",
            self.source_dialect if raw else DIALECT,
            truncation="none" if is_whole else "recorder",
            attachments=pictures,
        )

    def node(self, name: str, box: Box | None) -> int | None:
        """Return the control of that name in that box, else the only one of that name; None if none or several fit."""
        nodes = list(enumerate(self.tree.nodes, 1))
        if box is not None:
            in_box = [number for number, node in nodes if node.bounds == box]
            named = [number for number in in_box if self.tree.nodes[number - 1].name == name]
            if in_box or not name:
                return next(iter(named or in_box[-1:]), None)
            return self.node_at(((box[0] + box[2]) / 2, (box[1] + box[3]) / 2), name)
        alike = [number for number, node in nodes if name and node.name == name]
        return alike[0] if len(alike) == 1 else None

    def node_at(self, point: tuple[float, float], name: str) -> int | None:
        """Return the smallest node of that name at the point, or the control around it; else the only such node.

        Args:
            point: position of the pointer.
            name: name of the target as stated by the recorder; if empty, any control matches.
        """
        holders = [
            (_area(node), -number, number)
            for number, node in enumerate(self.tree.nodes, 1)
            if node.holds(*point) and (not name or node.name == name)
        ]
        if not holders:
            return self.node(name, None)
        return control_around(min(holders)[2] - 1, self.tree.nodes, self.tree.depths) + 1


def _area(node: Node) -> int:
    left, top, right, bottom = node.bounds or (0, 0, 0, 0)
    return (right - left) * (bottom - top)


def read_window(data: bytes, uri: str, member: str) -> Window:
    """Read the window of a file of UFO's.

    Raises:
        ParseError: the file is no JSON document; `no_nodes`: it is no tree of controls; `nested_too_deeply`.
    """
    return window_of(document_in(data, uri, member), data.decode("utf-8", "replace"), UFO, uri, member)


def window_of(root: Any, source: str, spelling: Spelling, uri: str, member: str, offset: int = 0) -> Window:
    """Build the window of a tree of controls.

    Args:
        root: its topmost control.
        uri, member, offset: its location, for errors.

    Raises:
        ParseError: `no_nodes`: it is no tree of controls; `nested_too_deeply`.
    """
    nodes: list[Node] = []
    depths: list[int] = []
    has_places = any(_box(control, spelling) is not None for control, _ in _controls(root, spelling))
    shown: dict[int, int] = {}
    for control, depth in _controls(root, spelling):
        inside = shown.get(depth - 1, 0)
        node = _node(control, spelling, is_top=not nodes, has_places=has_places)
        if node is not None:
            if inside >= MAX_DEPTH:
                detail = f"more than {MAX_DEPTH} levels of controls"
                raise ParseError(uri, offset, "nested_too_deeply", detail, member)
            nodes.append(node)
            depths.append(inside)
        shown[depth] = inside + (node is not None)
    if not nodes:
        detail = f"wanted a tree of controls with a {spelling.kind}"
        raise ParseError(uri, offset, "no_nodes", detail, member, source[:512].encode("utf-8", "replace"))
    tree = Tree(*fold(nodes, depths))
    return Window(tree, tree.text, source, spelling.dialect)


def _controls(root: Any, spelling: Spelling) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield each control in document order with the number of controls around it."""
    stack: list[tuple[Any, int]] = [(root, 0)]
    while stack:
        control, depth = stack.pop()
        if isinstance(control, dict) and isinstance(control.get(spelling.kind), str):
            yield control, depth
            children = control.get(spelling.children)
            if isinstance(children, list):
                stack += [(child, depth + 1) for child in reversed(children)]


def _node(control: dict[str, Any], spelling: Spelling, *, is_top: bool, has_places: bool) -> Node | None:
    """Return the node of a control; None if it only lays out others, or has no box while others have theirs."""
    name, ident, kind = control.get(spelling.name), control.get(spelling.ident), control[spelling.kind]
    name = clean(name) if isinstance(name, str) else ""
    role = "window" if is_top else role_of_control(kind)
    if role == "group" and not name:
        return None
    box = _box(control, spelling)
    if box is None and has_places and not is_top and any(key in control for key in spelling.boxes):
        return None
    return Node(role, name, "", "", (), lasting(clean(ident)) if isinstance(ident, str) else "", box)


def _box(control: dict[str, Any], spelling: Spelling) -> Box | None:
    return next((box for key in spelling.boxes if (box := box_of(control.get(key))) is not None), None)


def role_of_control(kind: str) -> str:
    """Return the role for UI Automation's word for a control, such as `button` for `Button` or `ButtonControl`."""
    kind = kind.removesuffix("Control")
    # In UI Automation, Text cannot be edited; in other toolkits the word means a field.
    return "text" if kind == "Text" else role_of(kind)


def box_of(value: Any) -> Box | None:
    """Return the box of an object with its four sides; None if a side is missing, or the box has no area."""
    if not isinstance(value, dict):
        return None
    sides: list[Any] = [value.get(side) for side in _SIDES]
    for side_value in sides:
        if type(side_value) is not int or not -_FARTHEST <= side_value <= _FARTHEST:
            sides = [
                round(side_value)
                for side_value in sides
                if isinstance(side_value, int | float) and abs(side_value) <= _FARTHEST
            ]
            break
    if len(sides) != 4:
        return None
    left, top, right, bottom = sides
    return (left, top, right, bottom) if left < right and top < bottom else None
