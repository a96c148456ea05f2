r"""Screens from accessibility dumps in OSWorld's XML dialect, as trees of `connectors.screens.tree`.

In the dialect (`desktop_env/server/main.py` of OSWorld) each widget is an element, named by its role. The last word of
an attribute's namespace states the kind of the attribute: `…/ns/state` (`st:showing="true"`), `…/ns/component`
(`cp:screencoord="(x, y)"`, `cp:size="(w, h)"`), and similarly `value`, `attributes`, `action`, `class` and `role`. The
word before it states the system: ubuntu (AT-SPI), windows (UI Automation), macos (AX). Dumps of 2024 and before have
`uri:deskat:state.at-spi.gnome.org` and similar namespaces instead. The content of a widget is the element's text.

Rules for lines:

- On Ubuntu, only an element with both `st:showing` and `st:visible` gets a line; on Windows, any without
  `st:visible="false"`; AX has no such state. An element that is not shown has no line, but its children may have one.
- An element without area, or entirely left of or above the screen, gets no line.
- An element that only lays out others gets no line: a panel without name, text or state. Neither does a text that is
  empty or only repeats its container (`folding`).
- The children of an `<application>` are the windows, described by its name.

GTK 4 states for no widget in a window that it is showing, only that it is visible. Such a window has the state
`content_unknown`, since the dump does not state its visible content. If it is the active window, or if none is active,
the observation is marked as cut by the recorder.

OSWorld makes a dump with several threads, so the order of windows, and on Windows and macOS that of siblings, varies by
chance. They are sorted, so that equal screens have equal text: the active window comes first and the others are sorted
by the name of their program; siblings on Windows and macOS are sorted from top to bottom and left to right.

lxml parses the XML without expanding entities (a document type is refused), without network access and without huge
trees.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from lxml import etree

from trajmill.connectors.desktop.dump_xml import Branch, Dialect, DoctypeError, Reader, strip_declaration
from trajmill.connectors.desktop.element import FARTHEST, clean, kind_of
from trajmill.connectors.desktop.folding import control_around, fold
from trajmill.connectors.desktop.widgets import HOLDING, MEASURING, SCROLLING, role_of
from trajmill.connectors.reading.values import BOM, json_value
from trajmill.connectors.screens.tree import DIALECT, MAX_DEPTH, MAX_TAGS, Node, Tree
from trajmill.schemas import Attachment, Observation, ParseError

RAW_DIALECT: Final = "osworld-a11y"
"""Dialect of an observation that keeps the dump's own XML."""

MAX_BYTES: Final = 64 << 20
"""Largest dump in bytes; larger ones are refused. The largest real dumps, of spreadsheets, have some megabytes."""

_UNKNOWN: Final = "content_unknown"
_CONTAINERS: Final = frozenset({"desktop-frame", "desktop", "root"})

NAMESPACES: Final = re.compile(
    rb"https://accessibility\.(?:ubuntu|windows|macos)\.example\.org/ns/|uri:deskat:[a-z.]+\.at-spi\.gnome\.org"
)
"""Namespaces that every dump of the dialect declares, for sniffing."""


@dataclass(frozen=True, slots=True)
class Screen:
    """A screen: its tree, the tree's text, the dump's XML, and whether the tree matches what a person saw.

    Attributes:
        tree: the windows, the active one first.
        text: text of the tree.
        xml: the dump as it was in the log, decoded.
        program: program of the active window, else of the first.
        is_cut: whether the active window is still loading (`st:busy`), or its content is unknown.
        order: ids of the top-level nodes, in the order in which a pointer meets them.
    """

    tree: Tree
    text: str
    xml: str
    program: str
    is_cut: bool
    order: tuple[range, ...] = field(repr=False)

    def observation(self, raw: bool, attachments: tuple[Attachment, ...] = (), settled: bool = True) -> Observation:
        """Return the screen as an observation.

        Args:
            raw: whether to keep the dump's XML instead of the compact tree.
            attachments: screenshots of the same moment.
            settled: whether the recorder waited for the screen to come to rest. If not, the observation is marked as
                cut by the recorder, since the effect of the action was still to come.
        """
        return Observation(
            self.xml if raw else self.text,
            media_type="application/xml" if raw else "text/plain",
            form="screen",
            dialect=RAW_DIALECT if raw else DIALECT,
            truncation="none" if settled and not self.is_cut else "recorder",
            attachments=attachments,
        )

    def at(self, x: float, y: float) -> int | None:
        """Return the id of the innermost control at the point; None if there is no window, or only the window.

        Open menus and other popups are above everything, followed by the windows in `order`. The smallest node of a
        window that contains the point is used, the later one of two equal ones. If it is part of a control, the control
        is used.
        """
        nodes = self.tree.nodes
        for places in self._layers():
            holders = [index for index in places if nodes[index].holds(x, y)]
            if holders:
                return self._smallest(holders)
        return None

    def wheel_target_at(self, x: float, y: float) -> int | None:
        """Return the id of the node that the wheel scrolls at the point: a list, not the row in it."""
        node = self.at(x, y)
        nodes, depths = self.tree.nodes, self.tree.depths
        if node is None or nodes[node - 1].role in HOLDING | MEASURING:
            return node
        depth = depths[node - 1] + 1
        for index in range(node - 1, -1, -1):
            if depths[index] < depth:
                depth = depths[index]
                if nodes[index].role in SCROLLING:
                    return index + 1
        return node

    def _layers(self) -> Iterator[range]:
        """Yield the ranges of nodes that form a layer: open popups, then windows."""
        nodes, depths = self.tree.nodes, self.tree.depths
        for index, node in enumerate(nodes):
            if node.role == "menu" and index + 1 < len(nodes) and depths[index + 1] > depths[index]:
                end = index + 1
                while end < len(nodes) and depths[end] > depths[index]:
                    end += 1
                yield range(index + 1, end)
        yield from self.order

    def _smallest(self, holders: list[int]) -> int | None:
        nodes = self.tree.nodes

        def size(index: int) -> tuple[int, int]:
            left, top, right, bottom = nodes[index].bounds or (0, 0, 0, 0)
            return (right - left) * (bottom - top), -index

        smallest = min(holders, key=size)
        return control_around(smallest, nodes, self.tree.depths) + 1 if self.tree.depths[smallest] > 0 else None


