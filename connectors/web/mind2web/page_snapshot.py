"""A page of Mind2Web as a DOM: HTML written as XML, with the recorder's measurements as attributes.

Attribute names have `_` for `-`; a text node is an element `text`. `bounding_box_rect` is left, top, width and height
in pixels of the page, all -1 for an element that was not laid out. `input_value`, `input_checked` and `option_selected`
are the live state of fields. `is_clickable` means that something listens to clicks. Boxes determine which elements are
hidden, and are then left out of the page, because all boxes move when a scroll bar appears or disappears, and actions
name their elements without them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from html import unescape
from typing import Final

from lxml import etree

from trajmill.connectors.screens.dom import NO_ATTRIBUTES, NO_CHILDREN, DomNode, Texts
from trajmill.connectors.screens.tree import MAX_TAGS
from trajmill.connectors.web.markup import html_document

_LIVE: Final = {"input-value": "value", "option-selected": "selected", "is-clickable": "onclick"}
_KEPT_HIDDEN: Final = frozenset({"option", "optgroup"})
_UNDRAWN: Final = frozenset({"html", "body", "head", "title"})


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A page: its document, and its nodes by the browser's numbers (`backend_node_id`)."""

    document: DomNode
    nodes: Mapping[str, DomNode]


def snapshot(html: str) -> Snapshot:
    """Parse the page of an HTML text. Elements that were not laid out are hidden if the page states any boxes.

    Raises:
        ValueError: the page nests too deeply, or has too many elements.
    """
    body = html.partition(">")[2] if html[:9].lower() == "<!doctype" else html
    if html.count("<") > MAX_TAGS:
        raise ValueError(f"more than {MAX_TAGS} tags")
    layout = _Layout()
    try:
        root = xml_root(body.encode("utf-8", "replace"))
    except etree.XMLSyntaxError:
        document = html_document(html)
        _lay_out(document, layout)
    else:
        document = DomNode("#document")
        _fill(document, root, layout)
    layout.hide()
    return Snapshot(document, layout.nodes)


def xml_root(data: bytes) -> etree._Element:
    """Return the root element of XML, without expanding entities.

    Raises:
        etree.XMLSyntaxError: the data are not well-formed.
    """
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False, remove_comments=True)
    return etree.fromstring(data, parser)


def _fill(document: DomNode, root: etree._Element, layout: _Layout) -> None:
    """Append all content of the XML to the document."""
    texts, place_node = Texts(), layout.place
    blank, text_node = texts.blank.get, texts.node
    top = DomNode(str(root.tag).lower(), NO_ATTRIBUTES, "", [])
    place_node(top, document, root.items(), False)  # type: ignore[arg-type]
    document.children.append(top)
    stack = [(top, root, top.tag in _KEPT_HIDDEN)]
    while stack:
        parent, source, in_option = stack.pop()
        add = parent.children.append
        if before := source.text:
            add(blank(before) or text_node(before))
        is_drawing = parent.tag == "svg"
        for child in source:
            tag: object = child.tag
            if not isinstance(tag, str):
                if tag is etree.Entity:
                    add(text_node(unescape(child.text or "")))
            elif tag == "text" and not is_drawing:
                node = DomNode("#text", NO_ATTRIBUTES, _all_text(child), NO_CHILDREN)
                place_node(node, parent, child.items(), in_option)  # type: ignore[arg-type]
                add(node)
            else:
                node = DomNode(tag.lower(), NO_ATTRIBUTES, "", [])
                place_node(node, parent, child.items(), in_option)  # type: ignore[arg-type]
                add(node)
                stack.append((node, child, in_option or node.tag in _KEPT_HIDDEN))
            if after := child.tail:
                add(blank(after) or text_node(after))


def _all_text(source: etree._Element) -> str:
    return "".join(map(str, source.itertext())) if len(source) else source.text or ""


def _lay_out(document: DomNode, layout: _Layout) -> None:
    """Pass the nodes of a document that was read as HTML to the layout, as `_fill` does while it reads XML."""
    stack = [(document, False)]
    while stack:
        parent, in_option = stack.pop()
        for node in parent.children:
            if node.tag != "#text":
                layout.place(node, parent, node.attributes.items(), in_option)
                stack.append((node, in_option or node.tag in _KEPT_HIDDEN))


_DROPPED, _PLAIN, _VALUE, _FLAG, _NUMBER = range(5)


@lru_cache(maxsize=4096)
def _meaning(name: str) -> tuple[int, str]:
    """Return (kind of a recorder's attribute, its name in HTML)."""
    key = name.lower().replace("_", "-")
    if key == "backend-node-id":
        return _NUMBER, key
    if key == "bounding-box-rect" or key.startswith("data-pw-testid-buckeye"):
        return _DROPPED, key
    if key == "input-value":
        return _VALUE, _LIVE[key]
    return (_FLAG, _LIVE.get(key, "checked")) if key in _LIVE or key == "input-checked" else (_PLAIN, key)


class _Layout:
    """Layout of a document, whose nodes are placed parents first. `nodes` holds the nodes with a number."""

    def __init__(self) -> None:
        self.nodes: dict[str, DomNode] = {}
        self._shows: set[DomNode] = set()
        self._undrawn: list[tuple[DomNode, DomNode, bool]] = []

    def place(self, node: DomNode, parent: DomNode, recorded: Iterable[tuple[str, str]], in_option: bool) -> None:
        """Give a node its attributes under their HTML names; a text that was not laid out becomes empty."""
        attributes: dict[str, str] = {}
        box: str | None = None
        for name, value in recorded:
            if name == "backend_node_id":
                self.nodes[value] = node
                continue
            if name == "bounding_box_rect":
                box = value
                continue
            kind, key = _meaning(name)
            if kind == _PLAIN:
                if key not in attributes:
                    attributes[key] = value
            elif kind == _NUMBER:
                self.nodes[value] = node
            elif kind == _VALUE or (kind == _FLAG and value.lower() == "true"):
                attributes[key] = value
        node.attributes = attributes
        tag = node.tag
        if tag == "a" and "href" not in attributes:
            # The data set removed addresses, but not links.
            attributes["href"] = ""
        if box is not None and box[:1] in "- " and not _is_drawn(box):
            self._leave_out(node, parent, in_option)
        elif box is not None or tag != "#text":
            self._shows.add(parent)

    def _leave_out(self, node: DomNode, parent: DomNode, in_option: bool) -> None:
        tag = node.tag
        if tag != "#text":
            self._undrawn.append((node, parent, in_option or tag in _KEPT_HIDDEN or tag in _UNDRAWN))
        elif not in_option:
            node.text = ""

    def hide(self) -> None:
        """Hide the elements that were not laid out and contain no element that was."""
        for node, parent, is_kept in reversed(self._undrawn):
            if node in self._shows:
                self._shows.add(parent)
            elif not is_kept:
                node.attributes["hidden"] = ""


def _is_drawn(box: str) -> bool:
    """Check if the box belongs to an element that was laid out."""
    return box[:1].isdecimal() or not box.replace(" ", "").startswith("-1,-1,-1,-1")
