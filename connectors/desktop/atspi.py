r"""The screen that an accessibility dump in OSWorld's XML dialect shows, as a tree of `connectors.tree`.

The dialect (`desktop_env/server/main.py` of OSWorld) has an element a widget, named by its role, and attributes in
namespaces whose last word says of what kind they are: `…/ns/state` (`st:showing="true"`), `…/ns/component`
(`cp:screencoord="(x, y)"`, `cp:size="(w, h)"`), and likewise `value`, `attributes`, `action`, `class` and `role`. The
word before tells the system: ubuntu (AT-SPI), windows (UI Automation), macos (AX). Dumps of 2024 and before have
`uri:deskat:state.at-spi.gnome.org` and the like instead. What a widget holds is the element's text.

What becomes a line:

- On Ubuntu only what has both `st:showing` and `st:visible`; on Windows what is not `st:visible="false"`; AX has no
  such state. What is not shown leaves no line, but what is in it may.
- Nothing without area, and nothing wholly left of or above the screen.
- Not what only lays out others: a panel without name, text or state is passed over.
- The children of an `<application>` are the windows, described by its name.

Two things in such a dump are a race of the threads that made it, and are put in order so that equal screens have equal
text: the active window comes first and the others by the name of their program; on Windows and macOS, where the order
of siblings itself is a race, siblings stand from top to bottom and left to right.

The XML is read by lxml with entities never expanded (a document type is refused), no network and no huge trees.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from lxml import etree

from connectors.desktop.widgets import HOLDING, MEASURING, POPUPS, role_of, states_of
from connectors.records import json_value
from connectors.tree import DIALECT, MAX_DEPTH, Box, Node, Tree
from schemas import Attachment, Observation, ParseError

RAW_DIALECT: Final = "osworld-a11y"
"""Dialect of an observation that keeps the dump's own XML."""

MAX_BYTES: Final = 64 << 20
"""A larger dump is refused; the largest real ones, of spreadsheets, have some megabytes."""

_SYSTEM: Final = re.compile(r"//accessibility\.(ubuntu|windows|macos)\.example\.org/ns/([a-z/]+)")
_DESKAT: Final = re.compile(r"uri:deskat:([a-z.]+?)\.at-spi\.gnome\.org")
_PAIR: Final = re.compile(r"\(\s*(-?[0-9]{1,10})(?:\.[0-9]*)?\s*,\s*(-?[0-9]{1,10})(?:\.[0-9]*)?\s*\)")
_DECLARED: Final = re.compile(r"\s*<\?xml[^>]*\?>")
_PLACEHOLDERS: Final = {0xFFFC: None, 0xFFFD: None}
_NUMBER: Final = re.compile(r"-?[0-9]{1,15}\.0*")
_CLICKS: Final = frozenset({"click", "press", "activate", "jump", "toggle", "open", "select"})
_CONTAINERS: Final = frozenset({"desktop-frame", "desktop", "root"})
_FARTHEST: Final = 10**6
"""Coordinates beyond this stand for widgets that are nowhere (AT-SPI gives -2147483648)."""

NAMESPACES: Final = re.compile(
    rb"https://accessibility\.(?:ubuntu|windows|macos)\.example\.org/ns/|uri:deskat:[a-z.]+\.at-spi\.gnome\.org"
)
"""What every dump of the dialect holds, for sniffing."""


