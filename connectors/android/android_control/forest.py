"""A serialized accessibility forest (android_env's `AndroidAccessibilityForest`) as a screen.

A window is a node of depth 0, the topmost first: a window with a greater layer is nearer to the user. Its views follow
from the root down, in the order in which their parents name them. A view that the user does not see has no line, but
its descendants may have one. This module does not read files.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.json_format import MessageToJson
from google.protobuf.message import DecodeError

from trajmill.connectors.android.protos import messages
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

_APPLICATION: Final = 1
"""Type of a window that an app has drawn, as opposed to a keyboard or the system's bars."""

_FLAG_FIELDS: Final = tuple("is_" + flag.replace("-", "_") for flag in FLAGS)


def read_forest(data: bytes, uri: str, offset: int, is_raw: bool = False) -> Screen:
    """Read the screen of a forest. Its package is that of the focused window, else of the active one, else of an app.

    Args:
        data: the serialized message.
        is_raw: whether the screen is shown as protobuf's own JSON form of the message.

    Raises:
        ParseError: `bad_forest` (no such message), `no_nodes`, `nested_too_deeply`.
    """
    try:
        forest = messages().Forest.FromString(data)
    except DecodeError as error:
        detail = f"wanted an AndroidAccessibilityForest: {error}"
        raise ParseError(uri, offset, "bad_forest", detail, excerpt=data[:512]) from None
    nodes: list[Node] = []
    depths: list[int] = []
    packages: list[tuple[bool, bool, bool, str]] = []
    for window in sorted(forest.windows, key=lambda window: -window.layer):
        views = {view.unique_id: view for view in window.tree.nodes}
        roots = _roots(window.tree.nodes)
        package = next((view.package_name for view in roots if view.package_name), "")
        is_app = window.window_type == _APPLICATION
        packages.append((window.is_focused, window.is_active, is_app, package))
        states = ("focused",) if window.is_focused else ()
        own, first = _box(window), _box(roots[0]) if roots else None
        nodes.append(window_node(package, window.title, own or first, states))
        depths.append(0)
        for root in roots:
            _walk(root.unique_id, views, drawn_box(own, first), nodes, depths)
    if not nodes:
        raise ParseError(uri, offset, "no_nodes", "the forest holds no window")
    if max(depths) >= MAX_DEPTH:
        raise ParseError(uri, offset, "nested_too_deeply", f"more than {MAX_DEPTH} levels of nodes")
    # Of equal windows the topmost: max keeps the first.
    package = max(packages, key=lambda window_facts: window_facts[:3])[3]
    tree = Tree(nodes, depths)
    source = None
    if is_raw:
        text = MessageToJson(forest, preserving_proto_field_name=True, indent=None, ensure_ascii=False)
        source = Source(text, "application/json", "android_accessibility_forest")
    return Screen(tree, tree.text, package, source=source)


def _roots(views: Any) -> list[Any]:
    """Return the view of id 0, which is the root in android_env, and any other view that has no parent."""
    children = {child for view in views for child in view.child_ids}
    return [view for view in views if view.unique_id == 0 or view.unique_id not in children]


def _walk(root: int, views: dict[int, Any], drawn: Box | None, nodes: list[Node], depths: list[int]) -> None:
    """Add the view and all its descendants within `drawn`, each once, even if their ids form cycles."""
    waiting = [(root, 1)]
    while waiting:
        key, depth = waiting.pop()
        view = views.pop(key, None)
        if view is None:
            continue
        node = _node(view) if view.is_visible_to_user else None
        if node is not None and not is_outside(node.bounds, drawn):
            nodes.append(node)
            depths.append(depth)
            depth += 1
        waiting.extend((child, depth) for child in reversed(view.child_ids))


def _node(view: Any) -> Node | None:
    box = _box(view)
    if box is None and view.HasField("bounds_in_screen"):
        return None
    flags = tuple(getattr(view, field) for field in _FLAG_FIELDS[:11])
    return view_node(
        view.class_name,
        view.text,
        view.content_description,
        view.hint_text,
        view.view_id_resource_name,
        box,
        states_of(flags),
    )


def _box(shown: Any) -> Box | None:
    """Return the box of a window or view; None if it has none, or the default, an empty box at the origin.

    Some views that were never laid out have boxes far off the screen; these give None too.
    """
    rect = shown.bounds_in_screen
    box = (rect.left, rect.top, rect.right, rect.bottom)
    return box if any(box) and max(map(abs, box)) < 10**7 else None
