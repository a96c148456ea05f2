"""A page as Mind2Web keeps it, as a DOM: HTML written as XML, with what the recorder measured as attributes.

Attribute names have `_` for `-`; a text node is an element `text`; `bounding_box_rect` is left, top, width and height
in pixels of the page, all -1 for what was not laid out; `input_value`, `input_checked` and `option_selected` are the
live state of fields; `is_clickable` says that something listens to clicks. Boxes tell what is hidden and are then let
go: all of them move when a scroll bar comes or goes, and actions name elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import unescape

from lxml import etree

from connectors.web.dom import DomNode, Texts
from connectors.web.layout import KEPT_HIDDEN, Layout
from connectors.web.markup import html_document
from connectors.web.snapshot_tags import document_of


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A page: its document, and its nodes by the numbers that the browser gave them (`backend_node_id`)."""

    document: DomNode
    nodes: Mapping[str, DomNode]


def snapshot(html: str) -> Snapshot:
    """The page of an HTML text. Elements that were not laid out are hidden, if the page tells boxes at all.

    Raises:
        ValueError: it nests too deeply to be a page.
    """
    layout = Layout()
    document = document_of(without_doctype(html), layout)
    if document is None:
        return whole_snapshot(html)
    layout.hide()
    return Snapshot(document, _Nodes(layout.nodes, html))


def whole_snapshot(html: str) -> Snapshot:
    """The same, with all elements that the text has, shown or not."""
    layout = Layout()
    try:
        root = xml_root(without_doctype(html).encode("utf-8", "replace"))
    except etree.XMLSyntaxError:
        document = html_document(html)
        _lay_out(document, layout)
    else:
        document = DomNode("#document")
        _fill(document, root, layout)
    layout.hide()
    return Snapshot(document, layout.nodes)


class _Nodes(Mapping[str, DomNode]):
    """The nodes of a page by their numbers; those that its document left out are read where one is asked for."""

    __slots__ = ("_html", "_nodes", "_whole")

    def __init__(self, nodes: Mapping[str, DomNode], html: str) -> None:
        self._nodes = nodes
        self._html = html
        self._whole: Mapping[str, DomNode] | None = None

    def __getitem__(self, number: str) -> DomNode:
        found = self._nodes.get(number)
        if found is None and f'="{number}"' not in self._html:
            raise KeyError(number)
        return found if found is not None else self._left_out()[number]

    def __iter__(self) -> Iterator[str]:
        return iter(self._left_out())

    def __len__(self) -> int:
        return len(self._left_out())

    def _left_out(self) -> Mapping[str, DomNode]:
        if self._whole is None:
            self._whole = whole_snapshot(self._html).nodes
        return self._whole


def without_doctype(html: str) -> str:
    """The text without the document type before it."""
    return html.partition(">")[2] if html[:9].lower() == "<!doctype" else html


def xml_root(data: bytes) -> etree._Element:
    """The root element of XML, whose entities are not expanded.

    Raises:
        etree.XMLSyntaxError: it is not well-formed.
    """
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False, remove_comments=True)
    return etree.fromstring(data, parser)


def _fill(document: DomNode, root: etree._Element, layout: Layout) -> None:
    """Puts all that is in the XML into the document."""
    text_node, place = Texts().node, layout.place
    top = DomNode(str(root.tag).lower(), {}, "", [])
    place(top, document, _items(root), False)
    document.children.append(top)
    stack = [(top, root, top.tag in KEPT_HIDDEN)]
    while stack:
        parent, source, in_option = stack.pop()
        add = parent.children.append
        if before := source.text:
            add(text_node(before))
        for child in source:
            tag: object = child.tag
            if not isinstance(tag, str):
                if tag is etree.Entity:
                    add(text_node(unescape(child.text or "")))
            elif tag == "text" and parent.tag != "svg":
                node = DomNode("#text", {}, _all_text(child))
                place(node, parent, _items(child), in_option)
                add(node)
            else:
                node = DomNode(tag.lower(), {}, "", [])
                place(node, parent, _items(child), in_option)
                add(node)
                stack.append((node, child, in_option or node.tag in KEPT_HIDDEN))
            if after := child.tail:
                add(text_node(after))


def _items(source: etree._Element) -> Iterable[tuple[str, str]]:
    return source.items()  # type: ignore[return-value]


def _all_text(source: etree._Element) -> str:
    return "".join(map(str, source.itertext())) if len(source) else source.text or ""


def _lay_out(document: DomNode, layout: Layout) -> None:
    """Does for a document that was read as HTML what `_fill` does with the attributes of the recorder's."""
    stack = [(document, False)]
    while stack:
        parent, in_option = stack.pop()
        for node in parent.children:
            if node.tag != "#text":
                layout.place(node, parent, node.attributes.items(), in_option)
                stack.append((node, in_option or node.tag in KEPT_HIDDEN))
