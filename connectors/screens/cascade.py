"""Nodes of a page that its style sheets and attributes hide.

The module resolves `display`, `visibility`, `content-visibility`, and `opacity: 0` with `pointer-events: none`, by
importance, cascade layer, specificity and order (CSS Cascading and Inheritance 5). It substitutes custom properties
(`var()`). The sheets come from the nodes of the DOM (`DomNode.sheet`, the text of a `style`) and from `style`
attributes. As in browsers, `hidden`, a closed `dialog` and a closed `popover` mean `display: none`, which a sheet may
override. A shadow root has its own sheets, an iframe its own document. Elements that a sheet moves outside the window
or makes too small to see are not detected, and sizes of containers (`@container`) are unknown.

`aria-hidden` marks elements that a screen reader skips, often icons that a person sees. It hides only if some of the
sheets are not in the log, since then it mostly marks elements that those sheets hide.

The work is bounded: the sheets of a page that needs more than `_MOST_WORK` comparisons are ignored from there on.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

import tinycss2
from cssselect2 import Matcher

from trajmill.connectors.screens.dom import DomNode, text_of
from trajmill.connectors.screens.stylesheets import (
    Declarations,
    Layer,
    Rules,
    Viewport,
    declarations,
    media_of,
    parse_sheet,
)

VIEWPORT: Final = Viewport(1280, 720)
"""Window size for a log that does not state one."""

_MOST_WORK: Final = 3_000_000
_MOST_RULES: Final = 20_000
_INLINE: Final = re.compile(r"display|visibility|opacity|pointer-events|--", re.IGNORECASE)
_VARIABLE: Final = re.compile(r"var\(\s*(--[^\s,()]+)\s*(?:,(.*))?\)", re.DOTALL)
_MOST_VARIABLES: Final = 8
"""Largest length of a chain of custom properties."""
_UNLAYERED: Final = 1 << 30

_Priority: TypeAlias = tuple[Any, ...]
"""Priority with the order of the cascade: importance, layer, specificity, order."""


@dataclass(slots=True, eq=False)
class Hidden:
    """Parts of a page that are not shown.

    Attributes:
        nodes: Elements that are hidden with their whole contents, and texts.
        hollow: Elements that are hidden themselves, although some of their contents are shown.
    """

    nodes: set[DomNode] = field(default_factory=set)
    hollow: set[DomNode] = field(default_factory=set)


class _WorkError(Exception):
    """Error of a page that needs more work than any real page."""


class _Work:
    """Budget of comparisons for a page."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = _MOST_WORK

    def charge(self, amount: int) -> None:
        self.left -= amount
        if self.left < 0:
            raise _WorkError