def read_screen(data: bytes, uri: str, member: str = "", offset: int = 0, reader: Reader | None = None) -> Screen:
    """Read the screen of a dump.

    Args:
        data: the whole dump: XML, or the JSON object of OSWorld's server with the XML under `AT`.
        reader: reader of the log's dumps; a new one if none is given.

    Raises:
        ParseError: `empty`, `too_large`, `not_utf8`, `doctype`, `truncated`, `bad_xml`, `nested_too_deeply` or
            `no_nodes` (nothing is shown, or it is XML of another kind).
    """
    if len(data) > MAX_BYTES:
        raise ParseError(uri, offset, "too_large", f"a dump of {len(data)} bytes, at most {MAX_BYTES}", member)
    xml = _decode(data, uri, member, offset)
    root, dialect = _parse(xml, reader or Reader(), uri, member, offset)
    walk = _Walk(dialect.system)
    walk.take(root)
    if not walk.tops:
        raise ParseError(uri, offset, "no_nodes", "the dump shows no widget", member, data[:512])
    return walk.screen(xml, uri, member, offset)


def _decode(data: bytes, uri: str, member: str, offset: int) -> str:
    """Decode the XML text of a dump, which may be wrapped in a JSON object."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = data.decode("utf-16", "replace")
    else:
        try:
            text = data.removeprefix(BOM).decode()
        except UnicodeDecodeError as error:
            reason = "truncated" if error.reason == "unexpected end of data" else "not_utf8"
            raise ParseError(uri, offset + error.start, reason, f"wanted UTF-8: {error.reason}", member) from None
    if text.lstrip()[:1] == "{":
        try:
            value = json_value(text)
        except ValueError as error:
            raise ParseError(uri, offset, "bad_json", f"wanted an object with AT: {error}", member) from None
        inner = value.get("AT") if isinstance(value, dict) else None
        text = inner if isinstance(inner, str) else ""
    if not text.strip():
        raise ParseError(uri, offset, "empty", "the dump holds nothing", member)
    return text


def _parse(xml: str, reader: Reader, uri: str, member: str, offset: int) -> tuple[Branch, Dialect]:
    if xml.count("<") > MAX_TAGS:
        raise ParseError(uri, offset, "too_many_nodes", f"more than {MAX_TAGS} tags", member, _excerpt(xml))
    try:
        return reader.read(xml)
    except DoctypeError:
        detail = "a dump declares no document type and no entities"
        raise ParseError(uri, offset, "doctype", detail, member, _excerpt(xml)) from None
    except etree.XMLSyntaxError as error:
        parser_message = str(error.msg)[:200]
        reason = (
            "nested_too_deeply"
            if "depth" in parser_message.lower()
            else "bad_xml"
            if _is_closed(strip_declaration(xml))
            else "truncated"
        )
        raise ParseError(uri, offset, reason, f"wanted XML: {parser_message}", member, _excerpt(xml)) from None


def _excerpt(xml: str) -> bytes:
    return xml[:512].encode("utf-8", "replace")


def _is_closed(body: str) -> bool:
    """Return True if the document ends with its root's closing tag; it is then damaged, not truncated."""
    root = re.match(r"\s*<([^\s/>]+)", body)
    return root is not None and (body.rstrip().endswith(f"</{root[1]}>") or body.count("<") == 1)


