"""DOMs of the snapshots in a Playwright trace, each rebuilt from its new nodes and from references to earlier ones.

A snapshot is one tree of a frame: a string is text, `["TAG", {attributes}, child…]` is an element, and `[[n, m]]` is
node m of the snapshot n before in the same frame. Nodes are counted in post-order, without references. A referenced
subtree is the same `DomNode` object, so a page that hardly changes costs hardly anything. Source of the format:
`packages/playwright-core/src/server/trace/recorder/snapshotterInjected.ts` and `snapshotRenderer.ts` of
microsoft/playwright.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from trajmill.connectors.reading.fields import brief
from trajmill.connectors.screens.dom import MAX_LEVELS, DomNode
from trajmill.connectors.screens.stylesheets import Sheet

MAX_NODES: Final = 1_000_000
"""Largest number of nodes of a snapshot, references followed. No page has more, but a few bytes of references can
represent any number.
"""

_TARGETS: Final = 256
"""Largest number of marked nodes kept per tree. Up to version 8 the marks of earlier calls stay on their nodes."""

_MARK: Final = "__playwright_"
_VALUE: Final = "__playwright_value_"
_TARGET: Final = "__playwright_target__"
_SHADOW: Final = "__playwright_shadow_root_"
_SHEET: Final = "__playwright_style_sheet_"
_POPOVER: Final = "__playwright_popover_open_"
_SOURCE: Final = "/snapshot/"
_FRAME: Final = "data-frame"
"""Attribute that replaces the address of an iframe, which a snapshot does not hold, by the id of its frame."""
_STATES: Final = {
    "__playwright_checked_": "checked",
    "__playwright_selected_": "selected",
}


class LostNodeError(ValueError):
    """Error for a snapshot that refers to a node that no earlier snapshot holds."""


Target: TypeAlias = tuple[DomNode, str]
"""A node marked as the target of a call, and its mark: the call's id, or the name of a snapshot of it."""

_Tree: TypeAlias = tuple[DomNode, int, int, tuple[Target, ...]]
"""A node, its numbers of nodes and levels, and the first nodes in it that are marked as targets."""


@dataclass(slots=True, eq=False)
class _Snapshot:
    """A snapshot as logged.

    Attributes:
        html: the logged tree.
        nodes: the sources of its own nodes in post-order; None until a later snapshot refers to one.
        built: the trees built so far, by `id` of their source.
    """

    html: Any
    nodes: list[Any] | None = None
    built: dict[int, _Tree] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class FrameDom:
    """The document of a frame in a snapshot.

    Attributes:
        document: the root, shared with other snapshots except for the documents in its iframes.
        targets: the nodes that the snapshot marks as targets of its own call or of earlier calls.
    """

    document: DomNode
    targets: list[Target]