@dataclass(frozen=True, slots=True)
class Screen:
    """A screen: its tree, the tree's text, the dump's XML, and whether it was still changing.

    Attributes:
        tree: the windows, the active one first.
        text: of the tree.
        xml: the dump as it stood in the log, decoded.
        program: of the active window, else of the first.
        busy: the active window says that it is still loading (`st:busy`).
        order: ids of the top-level nodes, from the one a pointer meets first to the last.
    """

    tree: Tree
    text: str
    xml: str
    program: str
    busy: bool
    order: tuple[range, ...] = field(repr=False)

    def observation(self, raw: bool, attachments: tuple[Attachment, ...] = (), settled: bool = True) -> Observation:
        """The screen as an observation.

        Args:
            raw: keep the dump's XML instead of the compact tree.
            attachments: screenshots of the same moment.
            settled: whether the recorder waited for the screen to come to rest. A screen that had not is marked as cut
                by the recorder: what the action led to was still to come.
        """
        return Observation(
            self.xml if raw else self.text,
            media_type="application/xml" if raw else "text/plain",
            form="screen",
            dialect=RAW_DIALECT if raw else DIALECT,
            truncation="none" if settled and not self.busy else "recorder",
            attachments=attachments,
        )

    def at(self, x: float, y: float) -> int | None:
        """The id of the innermost node at the point; None if no window is there, or the window alone.

        Menus and other popups that are open lie over everything, then windows count in `order`. Of the nodes of a
        window that hold the point the smallest counts, the later one where two are equal.
        """
        nodes = self.tree.nodes
        for places in self._layers():
            held = [place for place in places if nodes[place].holds(x, y)]
            if held:
                return self._smallest(held)
        return None

    def _layers(self) -> Iterator[range]:
        """Places of nodes that lie together: open popups, then windows."""
        nodes, depths = self.tree.nodes, self.tree.depths
        for place, node in enumerate(nodes):
            if node.role == "menu" and place + 1 < len(nodes) and depths[place + 1] > depths[place]:
                end = place + 1
                while end < len(nodes) and depths[end] > depths[place]:
                    end += 1
                yield range(place + 1, end)
        yield from self.order

    def _smallest(self, held: list[int]) -> int | None:
        nodes = self.tree.nodes

        def size(place: int) -> tuple[int, int]:
            left, top, right, bottom = nodes[place].bounds or (0, 0, 0, 0)
            return (right - left) * (bottom - top), -place

        place = min(held, key=size)
        return place + 1 if self.tree.depths[place] > 0 else None


def read_screen(data: bytes, uri: str, member: str = "", offset: int = 0) -> Screen:
    """The screen that a dump shows.

    Args:
        data: the whole dump: XML, or the JSON object with the XML under `AT` that OSWorld's server answers with.
        uri: the input, for errors.
        member: its file, likewise.
        offset: where the dump begins in the member.

    Raises:
        ParseError: `empty`, `too_large`, `bad_encoding`, `doctype`, `truncated`, `bad_xml`, `too_deep`, `not_atspi` (an
            XML document of another kind) or `no_nodes` (nothing is shown).
    """
    if len(data) > MAX_BYTES:
        raise ParseError(uri, offset, "too_large", f"a dump of {len(data)} bytes, at most {MAX_BYTES}", member)
    xml = _decoded(data, uri, member, offset)
    root = _parsed(xml, uri, member, offset)
    walk = _Walk(_system_of(root))
    walk.take(root)
    if not walk.tops:
        raise ParseError(uri, offset, "no_nodes", "the dump shows no widget", member, data[:512])
    return walk.screen(xml, uri, member, offset)


