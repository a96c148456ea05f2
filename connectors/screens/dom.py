"""DOM of a page from any source: nodes, their text, and their lookup by id.

`DomNode` is the neutral form that readers of HTML, rrweb, Playwright snapshots and similar formats build.
`connectors.screens.page` converts it to the compact tree. Visibility is not decided here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from trajmill.connectors.screens.stylesheets import Sheet
from trajmill.connectors.screens.tree import Box

MAX_LEVELS: Final = 256
"""Largest number of levels of a DOM, including slots and frames; deeper nesting is no page.

Browsers build at most 512 levels from HTML.
"""


@dataclass(slots=True, eq=False)
class DomNode:
    """Node of a DOM, compared and hashed by identity.

    Attributes:
        tag: Tag in lower case; `#document`, `#text` or, for nodes that are never shown, `#comment`.
        attributes: Attributes by name in lower case; one without a value has the value `""`. If a log has the live
            state of a field, it replaces the attribute: `value`, `checked`, `selected`, `open`, and `playing` of a
            video or sound.
        shadow: Children of its shadow root, if it has one.
        frame: Document of an iframe, if it is known.
        box: Position in the window, if the log states it.
        sheet: Style sheet of its document or shadow root that it adds, unless the sheet is the text in it.
    """

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    text: str = ""
    children: list[DomNode] = field(default_factory=list)
    shadow: list[DomNode] | None = None
    frame: DomNode | None = None
    box: Box | None = None
    sheet: Sheet | None = None


NO_ATTRIBUTES: Final[dict[str, str]] = {}
"""Attributes of text nodes, shared by readers that make thousands of nodes; must not be changed."""

NO_CHILDREN: Final[list[DomNode]] = []
"""Children of text nodes, shared in the same way; must not be changed."""


class Texts:
    """Text nodes of one document, with one shared node for equal blank texts, which are the most frequent nodes.

    A shared node has no position of its own, so this class serves readers whose logs never name a text node.
    """

    __slots__ = ("blank",)

    def __init__(self) -> None:
        self.blank: dict[str, DomNode] = {}
        """Blank texts so far, for readers that look them up before they ask for a node."""

    def node(self, text: str) -> DomNode:
        """Return the node of a text."""
        if not text.isspace():
            return DomNode("#text", NO_ATTRIBUTES, text, NO_CHILDREN)
        blank_node = self.blank.get(text)
        if blank_node is None:
            blank_node = self.blank[text] = DomNode("#text", NO_ATTRIBUTES, text, NO_CHILDREN)
        return blank_node


def title_of(document: DomNode) -> str:
    """Return the text of the document's first `title` element outside drawings; "" if it has none."""
    heads = [document]
    for _ in range(3):
        for element in heads:
            if element.tag == "title":
                return collapse_space(text_of(element))
        heads = [
            child for element in heads if element.tag in ("#document", "html", "head") for child in element.children
        ]
    return next((collapse_space(text_of(element)) for element in heads if element.tag == "title"), "")


def collapse_space(text: str) -> str:
    """Collapse each run of white space to one space and strip the ends."""
    return " ".join(text.split())


def is_parted(left: str, right: str) -> bool:
    """Check whether a space belongs between the texts of two adjacent elements.

    None belongs next to certain punctuation, between single letters, or between a number and a lower-case letter.

    >>> is_parted("Prev", "Next"), is_parted("Hello", "!"), is_parted("H", "i"), is_parted("16", "th")
    (True, False, False, False)
    """
    if not left or not right or (len(left) == 1 and len(right) == 1) or (left[-1].isdecimal() and right[0].islower()):
        return False
    return not (left[-1].isspace() or right[0].isspace() or left[-1] in _OPENING or right[0] in _CLOSING)


_OPENING: Final = frozenset("([{<“‘«„#@$€£¥/\\-–_=:.'\"")
_CLOSING: Final = frozenset(")]}>”’»,.;:!?%/\\-–_=('\"")


def text_of(node: DomNode) -> str:
    """Return all text under a node unchanged, whether hidden or not."""
    return "".join([inner.text for inner in walk(node) if inner.tag == "#text"])


def text_with_spaces(top: DomNode, left_out: Collection[str] = (), hidden: Collection[DomNode] = ()) -> str:
    """Return the text under a node on one line, with spaces between adjacent elements (`is_parted`).

    Args:
        left_out: Tags of inner elements whose text does not belong to the node.
        hidden: Inner nodes that are not shown.
    """
    texts: list[str] = []
    stack: list[DomNode | None] = [top]
    ended = begun = False
    while stack:
        node = stack.pop()
        if node is None:
            ended, begun = True, False
        elif node in hidden:
            continue
        elif node.tag == "#text":
            if ended and begun and texts and is_parted(texts[-1], node.text):
                texts.append(" ")
            texts.append(node.text)
            ended = begun = False
        elif node.tag not in left_out or node is top:
            begun = True
            stack.append(None)
            stack.extend(reversed(node.children))
    return collapse_space("".join(texts))


def walk(node: DomNode) -> Iterator[DomNode]:
    """Yield the node and all nodes under it in document order, without shadow roots and frames."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(current.children))


class Scope:
    """Lookup of the elements of a document or shadow root by id, and of labels by their target; built on first use."""

    __slots__ = ("_by_id", "_labels", "_roots")

    def __init__(self, roots: Sequence[DomNode]) -> None:
        self._roots = roots
        self._by_id: dict[str, DomNode] | None = None
        self._labels: dict[str, DomNode] = {}

    def element(self, ident: str) -> DomNode | None:
        """Return the first element with an id."""
        return self._known().get(ident)

    def label(self, ident: str) -> DomNode | None:
        """Return the first label for an id."""
        self._known()
        return self._labels.get(ident)

    def _known(self) -> dict[str, DomNode]:
        if self._by_id is None:
            self._by_id = {}
            stack = list(reversed(self._roots))
            while stack:
                node = stack.pop()
                if node.children:
                    stack += node.children[::-1]
                attributes = node.attributes
                if attributes:
                    if "id" in attributes:
                        self._by_id.setdefault(attributes["id"], node)
                    if "for" in attributes and node.tag == "label":
                        self._labels.setdefault(attributes["for"], node)
        return self._by_id
