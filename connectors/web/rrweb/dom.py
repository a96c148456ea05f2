"""The DOM of an rrweb recording, rebuilt from a full snapshot and the mutations applied to it.

A node keeps one number as long as it exists, and events name it by that number. An event that names missing nodes
raises `MissingNodeError` after the rest of it is applied, and the DOM continues. Style sheets are attached to their
`style` or `link`. Sheets that a script adopts are nodes without a number at the end of their document or shadow root.
Canvases and fonts change nothing that is kept here. Source of the format: `packages/types/src/index.ts` of
rrweb-io/rrweb.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from trajmill.connectors.reading.fields import brief, objects_of
from trajmill.connectors.screens.dom import DomNode, collapse_space, text_of
from trajmill.connectors.screens.page import Page, page_of
from trajmill.connectors.screens.stylesheets import Sheet, Viewport

DOCUMENT, DOCTYPE, ELEMENT, TEXT, CDATA, COMMENT = range(6)

_STYLE: Final = re.compile(r"\s*([-\w]+)\s*:\s*((?:[^;\"'(]|\"[^\"]*\"|'[^']*'|\([^)]*\))*)")
_CHECKED: Final = ("checkbox", "radio")


class MissingNodeError(ValueError):
    """Error for an event that names nodes that the DOM does not have, or that has an invalid shape."""


class Mirror:
    """The DOM of one window after the events so far.

    Attributes:
        url: the window's address.
        focus: the focused element, as far as the recording states it.
        viewport: the size of the window; None if it is not stated.
        changes: counter that every visible change increases.
    """

    def __init__(self) -> None:
        self.url = ""
        self.focus: DomNode | None = None
        self.viewport: Viewport | None = None
        self.changes = 0
        self._hover: DomNode | None = None
        self._constructed: dict[int, Sheet] = {}
        self._adopted: dict[DomNode, list[DomNode]] = {}
        self._document: DomNode | None = None
        self._nodes: dict[int, DomNode] = {}
        self._numbers: dict[DomNode, int] = {}
        self._around: dict[DomNode, tuple[DomNode, list[DomNode]]] = {}
        self._page: tuple[int, Page] | None = None
        self._targets: set[DomNode] = set()

    @property
    def document(self) -> DomNode | None:
        """The document; None before a full snapshot."""
        return self._document

    @property
    def is_known(self) -> bool:
        """Whether there was a full snapshot."""
        return self._document is not None

    def node(self, ident: Any) -> DomNode | None:
        """Return the node of that number; None if there is none."""
        return self._nodes.get(ident) if isinstance(ident, int) else None

    def number(self, node: DomNode | None) -> int | None:
        """Return the number of the node; None if the DOM does not have it."""
        return self._numbers.get(node) if node is not None else None

    def is_within(self, ident: Any, around: DomNode) -> bool:
        """Check if the node of that number is the other node or a descendant of it."""
        node = self.node(ident)
        while node is not None and node is not around:
            node = self._around[node][0] if node in self._around else None
        return node is around

    def page(self) -> Page | None:
        """Return the current page; None before a full snapshot.

        Raises:
            ValueError: the DOM nests too deeply.
        """
        if self._document is None:
            return None
        if self._page is None or self._page[0] != self.changes:
            page = page_of(self._document, self.url, self.focus, self._targets, self.viewport, self._hover)
            self._page = self.changes, page
        return self._page[1]

    def aim_at(self, node: DomNode) -> None:
        """Mark the node as a target, so that it is no longer merged into the text around it."""
        if node not in self._targets:
            self._targets.add(node)
            self.changes += 1

    def visit(self, url: str) -> None:
        """Change the window's address."""
        if url != self.url:
            self.url = url
            self.changes += 1

    def focus_on(self, node: DomNode | None) -> None:
        """Move the focus to the node, or remove it."""
        if node is not self.focus:
            self.focus = node
            self.changes += 1

    def hover_over(self, node: DomNode | None) -> None:
        """Move the pointer to the node."""
        if node is not self._hover:
            self._hover = node
            self.changes += 1

    def resize(self, width: Any, height: Any) -> None:
        """Change the size of the window."""
        if isinstance(width, int) and isinstance(height, int) and (width, height) != self.viewport:
            self.viewport = Viewport(width, height)
            self.changes += 1

    def snapshot(self, data: Any) -> None:
        """Replace the DOM by that of a full snapshot.

        Raises:
            MissingNodeError: the snapshot holds no document; the DOM is then unknown.
        """
        self._nodes, self._numbers, self._around = {}, {}, {}
        self._targets = set()
        self._constructed, self._adopted = {}, {}
        self._document = self.focus = self._hover = None
        self.changes += 1
        root = data.get("node") if isinstance(data, dict) else None
        if not isinstance(root, dict) or root.get("type") != DOCUMENT:
            raise MissingNodeError("wanted a document in the full snapshot")
        self._document = self._built(root)[0]

    def holds(self, root: Any) -> bool:
        """Check if a serialized document has exactly the nodes of this DOM, by number, tag and text."""
        stack, count = [root], 0
        while stack:
            source = stack.pop()
            node = self.node(source.get("id")) if isinstance(source, dict) else None
            same = _node(source) if node is not None else None
            if node is None or same is None or (node.tag, node.text) != (same.tag, same.text):
                return False
            count += 1
            stack.extend(objects_of(source.get("childNodes")))
        return count == len(self._nodes)

    def mutate(self, data: dict[str, Any]) -> None:
        """Apply a mutation: removals, then additions, then changes.

        Raises:
            MissingNodeError: some changes name missing nodes; the rest is applied.
        """
        self.changes += 1
        gone = [removal.get("id") for removal in objects_of(data.get("removes"))]
        missing = [f"removal of node {brief(ident)}" for ident in gone if not self._remove(ident)]
        missing.extend(self._add_all(objects_of(data.get("adds"))))
        for change in objects_of(data.get("texts")):
            node = self.node(change.get("id"))
            if node is None:
                missing.append(f"text of node {brief(change.get('id'))}")
            else:
                node.text = change["value"] if isinstance(change.get("value"), str) else ""
                self._reset_sheet(node)
        for change in objects_of(data.get("attributes")):
            node = self.node(change.get("id"))
            if node is None or not isinstance(change.get("attributes"), dict):
                missing.append(f"attributes of node {brief(change.get('id'))}")
            else:
                _change_attributes(node, change["attributes"])
                if isinstance(change["attributes"].get("_cssText"), str):
                    node.sheet = Sheet(change["attributes"]["_cssText"])
        if missing:
            raise MissingNodeError(f"{len(missing)} changes of nodes that are not there, first the {missing[0]}")

    def edit_sheet(self, data: dict[str, Any]) -> None:
        """Add rules to a style sheet, remove rules, or replace all of it.

        Raises:
            MissingNodeError: the sheet is missing.
        """
        sheet = self._sheet(data)
        self.changes += 1
        for name in ("replace", "replaceSync"):
            if isinstance(data.get(name), str):
                sheet.replace(data[name])
        for removal in objects_of(data.get("removes")):
            sheet.delete(_path(removal.get("index")))
        _insert_rules(sheet, data.get("adds"))

    def declare(self, data: dict[str, Any]) -> None:
        """Set or remove a declaration of a rule.

        Raises:
            MissingNodeError: the sheet is missing.
        """
        sheet, path = self._sheet(data), _path(data.get("index"))
        self.changes += 1
        declaration, gone = data.get("set"), data.get("remove")
        if (
            isinstance(declaration, dict)
            and isinstance(declaration.get("property"), str)
            and isinstance(declaration.get("value"), str)
        ):
            ending = " !important" if declaration.get("priority") == "important" else ""
            sheet.declare(path, f"{declaration['property']}: {declaration['value']}{ending}")
        elif isinstance(gone, dict) and isinstance(gone.get("property"), str):
            sheet.declare(path, f"{gone['property']}: revert")

    def adopt(self, data: dict[str, Any]) -> None:
        """Replace the constructed style sheets that a document or shadow root adopts.

        Raises:
            MissingNodeError: the document or host is missing.
        """
        node = self.node(data.get("id"))
        if node is None:
            raise MissingNodeError(f"node {brief(data.get('id'))} is not there")
        self.changes += 1
        for style in objects_of(data.get("styles")):
            if isinstance(style.get("styleId"), int):
                sheet = self._constructed[style["styleId"]] = Sheet("")
                _insert_rules(sheet, style.get("rules"))
        children = node.children if node.shadow is None else node.shadow
        for old in self._adopted.pop(node, ()):
            if old in children:
                children.remove(old)
        idents = data["styleIds"] if isinstance(data.get("styleIds"), list) else []
        sheets = [self._constructed[ident] for ident in idents if type(ident) is int and ident in self._constructed]
        new = [DomNode("#comment", sheet=sheet) for sheet in sheets]
        self._adopted[node] = new
        children.extend(new)

    def _sheet(self, data: dict[str, Any]) -> Sheet:
        node, ident = self.node(data.get("id")), data.get("styleId")
        if node is not None:
            if node.sheet is None:
                node.sheet = Sheet(text_of(node))
            return node.sheet
        if isinstance(ident, int) and ident in self._constructed:
            return self._constructed[ident]
        raise MissingNodeError(f"the style sheet of node {brief(data.get('id'))} is not there")

    def _reset_sheet(self, text: DomNode) -> None:
        """Let the text of a `style` replace the rules that it had."""
        parent = self._around[text][0] if text in self._around else None
        if parent is not None and parent.tag == "style":
            parent.sheet = None

    def fill(self, node: DomNode, text: str, checked: bool) -> None:
        """Set the text of a field, or its checked state."""
        self.changes += 1
        attributes = node.attributes
        if node.tag == "input" and attributes.get("type", "").lower() in _CHECKED:
            if checked:
                attributes["checked"] = ""
            else:
                attributes.pop("checked", None)
        elif node.tag == "select":
            for option in options_of(node):
                if option_value(option) == text:
                    option.attributes["selected"] = ""
                elif "multiple" not in attributes:
                    option.attributes.pop("selected", None)
        else:
            attributes["value"] = text

    def play(self, node: DomNode, plays: bool) -> None:
        """Mark a video or sound as playing or paused."""
        self.changes += 1
        if plays:
            node.attributes["playing"] = ""
        else:
            node.attributes.pop("playing", None)

    def _built(self, root: dict[str, Any]) -> tuple[DomNode, list[int]]:
        """Build the node of a serialized node with all its descendants, and return it with the numbers of them all."""
        top, numbers = _node(root), list[int]()
        self._know(root, top, numbers)
        stack = [(root, top)]
        while stack:
            source, parent = stack.pop()
            for serialized in objects_of(source.get("childNodes")):
                child = _node(serialized)
                self._know(serialized, child, numbers)
                siblings = _place_in(parent, serialized)
                siblings.append(child)
                self._around[child] = parent, siblings
                stack.append((serialized, child))
        return top, numbers

    def _know(self, source: dict[str, Any], node: DomNode, numbers: list[int]) -> None:
        ident = source.get("id")
        if isinstance(ident, int):
            self._nodes[ident] = node
            self._numbers[node] = ident
            numbers.append(ident)

    def _remove(self, ident: Any) -> bool:
        node = self.node(ident)
        around = self._around.get(node) if node is not None else None
        if node is None or around is None:
            return False
        parent, siblings = around
        if parent.frame is node:
            parent.frame = None
        else:
            siblings.remove(node)
        for inner in _all(node):
            self._around.pop(inner, None)
            number = self._numbers.pop(inner, -1)
            if self._nodes.get(number) is inner:
                del self._nodes[number]
            if self.focus is inner:
                self.focus = None
            if self._hover is inner:
                self._hover = parent
        return True

    def _add_all(self, adds: list[dict[str, Any]]) -> list[str]:
        """Add nodes, each once its parent and next sibling exist; report those that never get a parent.

        A node whose next sibling never appears becomes the last child of its parent.
        """
        waiting: dict[int, list[dict[str, Any]]] = {}
        ready = [entry for entry in adds[::-1] if isinstance(entry.get("node"), dict)]
        while ready:
            addition = ready.pop()
            absent = self._absent(addition)
            if absent is None:
                for number in self._add(addition):
                    ready.extend(reversed(waiting.pop(number, ())))
            else:
                waiting.setdefault(absent, []).append(addition)
            if not ready:
                for number in [
                    number for number, additions in waiting.items() if self.node(additions[0].get("parentId"))
                ]:
                    ready.extend({**orphaned, "nextId": None} for orphaned in reversed(waiting.pop(number)))
        return [
            f"parent {brief(orphan.get('parentId'))} of an added node"
            for unplaced in waiting.values()
            for orphan in unplaced
        ]

    def _absent(self, addition: dict[str, Any]) -> int | None:
        """Return the number of a node that an added node waits for; None if it can be added."""
        for name in ("parentId", "nextId"):
            number = addition.get(name)
            if self.node(number) is None and (name == "parentId" or isinstance(number, int)):
                if name == "nextId" and number == -1:
                    continue
                return number if isinstance(number, int) else -1
        return None

    def _add(self, addition: dict[str, Any]) -> list[int]:
        """Add a node whose parent exists, and return the numbers that are new."""
        parent = self._nodes[addition["parentId"]]
        source = addition["node"]
        old = self.node(source.get("id"))
        if old is not None:
            above: DomNode | None = parent
            while above is not None and above is not old:
                above = self._around[above][0] if above in self._around else None
            if above is old:
                return []
            self._remove(source["id"])
        node, numbers = self._built(source)
        if node.tag == "#document":
            parent.frame = node
            self._around[node] = parent, parent.children
            return numbers
        siblings = _place_in(parent, source)
        following = self.node(addition.get("nextId"))
        after = self._around.get(following) if following is not None else None
        if following is not None and after is not None and after[1] is siblings:
            siblings.insert(siblings.index(following), node)
        else:
            adopted = len(self._adopted.get(parent, ()))
            siblings.insert(len(siblings) - adopted, node)
        self._around[node] = parent, siblings
        self._reset_sheet(node)
        return numbers


