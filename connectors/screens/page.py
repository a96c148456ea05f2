"""Compact tree of a page, in the form of `connectors.screens.tree`, with the line of each node of its DOM.

Each element that a person or a program would act on or name has a line, and so does each run of text between them.
Wrappers that only lay out other elements have none. Text of inline elements (`<b>`, `<span>`) joins the text around it,
and white space is one space, except in `pre`. A space separates two adjacent inline elements (`is_parted`). Actable
elements never join their neighbors: an element with a listener, with a box of its own, or named in the log as the
target of an action keeps a line, even without text. A slot shows the nodes that its host puts there, an iframe its
document. The name of a button or link is the text in it, which has no line of its own; next to another name given by
the page (`aria-label`), that text is the description.

Nodes that are hidden according to attributes and the style sheets of the DOM (`cascade`) are left out, and so are the
contents of a closed `details`. Only the shown part of an element's text counts.

`aria` and `names` derive the role and the properties of an element, `page_lines` decides which lines stay in the tree.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final, NamedTuple

from trajmill.connectors.screens import aria
from trajmill.connectors.screens.cascade import Hidden, hidden
from trajmill.connectors.screens.dom import MAX_LEVELS, DomNode, Scope, collapse_space, is_parted, title_of
from trajmill.connectors.screens.names import CAPTIONS, Names, is_password, mask, name_and_description, value_of
from trajmill.connectors.screens.page_lines import NO_LINES, TEXT, Line, is_acted_on, place, settle
from trajmill.connectors.screens.stylesheets import Viewport
from trajmill.connectors.screens.tree import DIALECT, has_area, tree_text
from trajmill.schemas import Attachment, Observation


@dataclass(frozen=True, slots=True)
class Page:
    """Tree of a page as text, and the id of the line of each DOM node.

    `ids` has an element's own line. For text and inline elements it has the line of the run of text, or of the button
    or link that they name. For a wrapper it has the only line in it, otherwise the line of the nearest element around
    it, otherwise the first line in it. Hidden nodes are not in it. `masked` has the values of password fields.
    """

    text: str
    ids: Mapping[DomNode, int]
    title: str = ""
    masked: tuple[str, ...] = ()

    def observation(self, uri: str | None = None, attachments: tuple[Attachment, ...] = ()) -> Observation:
        """Return the page as an observation; `uri` is its address."""
        return Observation(
            self.text, form="screen", dialect=DIALECT, uri=uri, sensitive=self.masked, attachments=attachments
        )


def page_of(
    document: DomNode,
    url: str = "",
    focus: DomNode | None = None,
    targets: Collection[DomNode] = (),
    viewport: Viewport | None = None,
    hover: DomNode | None = None,
) -> Page:
    """Return the page that the document shows.

    Args:
        document: Root of the page.
        url: Address of the page, the value of the first line.
        targets: Elements named in the log as targets of actions. They keep lines of their own, unless a button or link
            around them represents them, or they contain other actable elements.
        viewport: Size of the window, if the log states it.
        hover: Element under the pointer.

    Raises:
        ValueError: The DOM is deeper than `MAX_LEVELS`, or its tree deeper than `connectors.screens.tree.MAX_DEPTH`.
    """
    title = title_of(document)
    walk = _Walk(focus, url, document, targets, hidden(document, viewport, focus, hover))
    top = walk.document(document, title, url)
    return Page(tree_text(_number_lines(top)), _Ids(walk.shown), title, tuple(walk.masked))


def _number_lines(top: Line) -> Iterator[tuple[int, str]]:
    """Yield each line with its depth, in document order, and set its id."""
    stack = [(top, 0)]
    for number in count(1):
        if not stack:
            return
        line, depth = stack.pop()
        line.place = number
        yield depth, line.text
        stack += [(child, depth + 1) for child in line.lines[::-1]]


class _Ids(Mapping[DomNode, int]):
    """Ids of lines by DOM node, computed on access, since only a few of thousands are used."""

    __slots__ = ("_shown",)

    def __init__(self, shown: dict[DomNode, Line]) -> None:
        self._shown = shown

    def __getitem__(self, node: DomNode) -> int:
        return self._shown[node].standing().place

    def __iter__(self) -> Iterator[DomNode]:
        return iter(self._shown)

    def __len__(self) -> int:
        return len(self._shown)


_WRAPPERS: Final = frozenset({aria.INLINE, aria.BLOCK})
_LAYOUT: Final = aria.LANDMARKS | frozenset({"table", "rowgroup", "cell"})
"""Roles that some elements have in name only."""
_SECTIONS: Final = frozenset({"article", "aside", "main", "nav", "section", "blockquote", "fieldset", "td"})
_TABLES: Final = frozenset({"table", "grid", "treegrid"})
_SETTING: Final = frozenset({"label", "pre", "table", "slot"})
_PAGE: Final = frozenset({"html", "body"})
SHAPES: Final = frozenset({"rect", "circle", "ellipse", "line", "path", "polygon", "polyline"})
"""Parts of a drawing that have lines if the log names them as targets or states their position."""
_CLOSED: Final = frozenset(
    {"input", "textarea", "svg", "canvas", "audio", "video", "object", "embed", "meter", "progress"}
)
"""Elements whose contents are not shown, except the text of a drawing and parts with a known position."""


class _Slots(NamedTuple):
    """Shadow root: its host, and the context of the host."""

    host: DomNode
    outer: _Slots | None
    scope: Scope


class _Around(NamedTuple):
    """Context that surrounding elements give to their contents: the lookup of ids, and how the contents are read."""

    scope: Scope
    slots: _Slots | None = None
    label: DomNode | None = None
    pre: bool = False
    disabled: bool = False
    in_section: bool = False
    data_table: bool = False


class _Walk:
    """Walk over a DOM.

    `shown` maps every represented node to its line, its own or another one; `masked` is as in `Page`.
    """

    def __init__(
        self, focus: DomNode | None, url: str, document: DomNode, targets: Collection[DomNode], unseen: Hidden
    ) -> None:
        self.shown: dict[DomNode, Line] = {}
        self.masked: list[str] = []
        self._focus = focus
        self._targets = targets
        self._hidden = unseen.nodes
        self._hollow = unseen.hollow
        self._names = Names(url, unseen.nodes)
        self._around = _Around(Scope((document,)))
        # The current run of text: its texts so far, and its nodes, including blank ones before it.
        self._run: list[str] = []
        self._run_nodes: list[DomNode] = []
        self._summaries: dict[DomNode, tuple[str, ...]] = {}

    def document(self, document: DomNode, title: str, url: str) -> Line:
        """Return the line of the document, with all lines under it."""
        top = Line("document", title, [])
        top.value = url
        self.shown[document] = top
        self._visit(document.children, top.lines, top, 1)
        self._end_run(top.lines)
        # A click on the background of a page hits the whole page.
        for child in document.children:
            if child.tag == "html":
                self.shown[child] = top
                self.shown.update({body: top for body in child.children if body.tag == "body"})
        return top

    def _visit(self, nodes: Sequence[DomNode], out: list[Line], owner: Line, level: int) -> None:
        """Append the lines of the nodes, which belong to `owner`, to `out`; text joins the run."""
        run, run_nodes = self._run, self._run_nodes
        beside = 0
        for node in nodes:
            tag = node.tag
            if node in self._hidden:
                continue
            if tag == "#text":
                run_nodes.append(node)
                text = node.text
                if run or not text.isspace() or self._around.pre:
                    run.append(text)
                beside = 0
                continue
            reading = aria.reading(tag, *node.attributes)
            role = self._role(node, reading)
            if role == aria.GONE:
                continue
            if level > MAX_LEVELS:
                raise ValueError(f"the DOM has more than {MAX_LEVELS} levels")
            joint, beside = beside, 0
            if role not in _WRAPPERS:
                self._element(node, role, reading, out, owner, level)
            elif tag == "br":
                run.append(" ")
            elif (node.box is not None or node in self._targets) and tag not in _PAGE:
                self._own_wrapper(node, out, owner, level)
            else:
                self._wrapper(node, role, out, owner, level)
                beside = self._joined(joint) if role == aria.INLINE else 0

    def _joined(self, joint: int) -> int:
        """Insert a space between two elements' texts that meet at `joint` if required; return the run's length."""
        run = self._run
        if 0 < joint < len(run) and not self._around.pre and is_parted(run[joint - 1], run[joint]):
            run.insert(joint, " ")
        return len(run)

    def _role(self, node: DomNode, reading: aria.Reading) -> str:
        """Return the role of an element; `INLINE` or `BLOCK` for a wrapper, `GONE` for a hidden element."""
        role = reading.role
        if role is None:
            role = aria.role_of(node.tag, node.attributes)
        if role == aria.GONE and node.tag == "img" and self._is_own(node):
            role = "image"
        if role == aria.GONE:
            return aria.GONE
        if node in self._hollow:
            return aria.INLINE if role == aria.INLINE else aria.BLOCK
        acted_on = (reading.is_acted_on or node is self._focus) and self._is_acted_on(node)
        if acted_on and role in _WRAPPERS:
            return "group"
        if role in _LAYOUT and not acted_on and self._is_layout(node, role):
            return aria.BLOCK
        return role

    def _is_own(self, node: DomNode) -> bool:
        """Check if an element keeps a line whatever its contents: it is actable, or the log states its position."""
        return "onclick" in node.attributes or has_area(node.box) or node in self._targets

    def _is_acted_on(self, node: DomNode) -> bool:
        attributes = node.attributes
        if node.tag in _PAGE or node.tag == "label":
            return False
        return "onclick" in attributes or attributes.get("tabindex", "-")[:1].isdecimal() or node is self._focus

    def _is_layout(self, node: DomNode, role: str) -> bool:
        """Check if an element has its role in name only: a part of a table without headers, or a section's header."""
        if role in aria.LANDMARKS:
            return self._around.in_section and "role" not in node.attributes
        if role == "table":
            return node.tag == "table" and "role" not in node.attributes and not _has_header(node)
        return role == "rowgroup" or not self._around.data_table

    def _wrapper(self, node: DomNode, role: str, out: list[Line], owner: Line, level: int) -> None:
        if node in self._names.captions:
            self.shown[node] = owner
            return
        is_block = role == aria.BLOCK
        if is_block and (self._run_nodes or self._run):
            self._end_run(out)
        start = len(out)
        if node.tag in _SETTING or node.shadow is not None:
            self._setting_wrapper(node, out, owner, level)
        elif node.children:
            self._visit(node.children, out, owner, level + 1)
        if is_block and (self._run_nodes or self._run):
            self._end_run(out)
        inside = len(out) - start
        if inside == 1 or (inside and owner.role == "document"):
            self.shown[node] = out[start]
        elif inside or owner.role != "document":
            self.shown[node] = owner
        if not inside and not is_block and (self._run_nodes or self._run):
            self._run_nodes.append(node)

    def _own_wrapper(self, node: DomNode, out: list[Line], owner: Line, level: int) -> None:
        """Visit an actable wrapper: its text is separate, and it has a line unless one in it is its own.

        A target always has one, since the click hit none of its contents.
        """
        if self._run_nodes or self._run:
            self._end_run(out)
        start = len(out)
        # count it as two levels, for the same reason as in `_setting_wrapper`
        self._wrapper(node, aria.BLOCK, out, owner, level + 1)
        inside, box = out[start:], node.box if has_area(node.box) else None
        if node.tag == "label" and len(controls := [line for line in inside if is_acted_on(line)]) == 1:
            self.shown[node] = controls[0]
            return
        if len(inside) == 1 and inside[0].role == TEXT:
            inside[0].box = inside[0].box or box
            return
        if inside and node not in self._targets:
            return
        if inside or box is not None or node in self._targets:
            role = node.tag if node.tag in SHAPES else "group"
            line = Line(role, "", inside, ident=aria.ident_of(node.attributes), box=box, is_own=True)
            out[start:] = [line]
            self.shown[node] = line

    def _setting_wrapper(self, node: DomNode, out: list[Line], owner: Line, level: int) -> None:
        """Visit a wrapper that changes how its contents are read: a label, `pre`, layout table, slot or shadow root."""
        before = self._around
        if node.tag == "label":
            self._around = before._replace(label=node)
        elif node.tag == "pre":
            self._around = before._replace(pre=True)
            if not self._run:
                # keep white space before it on its line; a `pre` that is a block has ended the run
                self._run += [blank.text for blank in self._run_nodes if blank.text]
        elif node.tag == "table":
            self._around = before._replace(data_table=False)
        # count it as two levels: it takes one call more than other nodes, and levels bound nested calls
        self._visit(self._enter(node), out, owner, level + 2)
        if node.tag == "pre":
            self._end_run(out)
        self._around = before

    def _enter(self, node: DomNode) -> Sequence[DomNode]:
        """Return the nodes drawn in this node: its shadow root, the contents of its slot, or its children.

        Ids are then looked up in the document or shadow root of these nodes.
        """
        around = self._around
        if node.shadow is not None:
            slots = _Slots(node, around.slots, around.scope)
            self._around = around._replace(slots=slots, scope=Scope(node.shadow))
            return node.shadow
        if around.slots is not None and node.tag == "slot":
            host, outer, scope = around.slots
            name = node.attributes.get("name", "")
            slotted = [child for child in host.children if child.attributes.get("slot", "") == name]
            if slotted:
                self._around = around._replace(slots=outer, scope=scope)
                return slotted
        return node.children

    def _end_run(self, out: list[Line]) -> None:
        """Append the run of text as a line, if it has any text."""
        run, nodes = self._run, self._run_nodes
        if run:
            text = run[0] if len(run) == 1 else "".join(run)
            is_kept = self._around.pre and not text.isspace()
            text = text.strip("\r\n").rstrip() if is_kept else collapse_space(text)
            run.clear()
            if text:
                line = Line(TEXT, text, NO_LINES)
                out.append(line)
                for node in nodes:
                    self.shown[node] = line
        nodes.clear()

    def _element(
        self, node: DomNode, role: str, reading: aria.Reading, out: list[Line], owner: Line, level: int
    ) -> None:
        """Append the line of an element, or the lines in it if it gets none (`place`)."""
        if self._run_nodes or self._run:
            self._end_run(out)
        line = Line(role, "", [], is_own=self._is_own(node))
        self.shown[node] = line
        before = self._around
        self._describe(node, line, reading)
        children = self._content(node, role)
        if children:
            self._visit(children, line.lines, line, level + 1)
            if self._run_nodes or self._run:
                self._end_run(line.lines)
        self._around = before
        settle(node.tag, line)
        place(line, out, owner)

    def _content(self, node: DomNode, role: str) -> Sequence[DomNode]:
        """Return the nodes to visit in an element and set their context."""
        tag, around = node.tag, self._around
        if tag in _CLOSED:
            return (
                [inner_node for inner_node in node.children if inner_node.tag != "#text" or has_area(inner_node.box)]
                if tag == "svg"
                else ()
            )
        if role == "iframe":
            if node.frame is None:
                return ()
            self._around = _Around(Scope((node.frame,)), pre=around.pre)
            return node.frame.children
        if tag in _SECTIONS and not around.in_section:
            self._around = around = around._replace(in_section=True)
        if role in _TABLES and not around.data_table:
            self._around = around._replace(data_table=True)
        children = self._enter(node)
        if tag == "details":
            is_open = "open" in node.attributes
            summaries = [child for child in children if child.tag == "summary"][:1]
            self._summaries.update(dict.fromkeys(summaries, ("expanded",) if is_open else ("collapsed",)))
            return children if is_open else summaries
        return children

    def _describe(self, node: DomNode, line: Line, reading: aria.Reading) -> None:
        """Fill a line with the element's own properties, before its contents are known."""
        tag, attributes, role = node.tag, node.attributes, line.role
        if node.box is not None:
            line.box = node.box
        if tag == "fieldset" and "disabled" in attributes:
            self._around = self._around._replace(disabled=True)
        around = self._around
        fillable = role in aria.FIELDS or role == "button"
        disabled = (fillable and (around.disabled or "disabled" in attributes)) or (
            tag == "option" and "disabled" in attributes
        )
        focused = node is self._focus
        if reading.is_stated or focused or disabled or role in aria.CHECKED:
            line.states = aria.states_of(tag, attributes, role, disabled, focused)
        if tag == "summary":
            line.states += self._summaries.get(node, ())
        if reading.has_ident:
            line.ident = aria.ident_of(attributes)
        if reading.is_named or tag in CAPTIONS:
            line.name = self._names.name(node, role, around.scope, around.label)
        if role == "link":
            line.value = self._names.address(attributes.get("href", ""))
        elif role == "iframe":
            line.value = self._names.address(attributes.get("src", ""))
        elif reading.is_valued:
            line.value = value_of(node, role)
            if line.value and is_password(attributes):
                self.masked.append(line.value)
                line.value = mask(line.value)
        if reading.is_hinted:
            line.name, line.description = name_and_description(line.name, attributes, role, fillable, around.scope)


def _has_header(table: DomNode) -> bool:
    """Check whether a table has a caption, or a header cell in one of its own rows."""
    rows = [table]
    for _ in range(3):
        if any(row.tag in ("th", "caption") for row in rows):
            return True
        rows = [
            child for row in rows if row.tag in ("table", "thead", "tbody", "tfoot", "tr") for child in row.children
        ]
    return any(row.tag == "th" for row in rows)
