"""Lines of a page under construction: their contents, and which of them get a place in the tree.

An element's line is settled once the lines in it are known: a button takes its text as name; a list item with a single
link is replaced by the link. `page` walks the DOM and makes the lines.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from trajmill.connectors.screens import aria
from trajmill.connectors.screens.tree import Box, render_node

TEXT: Final = "text"
"""Role of a run of text."""

NO_LINES: Final[list[Line]] = []
"""Shared empty list of lines of all runs of text."""

_CONDITIONAL: Final = frozenset({"group", "region", "figure", "application", "tabpanel", "radiogroup", "toolbar"})
"""Roles with a line only if they have a name, a state or a lasting id."""
_SINGLE: Final = frozenset({"listitem", "cell", "row", "group", "definition", "term", "article"})
"""Roles without a line if they contain exactly one line and have no properties of their own."""
_ONE_TEXT: Final = _SINGLE | frozenset(
    {"columnheader", "rowheader", "status", "alert", "blockquote", "note", "log", "timer", "dialog"}
)
"""Roles that take a single run of text in them as their name."""
_LONE: Final = aria.ACTABLE | frozenset(
    {"audio", "canvas", "embed", "object", "video", "cell", "columnheader", "progressbar", "meter"}
)
"""Roles with a line even without contents and a name."""
_VALUED: Final = frozenset({"combobox", "textbox", "searchbox", "spinbutton", "slider"})


@dataclass(slots=True, eq=False)
class Line:
    """Line under construction: the parts of its node, and the lines under it.

    All runs of text share one empty list of lines (`NO_LINES`), which must not be changed.

    Attributes:
        is_own: True if it stays in the tree even without contents, since its element is actable.
        replaced: Line that replaces it in the tree.
        place: Its id in the tree, from 1, once it has a place.
    """

    role: str
    name: str
    lines: list[Line]
    value: str = ""
    description: str = ""
    states: tuple[str, ...] = ()
    ident: str = ""
    box: Box | None = None
    is_own: bool = False
    replaced: Line | None = None
    place: int = 0

    @property
    def text(self) -> str:
        """Text after the id, as `connectors.screens.tree` writes it."""
        return render_node(self.role, self.name, self.value, self.description, self.states, self.ident, self.box)

    def standing(self) -> Line:
        """Return the line that represents it in the tree: itself, or its replacement."""
        line = self
        while line.replaced is not None:
            line = line.replaced
        return line


def settle(tag: str, line: Line) -> None:
    """Give an element the name or value that the lines in it imply, and drop lines that only repeat it."""
    role, inside = line.role, line.lines
    if role in aria.NAMED_BY_CONTENT:
        _take_name(line)
    elif role == "combobox" and tag == "select":
        options = _options(line)
        chosen = [option for option in options if "selected" in option.states]
        line.value = ", ".join([option.name for option in chosen or options[:1]])
    elif not inside:
        return
    elif role in _VALUED:
        if not line.value:
            line.value = _texts(inside)
        _keep_actable(line)
    elif len(inside) == 1 and not line.name and inside[0].role == TEXT and role in _ONE_TEXT:
        line.name, inside[0].replaced = inside[0].name, line
        line.lines = []


def _take_name(line: Line) -> None:
    """Name a line by its contents, or add them as its description if it has another name."""
    inside = line.lines
    is_text = len(inside) == 1 and inside[0].role == TEXT
    content = inside[0].name if is_text else _texts(inside) if inside else ""
    if not line.name:
        line.name = content or line.description
        if line.description and line.name == line.description:
            line.description = ""
    elif content and not line.description and content.lower() not in line.name.lower():
        line.description = content
    if is_text:
        inside[0].replaced = line
        line.lines = []
    elif inside:
        _keep_actable(line)


def _texts(lines: Iterable[Line]) -> str:
    """Join the names of all lines under these, in order, as a person reads them."""
    texts = []
    stack = list(lines)[::-1]
    while stack:
        line = stack.pop()
        if line.name:
            texts.append(line.name)
        if line.lines:
            stack += line.lines[::-1]
    return " ".join(texts)


def _options(line: Line) -> list[Line]:
    options = []
    for child in line.lines:
        options.extend(
            [child] if child.role == "option" else [inner for inner in child.lines if inner.role == "option"]
        )
    return options


def is_acted_on(line: Line) -> bool:
    """Check whether the element of a line is actable by its role or its states."""
    return line.role in aria.ACTABLE or "clickable" in line.states or "focusable" in line.states


def _keep_actable(line: Line) -> None:
    """Keep only the actable lines under this one, which represents the others."""
    actable: list[Line] = []
    stack = line.lines[::-1]
    while stack:
        inner = stack.pop()
        if is_acted_on(inner):
            actable.append(inner)
        else:
            inner.replaced = line
            stack += inner.lines[::-1]
    line.lines = actable


def place(line: Line, out: list[Line], owner: Line) -> None:
    """Append the line to `out`, or the lines in it if it has no properties of its own.

    Args:
        line: Settled line.
        out: Lines before it, under the same owner.
        owner: Line of the nearest element around it.
    """
    role, inside = line.role, line.lines
    if line.name or line.states or line.value or role in aria.ACTABLE:
        out.append(line)
        return
    if not inside:
        stays = role in _LONE or line.is_own
    elif role in _CONDITIONAL:
        stays = bool(line.ident) and len(inside) > 1
    else:
        stays = not (role in _SINGLE and len(inside) == 1 and not line.ident)
    if stays:
        out.append(line)
        return
    out.extend(inside)
    if len(inside) == 1 or (inside and owner.role == "document"):
        line.replaced = inside[0]
    else:
        line.replaced = owner