@dataclass(frozen=True, slots=True)
class _Top:
    """A window with all its descendants."""

    program: str
    nodes: list[Node]
    depths: list[int]

    def rank(self) -> tuple[bool, str]:
        return "active" not in self.nodes[0].states, self.program


class _Walk:
    """The windows of one dump."""

    def __init__(self, system: str) -> None:
        self.tops: list[_Top] = []
        self._system = system

    def take(self, root: Branch) -> None:
        """Process a document: a desktop, an application, or a single window."""
        tag, inner = root
        if tag.name in _CONTAINERS:
            for child in inner:
                if child[0].name == "application":
                    self._application(child)
                else:
                    self._window(child, "")
        elif tag.name == "application":
            self._application(root)
        elif any(kind_of(name)[0] == "state" for name in tag.names):
            self._window(root, "")

    def _application(self, branch: Branch) -> None:
        tag, inner = branch
        program = clean(tag.values[tag.names.index("name")] if "name" in tag.names else "")
        for child in inner:
            self._window(child, program)

    def _window(self, branch: Branch, program: str) -> None:
        """Add the window and its descendants, unless nothing of it is shown."""
        widget = branch[0].widget()
        if self._system == "macos" and not program:
            program = widget.name
        nodes, depths = self._inside(branch)
        second = program if program != widget.name else ""
        if widget.window is not None:
            is_unknown = not nodes and self._system == "ubuntu" and _holds_unshown(branch)
            states = (*widget.window.states, _UNKNOWN) if is_unknown else widget.window.states
            top = replace(widget.window, description=second, states=states)
        elif nodes:
            # The window itself is not shown, but something in it is: its line only names the program.
            top = Node("window", widget.name, "", second)
        else:
            return
        nodes, depths = fold(nodes, depths, top)
        self.tops.append(_Top(program, [top, *nodes], [0, *depths]))

    def _inside(self, branch: Branch) -> tuple[list[Node], list[int]]:
        """Return (nodes, depths) of all shown descendants of an element, without recursion, since dumps may be deep."""
        nodes: list[Node] = []
        depths: list[int] = []
        waiting = [(child, 1) for child in reversed(self._children(branch))]
        while waiting:
            child, depth = waiting.pop()
            node = child[0].node
            if node is not None:
                nodes.append(node)
                depths.append(depth)
                depth += 1
            if child[1]:
                waiting += [(below, depth) for below in reversed(self._children(child))]
        return nodes, depths

    def _children(self, branch: Branch) -> list[Branch]:
        children = branch[1]
        if self._system == "ubuntu" or len(children) < 2:
            return children
        return sorted(children, key=lambda child: child[0].widget().place)

    def screen(self, xml: str, uri: str, member: str, offset: int) -> Screen:
        """Return the screen after all windows are known."""
        self.tops.sort(key=_Top.rank)
        nodes = [node for top in self.tops for node in top.nodes]
        depths = [depth for top in self.tops for depth in top.depths]
        if max(depths) >= MAX_DEPTH:
            raise ParseError(uri, offset, "nested_too_deeply", f"more than {MAX_DEPTH} levels of nodes", member)
        tree = Tree(nodes, depths)
        windows = list(tree.windows())
        # Dumps do not state which of the other windows is on top; a smaller one hides less of the windows below.
        order = sorted(windows, key=lambda places: ("active" not in nodes[places[0]].states, _area(nodes[places[0]])))
        first = [
            node
            for node, depth_in_top in zip(self.tops[0].nodes, self.tops[0].depths, strict=True)
            if depth_in_top <= 2
        ]
        busy = any("busy" in node.states for node in first if node.role in ("window", "dialog", "document"))
        active = [top.nodes[0].states for top in self.tops if "active" in top.nodes[0].states]
        unknown = any(_UNKNOWN in states for states in active or [top.nodes[0].states for top in self.tops])
        return Screen(tree, tree.text, xml, self.tops[0].program or nodes[0].name, busy or unknown, tuple(order))


def _holds_unshown(branch: Branch) -> bool:
    """Return True if an AT-SPI window holds a control that states that it is visible but not showing."""
    waiting = list(branch[1])
    while waiting:
        tag, inner = waiting.pop()
        states = {name for kind, name in map(kind_of, tag.names) if kind == "state"}
        if role_of(tag.name) != "group" and "visible" in states and "showing" not in states:
            return True
        waiting += inner
    return False


def _area(node: Node) -> int:
    left, top, right, bottom = node.bounds or (0, 0, FARTHEST, FARTHEST)
    return (right - left) * (bottom - top)
