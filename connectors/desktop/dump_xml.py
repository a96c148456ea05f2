"""The XML of an accessibility dump as a tree of tags; a tag that recurs from screen to screen is parsed once.

Most of a screen repeats the previous one literally. A dump is therefore split at each `<`. New pieces are put into one
document, which lxml parses, and the result for each piece is cached while a log is read. A dump with comments,
declarations or namespaces below the root, and one that is not well-formed, is parsed by lxml as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from lxml import etree

from trajmill.connectors.desktop.element import SYSTEM, Names, Widget, cached_widget, kind_of, widget
from trajmill.connectors.screens.tree import Node

_DECLARED: Final = re.compile(r"\s*<\?xml[^>]*\?>")
_NAME: Final = re.compile(r"[^ \t\r\n/>!?][^ \t\r\n/>]*")
_CLOSING: Final = re.compile(r"/([^ \t\r\n/>]+)[ \t\r\n]*>")
_LAST: Final = re.compile(r"/[^ \t\r\n/>]+[ \t\r\n]*>[ \t\r\n]*")
_BLANK: Final = " \t\r\n"
_LONGEST: Final = 1 << 21
"""Longest dump in characters that is read in pieces; lxml reads a longer one whole, since it limits content."""
_DEEPEST: Final = 200
"""Number of levels from which on lxml reads a dump whole, since it limits them too."""
_REMEMBERED: Final = 1 << 23
"""Largest total of characters of cached pieces."""
_NO_TAG: Final = "", "", False


class Dialect:
    """Meaning of the namespaces that a root declares.

    Attributes:
        system: ubuntu, windows or macos.
        showing: the attribute of every shown element on Ubuntu; None if unknown.
    """

    __slots__ = ("showing", "system")

    def __init__(self, root: etree._Element) -> None:
        uris = [uri for uri in root.nsmap.values() if uri]
        self.system = next((match[1] for uri in uris if (match := SYSTEM.search(uri))), "ubuntu")
        states = [uri for uri in uris if kind_of(f"{{{uri}}}x")[0] == "state"]
        self.showing = f"{{{states[0]}}}showing" if len(states) == 1 and self.system == "ubuntu" else None


_Read: TypeAlias = Callable[[str, Names, Names, str, str], Widget]


class Tag:
    """An opening tag with the text behind it.

    Attributes:
        names: names of its attributes in the order of the dump, as lxml writes them.
        values: values of its attributes.
        node: the line of the element; None if it is not shown, or only lays out others.
    """

    __slots__ = ("_read", "_system", "_text", "_widget", "name", "names", "node", "values")

    def __init__(self, source: etree._Element, dialect: Dialect, read: _Read = widget) -> None:
        self.name = str(source.tag)
        self.names: Names = tuple(source.keys())  # type: ignore[arg-type]
        self.values: Names = tuple(source.values())  # type: ignore[arg-type]
        self._text = source.text or ""
        self._system = dialect.system
        self._read = read
        self._widget: Widget | None = None
        # most of a Linux dump is not showing
        hidden = dialect.showing is not None and source.get(dialect.showing) is None
        self.node: Node | None = None if hidden else self.widget().node

    def widget(self) -> Widget:
        """Return the widget of the element, read once."""
        if self._widget is None:
            self._widget = self._read(self.name, self.names, self.values, self._text, self._system)
        return self._widget


Branch: TypeAlias = tuple[Tag, list["Branch"]]
"""An element and its children."""

_Piece: TypeAlias = tuple[str, Tag | None]
"""Name of the element that a piece opens or closes ("" if it closes itself), and its tag (None for a closing tag)."""


class DoctypeError(Exception):
    """Error for a dump that declares a document type or an entity."""


class Reader:
    """Reader of the dumps of one log."""

    def __init__(self) -> None:
        self._root = ""
        self._dialect: Dialect | None = None
        self._known: dict[str, _Piece] = {}
        self._size = 0

    def read(self, xml: str) -> tuple[Branch, Dialect]:
        """Return the root of a dump, and the meaning of its namespaces.

        Raises:
            DoctypeError: the dump declares a document type or an entity.
            etree.XMLSyntaxError: the dump is not well-formed.
        """
        body = strip_declaration(xml)
        try:
            pieced = self._joined(body) if "<!" not in xml[: len(xml) - len(body)] else None
        except etree.XMLSyntaxError:
            pieced = None
        if pieced is not None:
            return pieced
        # A dump that was joined from pieces holds no `<!`, so only a dump that is read whole is searched.
        if "<!DOCTYPE" in xml or "<!ENTITY" in xml:
            raise DoctypeError
        return _whole(_parse_body(body))

    def _joined(self, body: str) -> tuple[Branch, Dialect] | None:
        """Assemble the root from pieces; None if the dump cannot be read in pieces."""
        if len(body) > _LONGEST:
            return None
        before, *pieces = body.split("<")
        if before.strip(_BLANK) or len(pieces) < 2 or not _LAST.fullmatch(pieces[-1]):
            return None
        dialect = self._learn(pieces)
        if dialect is None:
            return None
        tops: list[Branch] = []
        siblings = tops
        around: list[list[Branch]] = []
        names: list[str] = []
        for name, tag in map(self._known.__getitem__, pieces):
            if tag is None:
                if not names or names.pop() != name:
                    return None
                siblings = around.pop()
            else:
                inner: list[Branch] = []
                siblings.append((tag, inner))
                if name:
                    if len(names) >= _DEEPEST:
                        return None
                    names.append(name)
                    around.append(siblings)
                    siblings = inner
        return (tops[0], dialect) if len(tops) == 1 and not names else None

    def _learn(self, pieces: list[str]) -> Dialect | None:
        """Parse the new pieces and return the dialect of the root; None if they are not plain tags.

        Raises:
            etree.XMLSyntaxError: a piece is not well-formed.
        """
        first = pieces[0]
        if first != self._root:
            self._forget()
        new = set(pieces).difference(self._known)
        size = sum(map(len, new))
        if self._size + size > _REMEMBERED:
            self._forget()
            new = set(pieces)
            size = sum(map(len, new))
        if not new:
            return self._dialect
        new.discard(first)
        elements = [_alone(piece) for piece in new]
        text = "".join([element for element, _, _ in elements])
        outer = _NAME.match(first)
        if outer is None or "xmlns" in text or _NO_TAG in elements:
            return None
        root = _parse_body(f"<{first}{text}</{outer[0]}>")
        sources = list(root)
        # There are as many elements as pieces and none is nested, so each piece is one tag.
        if len(sources) != len(elements) or any(map(len, sources)):
            return None
        dialect = Dialect(root)
        known = self._known
        known[first] = outer[0], Tag(root, dialect)
        for piece, (_, name, opens), source in zip(new, elements, sources, strict=True):
            known[piece] = name, Tag(source, dialect) if opens else None
        self._root, self._dialect = first, dialect
        self._size += size
        return dialect

    def _forget(self) -> None:
        self._root, self._dialect, self._size = "", None, 0
        self._known.clear()


def strip_declaration(xml: str) -> str:
    """Remove a dump's XML declaration, which may name an encoding that the decoded dump does not have."""
    return _DECLARED.sub("", xml, count=1) if xml.lstrip().startswith("<?xml") else xml


def _alone(piece: str) -> tuple[str, str, bool]:
    """Return a piece as a complete element, its name as in `_Piece`, and whether it opens one; else `_NO_TAG`."""
    match = _CLOSING.match(piece) if piece[:1] == "/" else _NAME.match(piece)
    if match is None:
        return _NO_TAG
    name = match[match.re.groups]
    if piece[0] == "/":
        return f"<{name}><{piece}", name, False
    if piece.rstrip(_BLANK).endswith("/>"):
        return f"<{piece}", "", True
    return f"<{piece}</{name}>", name, True


def _parse_body(body: str) -> etree._Element:
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, remove_comments=True, remove_pis=True
    )
    return etree.fromstring(body.encode("utf-8", "replace"), parser)


def _whole(root: etree._Element) -> tuple[Branch, Dialect]:
    """Return the tree and the dialect of a document that lxml read whole."""
    dialect = Dialect(root)
    top: Branch = (Tag(root, dialect, cached_widget), [])
    waiting = [(root, top[1])]
    while waiting:
        source, inner = waiting.pop()
        for child in source:
            branch: Branch = (Tag(child, dialect, cached_widget), [])
            inner.append(branch)
            if len(child):
                waiting.append((child, branch[1]))
    return top, dialect
