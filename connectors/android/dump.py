"""Screens from the XML of `uiautomator dump`, and from Appium's page sources of Android.

A dump is XML without text content: one element per view, with its state in attributes. It is read tag by tag without an
XML library. Most tags are repeated literally from screen to screen, and the results for the last 16384 tags are cached,
so that a repeated view costs one lookup. This also makes hostile input harmless: there is no document type, no entity
beyond the five of XML and no nesting on the call stack.

The reader is lenient where real dumps violate XML 1.0: an emoji may be written as two surrogate references
(`&#55357;&#56832;`), control characters are unescaped, NULs pad the end, and the tool's own messages surround the
document.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from trajmill.connectors.android.dump_tag import (
    CLOSE,
    CLOSE_CONTAINER,
    CLOSE_TAG,
    LONGEST_REMEMBERED,
    NOTHING,
    OPEN_CONTAINER,
    SILENT,
    VIEW,
    VIEW_ALONE,
    Attributes,
    BadTagError,
    read_tag,
    remembered_tag,
)
from trajmill.connectors.android.view import Screen, Source, Touch, drawn_box, is_outside, window_node
from trajmill.connectors.screens.tree import MAX_DEPTH, MAX_TAGS, Box, Node, Tree
from trajmill.schemas import ParseError

_IOS: Final = re.compile(rb"<(?:XCUIElementType\w*|AppiumAUT)[\s>]")


def read_dump(data: bytes, uri: str, member: str = "", is_raw: bool = False) -> Screen:
    """Read the screen of a dump.

    Args:
        is_raw: whether the screen is shown as the dump itself.

    Raises:
        ParseError: `not_android` (Appium's page source of an iOS app), `empty`, `no_hierarchy` (an error of the tool,
            or another kind of file), `doctype`, `bad_xml`, `not_utf8`, `truncated`, `nested_too_deeply`,
            `too_many_nodes`, or `no_nodes` (a document without a view).
    """
    text, bytes_before = _decode(data, uri, member)
    document = text
    start = text.find("<")
    if start < 0:
        words = " ".join(text.split())[:200]
        detail = f"wanted XML, met: {words}" if words else "wanted XML, met nothing"
        raise ParseError(uri, 0, "no_hierarchy" if words else "empty", detail, member, data[:512])
    if is_ios(text[:4096].encode("utf-8", "replace")):
        raise ParseError(uri, 0, "not_android", "a page source of iOS, whose elements are not read here", member)
    if "<!" in text[start:]:
        text = _without_comments(text, uri, member)
    if text.count("<") > MAX_TAGS:
        raise ParseError(uri, 0, "too_many_nodes", f"more than {MAX_TAGS} tags", member, data[:512])
    pieces = text[start + 1 :].split("<")
    walk = _Walk()
    try:
        walk.pass_by(pieces)
    except BadTagError as error:
        tag_begin = start + sum(len(piece) + 1 for piece in pieces[: walk.place])
        reason = "truncated" if walk.place >= len(pieces) - 1 else "bad_xml"
        excerpt = text[tag_begin : tag_begin + 512].encode("utf-8", "replace")
        raise ParseError(uri, bytes_before(tag_begin), reason, str(error), member, excerpt) from None
    if not walk.nodes:
        raise ParseError(uri, 0, "no_nodes", "the hierarchy holds no view", member, data[:512])
    if max(walk.depths) >= MAX_DEPTH:
        raise ParseError(uri, 0, "nested_too_deeply", f"more than {MAX_DEPTH} levels of nodes", member, data[:512])
    return walk.screen(Source(document, "application/xml", "uiautomator") if is_raw else None)


def is_ios(head: bytes) -> bool:
    """Return True if a document begins like Appium's page source of an iOS app."""
    return _IOS.search(head[:4096]) is not None


