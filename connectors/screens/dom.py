"""The DOM of a page, whoever wrote it down: nodes, their text, and how they are found by id.

`DomNode` is the neutral form that readers of HTML, rrweb, Playwright snapshots and the like build, and of which
`connectors.screens.page` makes the compact tree. Nothing here decides what is shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from trajmill.connectors.screens.stylesheets import Sheet
from trajmill.connectors.screens.tree import Box

MAX_LEVELS: Final = 256
"""Levels of a DOM, slots and frames included; what nests deeper is no page. (Browsers build at most 512 of HTML.)"""


@dataclass(slots=True, eq=False)
class DomNode:
    """One node of a DOM; compared and hashed by identity.

    Attributes:
        tag: in lower case; `#document`, `#text` or, for what is never shown, `#comment`.
        attributes: by name in lower case, without a value `""`. Where a log holds the live state of a field, it stands
            here in place of the attribute: `value`, `checked`, `selected`, `open`, and `playing` of a video or sound.
        text: of a text node.
        children: in document order.
        shadow: the children of its shadow root, if it has one.
        frame: the document in an iframe, if it is known.
        box: where it stands in the window, if the log says so.
        sheet: the style sheet that it brings to its document or shadow root, if that is not the text in it.
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
"""The attributes of text, for readers that make thousands of nodes. Nothing may be added to them."""

NO_CHILDREN: Final[list[DomNode]] = []
"""Children of a text, for the same readers. Nothing may be added to it."""


class Texts:
    """Text nodes of one document. Blank texts between elements are most of all nodes, so equal ones share one node.

    A shared node does not say where it stands: this is for readers whose logs never name a text node.
    """

    __slots__ = ("blank",)

    def __init__(self) -> None:
        self.blank: dict[str, DomNode] = {}
        """Those met so far, for readers that look for them before they ask for a node."""

    def node(self, text: str) -> DomNode:
        """The node of a text."""
        if not text.isspace():
            return DomNode("#text", NO_ATTRIBUTES, text, NO_CHILDREN)
        blank_node = self.blank.get(text)
        if blank_node is None:
            blank_node = self.blank[text] = DomNode("#text", NO_ATTRIBUTES, text, NO_CHILDREN)
        return blank_node


def title_of(document: DomNode) -> str:
    """The text of the document's first `title` element outside of drawings; "" if it has none."""
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
    """The text with each run of white space as one space, and none at its ends."""
    return " ".join(text.split())


def is_parted(left: str, right: str) -> bool:
    """Check if a blank belongs between the texts of two elements side by side.

    Not at a sign, nor between single letters, nor before what follows upon a number.

    >>> is_parted("Prev", "Next"), is_parted("Hello", "!"), is_parted("H", "i"), is_parted("16", "th")
    (True, False, False, False)
    """
    if not left or not right or (len(left) == 1 and len(right) == 1) or (left[-1].isdecimal() and right[0].islower()):
        return False
    return not (left[-1].isspace() or right[0].isspace() or left[-1] in _OPENING or right[0] in _CLOSING)


_OPENING: Final = frozenset("([{<“‘«„#@$€£¥/\\-–_=:.'\"")
_CLOSING: Final = frozenset(")]}>”’»,.;:!?%/\\-–_=('\"")


def text_of(node: DomNode) -> str:
    """All text under a node, hidden or not, as it stands."""
    return "".join([inner.text for inner in walk(node) if inner.tag == "#text"])


def text_with_spaces(top: DomNode, left_out: Collection[str] = (), hidden: Collection[DomNode] = ()) -> str:
    """The text under a node on one line, a blank between elements side by side (`is_parted`).

    Args:
        top: the node.
        left_out: tags of elements in it whose text is not its own.
        hidden: nodes in it that are not shown.
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
    """The node and all that is under it in document order, without shadow roots and frames."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(current.children))


class Scope:
    """The elements of a document or shadow root by id, and labels by what they label; looked up where one is named."""

    __slots__ = ("_by_id", "_labels", "_roots")

    def __init__(self, roots: Sequence[DomNode]) -> None:
        self._roots = roots
        self._by_id: dict[str, DomNode] | None = None
        self._labels: dict[str, DomNode] = {}

    def element(self, ident: str) -> DomNode | None:
        """The first element with that id."""
        return self._known().get(ident)

    def label(self, ident: str) -> DomNode | None:
        """The first label for that id."""
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