class Frame:
    """The snapshots of one frame, in order."""

    def __init__(self) -> None:
        self._snapshots: list[_Snapshot] = []
        self._floor = 0
        self._documents: dict[DomNode, DomNode] = {}

    def add(self, html: Any) -> int:
        """Add the next snapshot and return its index."""
        self._snapshots.append(_Snapshot(html))
        return len(self._snapshots) - 1

    def forget(self) -> None:
        """Bar later snapshots from referring to earlier ones: references count back, and a snapshot may be lost."""
        self._floor = len(self._snapshots)

    def dom(self, number: int) -> FrameDom:
        """Return the document of the snapshot at that index.

        Raises:
            LostNodeError: the snapshot refers to a missing node, or is no tree.
            ValueError: the snapshot nests too deeply, or has too many nodes.
        """
        root, _, _, targets = self._built(number, self._snapshots[number].html)
        document = self._documents.get(root)
        if document is None:
            document = self._documents[root] = DomNode("#document", children=[root])
        return FrameDom(document, list(targets))

    def _built(self, number: int, html: Any) -> _Tree:
        """Build a tree of the snapshot at that index."""
        # An entry of the stack is an element whose children are still to come; the tree is built without recursion.
        done: _Tree | None = None
        stack = [_Open(number, None, [html].__iter__(), DomNode("#holder"))]
        while stack:
            top = stack[-1]
            if done is not None:
                top.take(done)
                done = None
            source = next(top.rest, _END)
            if source is not _END:
                begun = self._begin(top.place, source)
                if isinstance(begun, _Open):
                    if len(stack) > 2 * MAX_LEVELS:
                        raise ValueError(f"the DOM has more than {2 * MAX_LEVELS} levels")
                    stack.append(begun)
                elif begun is not None:
                    done = begun
                continue
            stack.pop()
            if not stack:
                if len(top.node.children) != 1:
                    raise LostNodeError("a snapshot is not one tree")
                return top.node.children[0], top.size, top.levels, top.targets
            done = top.node, top.size + 1, top.levels + 1, top.targets
            if top.size > MAX_NODES:
                raise ValueError(f"the DOM has more than {MAX_NODES} nodes")
            if top.levels > 2 * MAX_LEVELS:
                raise ValueError(f"the DOM has more than {2 * MAX_LEVELS} levels")
            if top.source is not None:
                self._snapshots[top.place].built[id(top.source)] = done
        raise LostNodeError("a snapshot is not one tree")

    def _begin(self, number: int, source: Any) -> _Open | _Tree | None:
        """Return a finished node, or an element whose children are still to come; None if the source is no node."""
        if isinstance(source, str):
            return DomNode("#text", text=source), 1, 1, ()
        if not isinstance(source, list) or not source:
            return None
        if isinstance(source[0], list):
            number, source = self._referred(number, source[0])
            if isinstance(source, str):
                return DomNode("#text", text=source), 1, 1, ()
        known = self._snapshots[number].built.get(id(source))
        if known is not None:
            return known
        if not isinstance(source[0], str):
            return None
        return _Open(number, source, iter(source[2:]), *_element(source))

    def _referred(self, number: int, reference: list[Any]) -> tuple[int, Any]:
        """Return the snapshot and the source of the node that a reference names."""
        if len(reference) == 2 and all(type(part) is int and part >= 0 for part in reference):
            target = number - reference[0]
            if target >= (self._floor if number >= self._floor else 0):
                nodes = self._nodes(target)
                if reference[1] < len(nodes):
                    return target, nodes[reference[1]]
        raise LostNodeError(f"a snapshot refers to node {brief(reference, 40)}, which is not there")

    def _nodes(self, number: int) -> list[Any]:
        """Return the sources of a snapshot's own nodes in post-order."""
        snapshot = self._snapshots[number]
        if snapshot.nodes is None:
            nodes: list[Any] = []
            # Parents first and last children first, reversed, is post-order.
            stack = [snapshot.html]
            while stack:
                source = stack.pop()
                if isinstance(source, str):
                    nodes.append(source)
                elif isinstance(source, list) and source and isinstance(source[0], str):
                    nodes.append(source)
                    stack.extend(source[2:])
            nodes.reverse()
            snapshot.nodes = nodes
        return snapshot.nodes


def _element(source: list[Any]) -> tuple[DomNode, str | None]:
    """Return (the node of an element without its content, its mark as a target or None)."""
    node, mark = DomNode(source[0].lower()), None
    marks_and_attributes = source[1] if len(source) > 1 and isinstance(source[1], dict) else {}
    is_marked = False
    for name, value in marks_and_attributes.items():
        if not isinstance(value, str):
            is_marked = is_marked or name.startswith(_MARK)
        elif not name.startswith(_MARK):
            node.attributes.setdefault(name.lower(), value)
        else:
            is_marked = True
            if name == "__playwright_dialog_open_":
                node.attributes["open"] = ""
            elif name == _TARGET:
                mark = value
            elif name in (_SHADOW, _SHEET):
                node.tag = "#shadow" if name == _SHADOW else "#comment"
                node.sheet = Sheet(value) if name == _SHEET else None
    if is_marked or node.tag in ("iframe", "frame"):
        _set_state(node, marks_and_attributes)
    return node, mark


