"""A state file of DroidBot, read into a screen that knows its views by DroidBot's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from connectors.android.view import FLAGS, Screen, Source, states_of, view_node, window_node
from connectors.tree import MAX_DEPTH, Box, Node, Tree
from schemas import ParseError

_NAMES: Final = {
    "password": ("is_password", "password"),
    "long-clickable": ("long_clickable", "long-clickable"),
    "visible-to-user": ("visible",),
}
_FLAG_NAMES: Final = tuple(_NAMES.get(flag, (flag,)) for flag in FLAGS)
_SET_UNLESS_TOLD: Final = frozenset({"enabled", "visible"})
_TRUE: Final = (True, "true", "True")


@dataclass(frozen=True, slots=True)
class State:
    """A state as saved. `name` is DroidBot's `state_str`, None in the layout of 2016.

    `places` has the node of each view by (view_str, box), 0 for a view without a line.
    """

    tag: str
    member: str
    name: str | None
    activity: str | None
    screen: Screen
    places: Mapping[tuple[str, Box | None], int]

    def node(self, view: Mapping[str, Any]) -> int | None:
        """The node of an event's view: 0 if it has no line, None if this state does not hold it."""
        name = view.get("view_str")
        return self.places.get((name, box_of(view.get("bounds")))) if isinstance(name, str) else None


def box_of(bounds: Any) -> Box | None:
    """The box of `[[left, top], [right, bottom]]`; None if it is not that."""
    if not isinstance(bounds, list) or len(bounds) != 2:
        return None
    values = [value for pair in bounds if isinstance(pair, list) for value in pair]
    if len(values) != 4:
        return None
    for value in values:
        if not isinstance(value, int) or not -(10**7) < value < 10**7:
            return None
    return int(values[0]), int(values[1]), int(values[2]), int(values[3])


def read_state(value: Any, tag: str, uri: str, member: str, source: Source | None = None) -> State:
    """The state of a parsed state file; `source` is the file's own text, if the screen is to be shown as that.

    Raises:
        ParseError: `bad_record` (no views in it), `no_nodes` (no view is the root of others), `too_deep`.
    """
    views = value.get("views") if isinstance(value, dict) else None
    if not isinstance(views, list) or not all(isinstance(view, dict) for view in views):
        raise ParseError(uri, 0, "bad_record", "wanted an object with a list of views", member)
    walk = _Walk(views)
    if not walk.nodes:
        raise ParseError(uri, 0, "no_nodes", "no view is the root of the others", member)
    if max(walk.depths) >= MAX_DEPTH:
        raise ParseError(uri, 0, "too_deep", f"more than {MAX_DEPTH} levels of nodes", member)
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
    """The tree of a list of views that name their children by `temp_id`; a view is visited once."""

    def __init__(self, views: list[dict[str, Any]]) -> None:
        self.nodes: list[Node] = []
        self.depths: list[int] = []
        self.places: dict[tuple[str, Box | None], int] = {}
        by_id = {_whole(view.get("temp_id", place), place): view for place, view in enumerate(views)}
        for key, view in list(by_id.items()):
            if view.get("parent", -1) in (-1, None):
                self._visit(key, by_id)

    def _visit(self, root: int, by_id: dict[int, dict[str, Any]]) -> None:
        waiting = [(root, 0)]
        while waiting:
            key, depth = waiting.pop()
            view = by_id.pop(key, None)
            if view is None:
                continue
            inner = self._take(view, depth)
            children = view.get("children")
            if isinstance(children, list):
                waiting.extend((child, inner) for child in reversed(children) if isinstance(child, int))

    def _take(self, view: dict[str, Any], depth: int) -> int:
        """Adds the view, if it has a line, and the window it opens, if it has no parent; the depth of its children."""
        box = box_of(view.get("bounds"))
        if depth == 0:
            self._add(window_node(_word(view, ("package",)), "", box), 0)
            depth = 1
        flags = _flags(view)
        node = None
        if flags[11]:
            kind, text, description, hint, resource = [_word(view, names) for names in _TEXT_NAMES]
            node = view_node(kind, text, description, hint, resource, box, states_of(flags[:11]))
        view_str = view.get("view_str")
        if isinstance(view_str, str):
            self.places.setdefault((view_str, box), len(self.nodes) + 1 if node is not None else 0)
        if node is None:
            return depth
        self._add(node, depth)
        return depth + 1

    def _add(self, node: Node, depth: int) -> None:
        self.nodes.append(node)
        self.depths.append(depth)


_TEXT_NAMES: Final = (
    ("class",),
    ("text",),
    ("content_description", "content-desc"),
    ("hint",),
    ("resource_id", "resource-id"),
)


def _word(view: Mapping[str, Any], names: tuple[str, ...]) -> str:
    for name in names:
        value = view.get(name)
        if isinstance(value, str):
            return value
    return ""


def _flags(view: Mapping[str, Any]) -> tuple[bool, ...]:
    """Whether each of `_FLAG_NAMES` is set; it is asked for so often that nothing is called for each of them."""
    found = []
    for names in _FLAG_NAMES:
        for name in names:
            if name in view:
                value = view[name]
                found.append(value is True or (value is not False and value in _TRUE))
                break
        else:
            found.append(names[0] in _SET_UNLESS_TOLD)
    return tuple(found)


def _whole(value: Any, otherwise: int) -> int:
    return value if isinstance(value, int) else otherwise