class _Element:
    """Element with the interface that cssselect2 expects: its `ElementWrapper` and the wrapped element in one."""

    in_html_document: Final = True
    namespace_url: Final = ""

    def __init__(self, node: DomNode, parent: _Element | None, index: int, states: frozenset[str], page: _Page) -> None:
        self.node = node
        self.parent = parent
        self.index = index
        self.local_name = self.tag = node.tag
        self.etree_element = self
        self.attrib = {**node.attributes, **dict.fromkeys(states, "")} if states else node.attributes
        self.get = self.attrib.get
        self.id = self.attrib.get("id")
        names = self.attrib.get("class")
        self.classes: Collection[str] = set(names.split()) if names else ()
        self.page = page

    @property
    def text(self) -> str:
        return "".join([child.text for child in self.node.children])

    @cached_property
    def etree_children(self) -> list[DomNode]:
        """Child elements; under a host, those of its shadow root."""
        node = self.node
        return _elements(node.shadow if ":host" in self.attrib and node.shadow is not None else node.children)

    @property
    def etree_siblings(self) -> list[DomNode]:
        siblings = [self.node] if self.parent is None else self.parent.etree_children
        self.page.work.charge(1 + len(siblings) // 16)
        return siblings

    @cached_property
    def children(self) -> list[_Element]:
        return [self.page.element(node, self, number) for number, node in enumerate(self.etree_children)]

    def iter_children(self) -> Iterator[_Element]:
        self.page.work.charge(1 + len(self.etree_children))
        return iter(self.children)

    def iter_subtree(self) -> Iterator[_Element]:
        stack = [self]
        while stack:
            element = stack.pop()
            self.page.work.charge(1)
            yield element
            stack += element.children[::-1]

    @property
    def previous(self) -> _Element | None:
        return self.parent.children[self.index - 1] if self.parent is not None and self.index else None

    @property
    def previous_siblings(self) -> list[_Element]:
        self.page.work.charge(1 + self.index)
        return self.parent.children[: self.index][::-1] if self.parent is not None else []

    def iter_next_siblings(self) -> Iterator[_Element]:
        siblings = self.parent.children if self.parent is not None else [self]
        self.page.work.charge(len(siblings) - self.index)
        return iter(siblings[self.index + 1 :])

    def iter_siblings(self) -> Iterator[_Element]:
        siblings = self.parent.children if self.parent is not None else [self]
        self.page.work.charge(len(siblings))
        return iter(siblings)

    @property
    def ancestors(self) -> list[_Element]:
        elements = []
        element = self.parent
        while element is not None:
            elements.append(element)
            element = element.parent
        self.page.work.charge(1 + len(elements))
        return elements

    @cached_property
    def lang(self) -> str:
        language = self.attrib.get("lang")
        if language is not None:
            return language.lower()
        return self.parent.lang if self.parent is not None else ""

    @cached_property
    def in_disabled_fieldset(self) -> bool:
        parent = self.parent
        if parent is None:
            return False
        return (parent.tag == "fieldset" and "disabled" in parent.attrib) or parent.in_disabled_fieldset


class _Index(Matcher):
    """Rules whose conditions hold, by the id, class or tag that they require of an element."""

    def __init__(self, sheets: Sequence[Rules], viewport: Viewport) -> None:
        super().__init__()
        layers = _ranks([layer for sheet in sheets for layer in sheet.layers])
        for sheet in sheets:
            for rule in sheet.rules:
                if self.order < _MOST_RULES and all(holds(viewport) for holds in rule.conditions):
                    rank = layers[rule.layer]
                    self.add_selector(rule.selector, (rank, tuple([-part for part in rank]), rule.declarations))

    def add_relevant_selectors(self, element: _Element, selectors: Sequence[Any], relevant: list[Any]) -> None:
        """Charge for the comparisons before they are made."""
        element.page.work.charge(1 + len(selectors))
        super().add_relevant_selectors(element, selectors, relevant)


def _cascade(
    element: _Element | None, index: _Index | None, host: _Element | None, inner: _Index | None, inline: Declarations
) -> dict[str, str]:
    """Return the winning values by property.

    Args:
        element: Element in its document or shadow root, if that has rules.
        index: Rules of that document or shadow root.
        host: Element as the host of its own shadow root, if that has rules; outer rules override them.
        inner: Rules of the shadow root.
        inline: Declarations of the `style` attribute.
    """
    winners: dict[str, tuple[_Priority, str]] = {}
    for scope, subject, rules in ((0, host, inner), (1, element, index)):
        if subject is None or rules is None:
            continue
        for specificity, order, _, (rank, reverse, rule_declarations) in rules.match(subject):
            for name, value, is_important in rule_declarations:
                weight = (1, -scope, reverse) if is_important else (0, scope, rank)
                _set(winners, name, value, (*weight, specificity, order))
    for name, value, is_important in inline:
        _set(winners, name, value, (1, 1) if is_important else (0, 2))
    return {name: value for name, (_, value) in winners.items()}


def _set(winners: dict[str, tuple[_Priority, str]], name: str, value: str, priority: _Priority) -> None:
    if name not in winners or winners[name][0] <= priority:
        winners[name] = priority, value


def _ranks(layers: Iterable[Layer]) -> dict[Layer, tuple[int, ...]]:
    """Rank layers: later layers above earlier ones, and rules outside an inner layer above those inside."""
    order: dict[Layer, int] = {}
    for layer in layers:
        order.setdefault(layer, len(order))
    ranks = {layer: (*(order[layer[:end]] for end in range(1, len(layer) + 1)), _UNLAYERED) for layer in order}
    return {(): (_UNLAYERED,), **ranks}


@lru_cache(maxsize=64)
def _index(sheets: tuple[Rules, ...], viewport: Viewport) -> _Index:
    return _Index(sheets, viewport)


class _Style(NamedTuple):
    """Inherited properties that an element passes to its contents."""

    is_visible: bool = True
    takes_pointer: bool = True
    variables: Mapping[str, str] = MappingProxyType({})


_NO_STATES: Final[frozenset[str]] = frozenset()
_UNDRAWN: Final = frozenset({"head", "script", "style", "template", "noscript", "link", "meta", "base", "title"})
"""Elements whose contents are skipped."""


def hidden(
    document: DomNode,
    viewport: Viewport | None = None,
    focus: DomNode | None = None,
    hover: DomNode | None = None,
) -> Hidden:
    """Find the parts of a page that are not shown.

    Args:
        document: Root of the page.
        viewport: Size of the window; `VIEWPORT` if it is unknown.
        hover: Element under the pointer.
    """
    page = _Page(viewport or VIEWPORT, _states(document, focus, hover))
    page.resolve(document)
    return page.hidden


def _states(document: DomNode, focus: DomNode | None, hover: DomNode | None) -> dict[DomNode, frozenset[str]]:
    """Return the states of elements that are not in the markup."""
    if focus is None and hover is None:
        return {}
    around: dict[DomNode, DomNode] = {}
    stack = [document]
    while stack:
        node = stack.pop()
        for child in (*node.children, *(node.shadow or ()), *((node.frame,) if node.frame is not None else ())):
            if child.tag != "#text" and child not in around:
                around[child] = node
                stack.append(child)
    states: dict[DomNode, frozenset[str]] = {}
    for target, state in ((hover, ":hover"), (focus, ":focus-within")):
        element = target
        while element is not None:
            states[element] = states.get(element, _NO_STATES) | {state}
            element = around.get(element)
    if focus is not None:
        states[focus] |= {":focus", ":focus-visible"}
    return states


class _Page:
    """State of the resolution of one page."""

    def __init__(self, viewport: Viewport, states: dict[DomNode, frozenset[str]]) -> None:
        self.hidden = Hidden()
        self.work = _Work()
        self._viewport = viewport
        self._states = states
        self._scopes: list[tuple[Sequence[DomNode], DomNode | None, _Style, DomNode | None]] = []
        self._unseen: dict[DomNode, DomNode | None] = {}
        self._hosts: set[DomNode] = set()

    def resolve(self, document: DomNode) -> None:
        """Resolve a document with its shadow roots and frames."""
        self._scopes.append((document.children, None, _Style(), None))
        while self._scopes:
            self._scope(*self._scopes.pop())
        self.hidden.nodes.update(node for node in self._unseen if node not in self.hidden.hollow)

    def element(self, node: DomNode, parent: _Element | None, index: int, state: str = "") -> _Element:
        """Return an element with the interface for selectors."""
        states = self._states.get(node, _NO_STATES)
        return _Element(node, parent, index, states | {state} if state else states, self)

    def _scope(self, roots: Sequence[DomNode], host: DomNode | None, style: _Style, around: DomNode | None) -> None:
        """Resolve a document, or the shadow root of a host, with its style and the nearest unseen element around it."""
        sheets, is_whole = _sheets(roots, self._viewport)
        index = _index(sheets, self._viewport) if sheets else None
        top = self.element(host, None, 0, ":host") if host is not None else None
        stack: list[tuple[DomNode, _Element | None, _Style, DomNode | None]] = []
        for number, node in enumerate(_elements(roots)):
            stack.append((node, self.element(node, top, number) if index is not None else None, style, around))
        while stack:
            node, element, style, around = stack.pop()
            if node.tag in _UNDRAWN or node in self._hosts:
                continue
            own = self._style(node, element, style, index, is_whole)
            if own is None:
                self.hidden.nodes.add(node)
                continue
            style, is_open = own
            if not style.is_visible:
                self._unseen[node] = around
                around = node
                self.hidden.nodes.update(_texts(node))
            elif around is not None:
                self._show_through(around)
                around = None
            if not is_open:
                self.hidden.nodes.update(node.children, node.shadow or ())
                continue
            if node.frame is not None:
                self._scopes.append((node.frame.children, None, _Style(), around))
                continue
            if node.shadow is not None:
                self._hosts.add(node)
                self._scopes.append((node.shadow, node, style, around))
            if element is not None:
                stack += [(child.node, child, style, around) for child in element.children]
            elif node.children:
                stack += [(child, None, style, around) for child in node.children if child.tag[:1] != "#"]

    def _show_through(self, node: DomNode | None) -> None:
        """Mark an unseen element, and those around it, as having shown contents."""
        while node is not None and node not in self.hidden.hollow:
            self.hidden.hollow.add(node)
            node = self._unseen[node]

    def _style(
        self, node: DomNode, element: _Element | None, around: _Style, index: _Index | None, is_whole: bool
    ) -> tuple[_Style, bool] | None:
        """Return (inherited style, whether the contents are shown) of an element; None if it is not displayed."""
        attributes = node.attributes
        if not is_whole and "aria-hidden" in attributes and attributes["aria-hidden"].lower() == "true":
            return None
        styles = self._values(node, element, index)
        variables = around.variables
        if any(name[:2] == "--" for name in styles):
            variables = {**variables, **{name: value for name, value in styles.items() if name[:2] == "--"}}
        if any(value[:4] == "var(" for value in styles.values()):
            styles = {name: _substitute(value, variables) for name, value in styles.items()}
        display = styles.get("display", "revert")
        if display == "none" or (display.startswith("revert") and _is_closed(node)):
            return None
        if not styles:
            return around, True
        setting = styles.get("visibility", "inherit")
        is_visible = around.is_visible if setting in _INHERITED else setting not in ("hidden", "collapse")
        setting = styles.get("pointer-events", "inherit")
        takes_pointer = around.takes_pointer if setting in _INHERITED else setting != "none"
        if not takes_pointer and _is_zero(styles.get("opacity", "1")):
            return None
        return _Style(is_visible, takes_pointer, variables), styles.get("content-visibility") != "hidden"

    def _values(self, node: DomNode, element: _Element | None, index: _Index | None) -> dict[str, str]:
        """Return the values of an element by property, from the sheets and the `style` attribute."""
        style = node.attributes.get("style")
        inline = _inline(style) if style and _INLINE.search(style) else ()
        sheets = _sheets(node.shadow, self._viewport)[0] if node.shadow is not None else ()
        if index is None and not sheets:
            return {name: value for name, value, _ in inline} if inline else _NO_VALUES
        try:
            inner = _index(sheets, self._viewport) if sheets else None
            return _cascade(element, index, self.element(node, None, 0, ":host") if sheets else None, inner, inline)
        except _WorkError:
            return {name: value for name, value, _ in inline}


_NO_VALUES: Final[dict[str, str]] = {}
_INHERITED: Final = frozenset({"inherit", "unset", "revert", "revert-layer"})


def _elements(nodes: Iterable[DomNode]) -> list[DomNode]:
    return [node for node in nodes if node.tag[:1] != "#"]


def _texts(node: DomNode) -> list[DomNode]:
    """Return the texts directly in an element, without blank ones, which documents may share."""
    return [child for child in (*node.children, *(node.shadow or ())) if child.tag == "#text" and child.text.strip()]


def _is_closed(node: DomNode) -> bool:
    """Check whether an element is hidden by itself, without a sheet."""
    attributes = node.attributes
    return "hidden" in attributes or "popover" in attributes or (node.tag == "dialog" and "open" not in attributes)


def _substitute(value: str, variables: Mapping[str, str]) -> str:
    """Return a value with its custom property substituted; `unset` if the property has no value."""
    for _ in range(_MOST_VARIABLES):
        reference = _VARIABLE.fullmatch(value)
        if reference is None:
            return value
        known = variables.get(reference[1], "initial")
        value = (reference[2] or "unset").strip() if known == "initial" else known
    return "unset"


def _is_zero(value: str) -> bool:
    try:
        return float(value.removesuffix("%")) <= 0
    except ValueError:
        return False


@lru_cache(maxsize=4096)
def _inline(style: str) -> Declarations:
    """Return the declarations of `PROPERTIES` in a `style` attribute, important ones last.

    Among declarations of the same property and importance, the last counts.
    """
    stated = declarations(tinycss2.parse_blocks_contents(style, skip_comments=True, skip_whitespace=True))
    return tuple(sorted(stated, key=lambda declaration: declaration[2]))


def _sheets(roots: Sequence[DomNode], viewport: Viewport) -> tuple[tuple[Rules, ...], bool]:
    """Return (rules of the sheets in a document or shadow root, whether it has some and all are in the log)."""
    rules: list[Rules] = []
    is_whole = True
    stack = [*roots][::-1]
    while stack:
        node = stack.pop()
        if node.sheet is not None or node.tag in ("style", "link"):
            attributes = node.attributes
            is_css = attributes.get("type", "").lower() in ("", "text/css")
            if not is_css or "disabled" in attributes or not media_of(attributes.get("media", ""))(viewport):
                continue
            if node.sheet is not None:
                rules += node.sheet.rules
            elif node.tag == "style":
                rules.append(parse_sheet(text_of(node)))
            elif "stylesheet" in attributes.get("rel", "").lower().split():
                is_whole = False
        elif node.children:
            stack += node.children[::-1]
    return tuple(rules), is_whole and bool(rules)