def _set_state(node: DomNode, marks: dict[str, Any]) -> None:
    """Apply the state given by the marks to a node; its attributes give only the initial state of a field."""
    attributes = node.attributes
    for mark, name in _STATES.items():
        if mark in marks:
            attributes.pop(name, None)
            if marks[mark] == "true":
                attributes[name] = ""
    if _POPOVER in marks:
        attributes.pop("popover", None)
    if isinstance(marks.get(_VALUE), str):
        attributes["value"] = marks[_VALUE]
    if node.tag in ("iframe", "frame"):
        source = attributes.pop("src", "")
        if source.startswith(_SOURCE):
            attributes[_FRAME] = source.removeprefix(_SOURCE)


_END: Final = object()


class _Open:
    """An element under construction; `rest` yields the sources of the remaining children."""

    __slots__ = ("levels", "node", "place", "rest", "size", "source", "targets")

    def __init__(self, number: int, source: Any, rest: Any, node: DomNode, mark: str | None = None) -> None:
        self.place = number
        self.source = source
        self.rest = rest
        self.node = node
        self.size = 0
        self.levels = 0
        self.targets: tuple[Target, ...] = () if mark is None else ((node, mark),)

    def take(self, done: _Tree) -> None:
        """Add a child."""
        child, size, levels, targets = done
        if child.tag == "#shadow":
            self.node.shadow = child.children
        else:
            self.node.children.append(child)
        self.size += size
        self.levels = max(self.levels, levels)
        if targets and len(self.targets) < _TARGETS:
            self.targets = (self.targets + targets)[:_TARGETS]


def frame_of(node: DomNode) -> str:
    """Return the id of the frame in an iframe; empty if the node is no iframe, or shows nothing."""
    return node.attributes.get(_FRAME, "")


def iframes(document: DomNode) -> list[DomNode]:
    """Return the iframes of a document, including those in shadow roots."""
    return [node for node in nodes_under(document) if node.tag in ("iframe", "frame")]


def nodes_under(top: DomNode) -> list[DomNode]:
    """Return the node and all its descendants in document order, shadow roots first."""
    nodes = []
    stack = [top]
    while stack:
        current = stack.pop()
        nodes.append(current)
        stack.extend(reversed(current.children))
        stack.extend(reversed(current.shadow or ()))
    return nodes


def same_place(node: DomNode, before: DomNode, after: DomNode) -> DomNode | None:
    """Return the node of `before` where `node` is in `after`, if its kind is equal; else a unique node alike.

    A shared node matches itself. Kinds are equal if tag, id, name, type, role, href and aria-label are.
    """
    path = _path(after, node)
    match: DomNode | None = before
    for in_shadow, at in path if path is not None else [(False, -1)]:
        children = (
            (match.shadow or []) if in_shadow and match is not None else match.children if match is not None else []
        )
        match = children[at] if 0 <= at < len(children) else None
    if match is not None and _kind(match) == _kind(node):
        return match
    alike = [
        candidate
        for candidate in nodes_under(before)
        if candidate.tag == node.tag and _words(candidate) == _words(node)
    ]
    return alike[0] if len(alike) == 1 else None


def _path(top: DomNode, node: DomNode) -> list[tuple[bool, int]] | None:
    """Return (in the shadow root?, index among the children) for each step from the top to the node."""
    stack: list[tuple[DomNode, tuple[Any, ...]]] = [(top, ())]
    while stack:
        current, way = stack.pop()
        if current is node:
            path: list[tuple[bool, int]] = []
            while way:
                way, step = way
                path.append(step)
            return path[::-1]
        for in_shadow, children in ((False, current.children), (True, current.shadow or ())):
            stack.extend([(child, (way, (in_shadow, at))) for at, child in enumerate(children)])
    return None


def _kind(node: DomNode) -> tuple[str | None, ...]:
    return (node.tag, *(node.attributes.get(name) for name in ("id", "name", "type", "role", "href", "aria-label")))


def _words(node: DomNode) -> tuple[Any, ...]:
    return _kind(node), "".join([inner.text for inner in nodes_under(node) if inner.tag == "#text"])