class _Walk:
    """The tree of one dump, built tag by tag; `place` is the index of the current tag."""

    __slots__ = (
        "_containers",
        "_displays",
        "_drawn",
        "_window",
        "depths",
        "marks",
        "nodes",
        "package",
        "place",
        "reach",
    )

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.depths: list[int] = []
        self.marks: list[tuple[int, Touch]] = []
        self.package = ""
        self.place = 0
        self.reach: int | None = None
        self._displays = 0
        self._containers: list[str] = []
        self._window = SILENT
        self._drawn: Box | None = None

    def pass_by(self, pieces: list[str]) -> None:
        """Process the tags up to the end of the document; the tool may have printed more after it."""
        nodes, depths, marks = self.nodes, self.depths, self.marks
        opened: list[int] = []
        depth = 0
        for self.place, piece in enumerate(pieces):
            if piece == "/node>":
                tag = CLOSE_TAG
            else:
                tag = remembered_tag(piece) if len(piece) <= LONGEST_REMEMBERED else read_tag(piece)
            kind, node, touch, attributes = tag
            if kind <= VIEW_ALONE:
                if not opened:
                    depth = self._root(attributes)
                inner = depth
                if node is not None and is_outside(node.bounds, self._drawn):
                    node = None
                if node is not None:
                    nodes.append(node)
                    depths.append(depth)
                    inner += 1
                if touch is not None:
                    marks.append((len(nodes) if node is not None else 0, touch))
                if kind == VIEW:
                    opened.append(depth)
                    depth = inner
            elif kind == CLOSE and opened:
                depth = opened.pop()
            elif self._contain(kind, attributes, bool(opened)):
                return
        self.place = len(pieces)
        raise BadTagError("the document ends within an element")

    def _contain(self, kind: int, attributes: Attributes, within: bool) -> bool:
        """Process a tag that is no view; return True if the document ends with it."""
        container = attributes[0]
        if kind == NOTHING:
            return False
        if within or kind == CLOSE:
            raise BadTagError("a view closed by another element" if within else "a view closed that was not opened")
        window = attributes if container == "window" and kind != CLOSE_CONTAINER else SILENT
        if kind == OPEN_CONTAINER:
            self._containers.append(container)
            if container == "display":
                self._displays += 1
                self.reach = len(self.nodes) if self._displays == 2 else self.reach
            self._window = window if container == "window" else self._window
        elif kind == CLOSE_CONTAINER:
            if not self._containers or self._containers.pop() != container:
                raise BadTagError(f"</{container}> closes another element")
            self._window = SILENT if container == "window" else self._window
        return not self._containers

    def _root(self, attributes: Attributes) -> int:
        """Begin a window, since each view without a parent is a window's root; return the depth of its views."""
        if not self._containers:
            raise BadTagError("a view outside of <hierarchy>")
        _, package, own_bounds, _, _ = attributes
        _, _, bounds, states, title = self._window
        self._drawn = drawn_box(bounds, own_bounds)
        focused = tuple([state for state in states if state == "focused"])
        self.nodes.append(window_node(package, title, bounds or own_bounds, focused))
        self.depths.append(0)
        if focused or not self.package:
            self.package = package
        return 1

    def screen(self, source: Source | None) -> Screen:
        """Return the screen after the document has ended."""
        tree = Tree(self.nodes, self.depths)
        return Screen(tree, tree.text, self.package, self.marks, source, self.reach)


def _decode(data: bytes, uri: str, member: str) -> tuple[str, Callable[[int], int]]:
    """Decode a dump, and return a function that counts the bytes before an index in its text; NULs become spaces."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        # Output redirected in a Windows shell, which converts it to UTF-16.
        return data.decode("utf-16", "replace").replace("\0", " "), lambda index: 2 + 2 * index
    skipped = 3 if data[:3] == b"\xef\xbb\xbf" else 0
    try:
        text = data[skipped:].decode()
    except UnicodeDecodeError as error:
        fault_offset = skipped + error.start
        # A file that ends within a character is cut, not wrongly encoded.
        reason = "truncated" if error.reason == "unexpected end of data" else "not_utf8"
        detail = f"wanted UTF-8: {error.reason}"
        raise ParseError(
            uri, fault_offset, reason, detail, member, data[max(0, fault_offset - 64) : fault_offset + 64]
        ) from None
    if "\0" in text:
        text = text.replace("\0", " ")
    return text, lambda index: skipped + len(text[:index].encode())


def _without_comments(text: str, uri: str, member: str) -> str:
    """Blank out comments without moving the text; refuse a document type, so that no entity can be declared."""
    parts, done = [], 0
    while (begin := text.find("<!", done)) >= 0:
        end = text.find("-->", begin + 4) if text.startswith("<!--", begin) else -1
        if end < 0:
            break
        parts += [text[done:begin], " " * (end + 3 - begin)]
        done = end + 3
    if begin >= 0:
        reason = "doctype" if text[begin : begin + 9].upper() == "<!DOCTYPE" else "bad_xml"
        excerpt = text[begin : begin + 256]
        detail = f"a dump holds no declarations, met {excerpt[:40]!r}"
        offset = len(text[:begin].encode("utf-8", "replace"))
        raise ParseError(uri, offset, reason, detail, member, excerpt.encode("utf-8", "replace"))
    return "".join([*parts, text[done:]])