def _decoded(data: bytes, uri: str, member: str, offset: int) -> str:
    """The XML text of a dump, out of its JSON object if it stands in one."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = data.decode("utf-16", "replace")
    else:
        try:
            text = data.removeprefix(b"\xef\xbb\xbf").decode()
        except UnicodeDecodeError as error:
            reason = "truncated" if error.reason == "unexpected end of data" else "bad_encoding"
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


def _parsed(xml: str, uri: str, member: str, offset: int) -> etree._Element:
    excerpt = xml[:512].encode("utf-8", "replace")
    if "<!DOCTYPE" in xml or "<!ENTITY" in xml:
        detail = "a dump declares no document type and no entities"
        raise ParseError(uri, offset, "doctype", detail, member, excerpt)
    body = _DECLARED.sub("", xml, count=1) if xml.lstrip().startswith("<?xml") else xml
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, remove_comments=True, remove_pis=True
    )
    try:
        return etree.fromstring(body.encode("utf-8", "replace"), parser)
    except etree.XMLSyntaxError as error:
        told = str(error.msg)[:200]
        reason = "too_deep" if "depth" in told.lower() else "bad_xml" if _is_closed(body) else "truncated"
        raise ParseError(uri, offset, reason, f"wanted XML: {told}", member, excerpt) from None


def _is_closed(body: str) -> bool:
    """Whether the document ends with the tag that closes its root, so that a fault in it is no cut."""
    root = re.match(r"\s*<([^\s/>]+)", body)
    return root is not None and (body.rstrip().endswith(f"</{root[1]}>") or body.count("<") == 1)


def _system_of(root: etree._Element) -> str:
    """ubuntu, windows or macos, by the namespaces that the root declares or the first attributes have."""
    for uri in root.nsmap.values():
        if found := _SYSTEM.search(uri or ""):
            return found[1]
    return "ubuntu"


@lru_cache(maxsize=4096)
def _kind_of(name: str) -> tuple[str, str]:
    """(kind, name) of an attribute as lxml writes it: (`state`, `showing`); the kind is empty without a namespace."""
    if not name.startswith("{"):
        return "", name
    uri, _, local = name[1:].partition("}")
    if found := _SYSTEM.search(uri):
        return found[2], local
    if found := _DESKAT.fullmatch(uri):
        return found[1], local
    return "other", local


@dataclass(slots=True)
class _Element:
    """What one element says, sorted by kind of attribute."""

    word: str
    name: str
    text: str
    states: dict[str, bool]
    value: str
    attributes: dict[str, str]
    clickable: bool
    box: Box | None
    nowhere: bool


def _read(element: etree._Element, system: str) -> _Element:
    word = str(element.tag)
    name = value = ""
    states: dict[str, bool] = {}
    attributes: dict[str, str] = {}
    clickable = False
    placed: dict[str, str] = {}
    for key, told in element.attrib.items():
        kind, local = _kind_of(str(key))
        text = str(told)
        if kind == "state":
            states[_state_word(local)] = text.lower() in ("true", "1")
        elif kind == "component":
            placed[local] = text.strip()
        elif kind == "value" and local in ("value", "AXValue"):
            value = text
        elif kind == "action":
            clickable = clickable or local.rpartition("_")[0].lower() in _CLICKS
        elif not kind and local == "name":
            name = text
        elif kind in ("attributes", "class", "role", "id", "other"):
            attributes.setdefault(local, text)
    box, nowhere = _box(_pair(placed.get("screencoord", "")), _pair(placed.get("size", "")))
    if system == "ubuntu":
        # AT-SPI lists the states that are set and no others.
        states["enabled"] = states.get("enabled", False) or states.get("sensitive", False)
        states.setdefault("editable", False)
    return _Element(
        word=_own_word(word, attributes, system),
        name=_clean(name or attributes.get("AXTitle", "") or attributes.get("AXDescription", "")),
        text=(element.text or "").translate(_PLACEHOLDERS),
        states=states,
        value=value,
        attributes=attributes,
        clickable=clickable,
        box=box,
        nowhere=nowhere,
    )


@lru_cache(maxsize=1024)
def _state_word(local: str) -> str:
    short = local.removeprefix("AX")
    return {"keyboard_focused": "focused", "has_keyboard_focus": "focused"}.get(short, short).lower()


def _own_word(tag: str, attributes: dict[str, str], system: str) -> str:
    """The word that names the widget: the tag, or what says it better."""
    if system == "windows":
        # The tag is a class name of Win32, empty or arbitrary in newer toolkits.
        return attributes.get("friendly_class_name") or tag
    return attributes.get("AXRole") or tag


def _clean(text: str) -> str:
    return text.translate(_PLACEHOLDERS).strip() if text else ""


def _pair(text: str) -> tuple[int, int] | None:
    found = _PAIR.fullmatch(text)
    return (int(found[1]), int(found[2])) if found else None


def _box(place: tuple[int, int] | None, size: tuple[int, int] | None) -> tuple[Box | None, bool]:
    """(box, whether the widget is nowhere): without area, off the screen's corner, or at no place."""
    if place is None or size is None:
        return None, False
    left, top, right, bottom = place[0], place[1], place[0] + size[0], place[1] + size[1]
    nowhere = size[0] <= 0 or size[1] <= 0 or right <= 0 or bottom <= 0
    if nowhere or max(map(abs, (left, top, right, bottom))) > _FARTHEST:
        return None, True
    return (left, top, right, bottom), False