def _all(node: DomNode) -> Iterator[DomNode]:
    """Yield the node and all its descendants, including shadow roots and frames."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(current.children)
        stack.extend(current.shadow or ())
        if current.frame is not None:
            stack.append(current.frame)


def _place_in(parent: DomNode, source: dict[str, Any]) -> list[DomNode]:
    """Return the list that a child of the parent belongs to: its children, or those of its shadow root."""
    if source.get("isShadow") is not True:
        return parent.children
    if parent.shadow is None:
        parent.shadow = []
    return parent.shadow


def _node(source: dict[str, Any]) -> DomNode:
    """Build the node of a serialized node, without its descendants."""
    kind = source.get("type")
    if kind == ELEMENT:
        tag = source.get("tagName")
        node = DomNode(tag.lower() if isinstance(tag, str) and tag else "div")
        if isinstance(source.get("attributes"), dict):
            _change_attributes(node, source["attributes"])
            text = source["attributes"].get("_cssText")
            if isinstance(text, str):
                node.sheet = Sheet(text)
        return node
    if kind == TEXT:
        text = source.get("textContent")
        return DomNode("#text", text=text if isinstance(text, str) else "")
    return DomNode("#document" if kind == DOCUMENT else "#comment")


def _change_attributes(node: DomNode, changes: dict[str, Any]) -> None:
    """Set attributes, or remove those that are null; a style given in parts is changed in these parts.

    The recorder's own attributes (`rr_…`, `_cssText`) are left out, except the state of a video or sound.
    """
    attributes = node.attributes
    for name, value in changes.items():
        key = name.lower()
        if key.startswith(("rr_", "_")):
            if key == "rr_mediastate":
                _change_attributes(node, {"playing": value == "played"})
        elif value is None or value is False:
            attributes.pop(key, None)
        elif isinstance(value, str):
            attributes[key] = value
        elif value is True:
            attributes[key] = ""
        elif isinstance(value, int | float):
            attributes[key] = str(value)
        elif key == "style" and isinstance(value, dict):
            attributes[key] = _change_style(attributes.get(key, ""), value)


def _change_style(style: str, changes: dict[str, Any]) -> str:
    """Return the style attribute with some declarations set, or removed (`false`)."""
    declared = {name.lower(): value.strip() for name, value in _STYLE.findall(style)}
    for name, value in changes.items():
        declaration = value[0] if isinstance(value, list) and value else value
        if isinstance(declaration, str):
            declared[name.lower()] = declaration
        else:
            declared.pop(name.lower(), None)
    return "; ".join([f"{name}: {value}" for name, value in declared.items()])


def _path(index: Any) -> list[int]:
    """Return the path of a rule; the first rule if none is stated."""
    path = index if isinstance(index, list) else [0 if index is None else index]
    return path if all(type(step) is int for step in path) else []


def _insert_rules(sheet: Sheet, adds: Any) -> None:
    for addition in objects_of(adds):
        if isinstance(addition.get("rule"), str):
            sheet.insert(_path(addition.get("index")), addition["rule"])


def options_of(select: DomNode) -> list[DomNode]:
    """Return the options of a list."""
    return [node for node in _all(select) if node.tag == "option"]


def option_value(option: DomNode) -> str:
    """Return the value of a list when the option is chosen."""
    return option.attributes.get("value", collapse_space(text_of(option)))
