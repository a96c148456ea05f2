"""State files of DroidBot as screens whose views are found by DroidBot's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from trajmill.connectors.android.view import (
    FLAGS,
    Screen,
    Source,
    drawn_box,
    is_outside,
    states_of,
    view_node,
    window_node,
)
from trajmill.connectors.screens.tree import MAX_DEPTH, Box, Node, Tree
from trajmill.schemas import ParseError

_TEXTS: Final = (
    ("class",),
    ("text",),
    ("content_description", "content-desc"),
    ("hint",),
    ("resource_id", "resource-id"),
)
_NAMES: Final = {
    "password": ("is_password", "password"),
    "long-clickable": ("long_clickable", "long-clickable"),
    "visible-to-user": ("visible",),
}
_FLAGS: Final = tuple([_NAMES.get(flag, (flag,)) for flag in FLAGS])
_VISIBLE: Final = FLAGS.index("visible-to-user")
_SET_UNLESS_TOLD: Final = frozenset({"enabled", "visible"})
_TRUE: Final = (True, "true", "True")


@dataclass(frozen=True, slots=True)
class State:
    """A state as saved. `name` is DroidBot's `state_str`, None in the layout of 2016.

    `places` holds the number of each view's node by (view_str, box), 0 for a view without a line.
    """

    tag: str
    member: str
    name: str | None
    activity: str | None
    screen: Screen
    places: Mapping[tuple[str, Box | None], int]

    @property
    def package(self) -> str:
        """The package of its activity, else of its screen."""
        return (self.activity or self.screen.package).partition("/")[0]

    def node(self, view: Mapping[str, Any]) -> int | None:
        """Return the node of an event's view: 0 if it has no line, None if this state does not hold it."""
        name = view.get("view_str")
        return self.places.get((name, box_of(view.get("bounds")))) if isinstance(name, str) else None


def box_of(bounds: Any) -> Box | None:
    """Parse the box `[[left, top], [right, bottom]]`; None for any other value."""
    if not isinstance(bounds, list) or len(bounds) != 2:
        return None
    first, last = bounds
    if not isinstance(first, list) or not isinstance(last, list) or len(first) != 2 or len(last) != 2:
        return None
    left, top = first
    right, bottom = last
    for value in (left, top, right, bottom):
        if type(value) is not int or not -(10**7) < value < 10**7:
            return None
    return left, top, right, bottom


def read_state(value: Any, tag: str, uri: str, member: str, source: Source | None = None) -> State:
    """Read the state of a parsed state file; `source` is the file's own text, if the screen is to show it.

    Raises:
        ParseError: `bad_record` (no views in it), `no_nodes` (no view is the root of others), `nested_too_deeply`.
    """
    views = value.get("views") if isinstance(value, dict) else None
    if not isinstance(views, list) or not all(isinstance(view, dict) for view in views):
        raise ParseError(uri, 0, "bad_record", "wanted an object with a list of views", member)
    walk = _Walk(views)
    if not walk.nodes:
        raise ParseError(uri, 0, "no_nodes", "no view is the root of the others", member)
    if max(walk.depths) >= MAX_DEPTH:
        raise ParseError(uri, 0, "nested_too_deeply", f"more than {MAX_DEPTH} levels of nodes", member)
    name, activity = value.get("state_str"), value.get("foreground_activity")
    tree = Tree(walk.nodes, walk.depths)
    return State(
        tag,
        member,
        name if isinstance(name, str) and name else None,
        activity if isinstance(activity, str) and activity else None,
        Screen(tree, tree.text, tree.nodes[0].name, source=source),
        walk.places,
    )


class _Walk:
    """The tree of a list of views that name their children by `temp_id`; each view is visited once."""

    def __init__(self, views: list[dict[str, Any]]) -> None:
        self.nodes: list[Node] = []
        self.depths: list[int] = []
        self.places: dict[tuple[str, Box | None], int] = {}
        by_id: dict[int, dict[str, Any]] = {}
        for index, view in enumerate(views):
            key = view.get("temp_id")
            by_id[key if isinstance(key, int) else index] = view
        for root in [key for key, view in by_id.items() if view.get("parent", -1) in (-1, None)]:
            self._visit(root, by_id)

    def _visit(self, root: int, by_id: dict[int, dict[str, Any]]) -> None:
        nodes, depths, places = self.nodes, self.depths, self.places
        waiting = [(root, 0)]
        drawn: Box | None = None
        while waiting:
            key, depth = waiting.pop()
            view = by_id.pop(key, None)
            if view is None:
                continue
            node, box, name, children, package = _read_view(view)
            if depth == 0:
                nodes.append(window_node(package if isinstance(package, str) else "", "", box))
                depths.append(0)
                depth, drawn = 1, drawn_box(None, box)
            if is_outside(box, drawn):
                node = None
            if isinstance(name, str):
                places.setdefault((name, box), len(nodes) + 1 if node is not None else 0)
            if node is not None:
                nodes.append(node)
                depths.append(depth)
                depth += 1
            if children and isinstance(children, list):
                waiting.extend([(child, depth) for child in reversed(children) if isinstance(child, int)])


def _read_view(view: dict[str, Any]) -> tuple[Node | None, Box | None, Any, Any, Any]:
    """Read a view: its node (None if it has no line), its box, and its `view_str`, `children` and `package`."""
    box = box_of(view.get("bounds"))
    kind, text, description, hint, resource = [_text(view, names) for names in _TEXTS]
    flags = tuple([_flag(view, names) for names in _FLAGS])
    node = view_node(kind, text, description, hint, resource, box, states_of(flags)) if flags[_VISIBLE] else None
    return node, box, view.get("view_str"), view.get("children"), view.get("package")


def _text(view: dict[str, Any], names: tuple[str, ...]) -> str:
    for name in names:
        if name in view:
            entry = view[name]
            return entry if isinstance(entry, str) else ""
    return ""


def _flag(view: dict[str, Any], names: tuple[str, ...]) -> bool:
    """Return True if a flag is set; a view is enabled and visible by default."""
    for name in names:
        if name in view:
            return view[name] in _TRUE
    return names[0] in _SET_UNLESS_TOLD