@dataclass(slots=True)
class _Top:
    """A window with all that is under it."""

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
        self._known = False

    def take(self, root: etree._Element) -> None:
        """Takes in a document: a desktop, an application, or a single window."""
        if str(root.tag) in _CONTAINERS:
            for child in root:
                if str(child.tag) == "application":
                    self._application(child)
                else:
                    self._window(child, "")
        elif str(root.tag) == "application":
            self._application(root)
        elif any(_kind_of(str(key))[0] == "state" for key in root.attrib):
            self._window(root, "")

    def _application(self, element: etree._Element) -> None:
        program = _clean(str(element.get("name") or ""))
        for child in element:
            self._window(child, program)

    def _window(self, element: etree._Element, program: str) -> None:
        """Adds the window and what it holds, unless nothing of it is shown."""
        found = _read(element, self._system)
        if self._system == "macos" and not program:
            program = found.name
        nodes: list[Node] = []
        depths: list[int] = []
        if self._is_shown(found):
            role = role_of(found.word)
            role = role if role in POPUPS or role == "dialog" else "window"
            second = program if program != found.name else ""
            states = states_of(role, found.word, found.states)
            nodes.append(Node(role, found.name, "", second, states, "", found.box))
            depths.append(0)
        self._descend(element, nodes, depths)
        if nodes and not depths[0]:
            self.tops.append(_Top(program, nodes, depths))
        elif nodes:
            # What is shown of a window that is not: its own line says no more than whose it is.
            self.tops.append(_Top(program, [Node("window", found.name, "", program), *nodes], [0, *depths]))

    def _descend(self, element: etree._Element, nodes: list[Node], depths: list[int]) -> None:
        """Adds all that is shown below the element, in document order; without recursion, since dumps may be deep."""
        waiting = [(child, 1) for child in reversed(self._children(element))]
        while waiting:
            child, depth = waiting.pop()
            found = _read(child, self._system)
            node = _node(found) if self._is_shown(found) else None
            if node is not None:
                nodes.append(node)
                depths.append(depth)
            inner = depth + (node is not None)
            waiting += [(below, inner) for below in reversed(self._children(child))]

    def _children(self, element: etree._Element) -> list[etree._Element]:
        children = list(element)
        if self._system == "ubuntu" or len(children) < 2:
            return children
        found = [(_read(child, self._system), child) for child in children]
        far = (_FARTHEST,) * 4
        keys = [((read.box or far)[1::-1], (read.box or far)[2:], read.word, read.name) for read, _ in found]
        return [child for _, (_, child) in sorted(zip(keys, found, strict=True), key=lambda pair: pair[0])]

    def _is_shown(self, found: _Element) -> bool:
        if found.nowhere:
            return False
        if self._system == "ubuntu":
            return found.states.get("showing", False) and found.states.get("visible", False)
        return found.states.get("visible", True)

    def screen(self, xml: str, uri: str, member: str, offset: int) -> Screen:
        """The screen, once all windows are known."""
        self.tops.sort(key=_Top.rank)
        nodes = [node for top in self.tops for node in top.nodes]
        depths = [depth for top in self.tops for depth in top.depths]
        if max(depths) >= MAX_DEPTH:
            raise ParseError(uri, offset, "too_deep", f"more than {MAX_DEPTH} levels of nodes", member)
        tree = Tree(nodes, depths)
        windows = list(tree.windows())
        # No dump tells which of the other windows lies on top: the smaller hides less of what is under it.
        order = sorted(windows, key=lambda places: ("active" not in nodes[places[0]].states, _area(nodes[places[0]])))
        first = [node for node, place in zip(self.tops[0].nodes, self.tops[0].depths, strict=True) if place <= 2]
        busy = any("busy" in node.states for node in first if node.role in ("window", "dialog", "document"))
        return Screen(tree, tree.text, xml, self.tops[0].program or nodes[0].name, busy, tuple(order))


def _area(node: Node) -> int:
    left, top, right, bottom = node.bounds or (0, 0, _FARTHEST, _FARTHEST)
    return (right - left) * (bottom - top)


def _node(found: _Element) -> Node | None:
    """The node of a widget, or None if it only lays out others."""
    role = role_of(found.word)
    if found.word == "text" and not found.states.get("editable"):
        # AT-SPI's role `text` is any run of text; only an editable one is a field.
        role = "text"
    states = states_of(role, found.word, found.states)
    if found.word in ("password-text", "AXSecureTextField"):
        states = (*states, "password")
    name, value = found.name, ""
    number = _short_number(found.value) if role in MEASURING and found.value not in ("", "None") else ""
    text = found.text if role in HOLDING else found.text.strip()
    if role in HOLDING:
        value = text.rstrip() if role == "terminal" else text
        value = value or number or (found.value if role in ("textbox", "combobox") else "")
    elif not name:
        name, value = text, number
    else:
        value = text if text != name and text else number
    if role in ("group", "image", "text", "canvas") and found.clickable:
        states = (*states, "clickable")
    told = found.attributes
    second = _clean(told.get("description", "") or told.get("placeholder-text", "") or told.get("AXHelp", ""))
    ident = told.get("id") or told.get("automation_id") or told.get("AXDOMIdentifier") or ""
    # A bare group says nothing but a box; what is in it says the rest.
    if role == "group" and not (name or value or set(states) - {"unchecked", "expanded"}):
        return None
    return Node(role, name, value, second if second != name else "", states, _clean(ident)[:200], found.box)


def _short_number(text: str) -> str:
    """A number without the decimals that say nothing: `5` for `5.0`."""
    return text.partition(".")[0] if _NUMBER.fullmatch(text) else text
