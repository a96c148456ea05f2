"""The page of a Mind2Web snapshot read tag by tag, and what was not laid out not read at all.

Half of the elements of a recorded page were not laid out, and nothing of them is shown. So their tags are passed by up
to the one that closes the outermost, unless something in them was laid out, or the page could still refer to it: a
label with `for`, an element that another names in `aria-labelledby` or `aria-describedby`, and all that parents look
for among their children (captions, headers of tables, options). The attributes of tags like each other in the names of
theirs are picked the same way, which is remembered.

Only the plain XML that the recorder writes is read: tags with attributes in double quotes, texts, the references of
XML. Any other document (comments, namespaces, single quotes, tags that do not match, another encoding of line ends) is
left to a library; see `snapshot`, for which both ways lead to the same page.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from operator import itemgetter
from typing import Final

import numpy as np

from connectors.web.dom import MAX_LEVELS, NO_ATTRIBUTES, NO_CHILDREN, DomNode, Texts
from connectors.web.layout import BOX, FLAG, KEPT_HIDDEN, NUMBER, PLAIN, UNDRAWN, VALUE, Layout, meaning
from schemas.record import record

_NO_BOX: Final = 'bounding_box_rect="-1,-1,-1,-1'
_WHOLE: Final = KEPT_HIDDEN | frozenset(
    {"label", "legend", "caption", "figcaption", "title", "textarea", "select", "summary"}
)
"""Elements whose text, or whose children, count whether they were laid out or not."""

_LOOKED_FOR: Final = _WHOLE | UNDRAWN | frozenset({"text", "table", "thead", "tbody", "tfoot", "tr", "th"})
"""Elements that their parent looks for."""

_NAME: Final = r"[A-Za-z_][A-Za-z0-9_.-]*"
_FIRST: Final = re.compile(rf"({_NAME})[ ]+({_NAME})[ ]*=[ ]*")
_NEXT: Final = re.compile(rf"[ ]+({_NAME})[ ]*=[ ]*")
_BARE: Final = re.compile(rf"({_NAME})[ ]*(/?)")
_TAIL: Final = re.compile(r"[ ]*(/?)")
_REFERRED: Final = re.compile(r"""aria[_-](?:labelledby|describedby)="([^"<]*)\"""")
_IDENT: Final = re.compile(r' id="([^"]*)"')
_REFERENCE: Final = re.compile(r"&(?:#([0-9]{1,7})|#x([0-9A-Fa-f]{1,6})|(amp|lt|gt|quot|apos));")
_ENTITIES: Final = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_BREAKS: Final = str.maketrans("\n\t", "  ")
_BLANK: Final = 32

_LEVELS: Final = MAX_LEVELS // 2 - 8
"""Levels of what is read, and of what is passed by; a library that reads XML refuses twice as many."""

_LONGEST: Final = 8_000_000
"""What is longer may hold a text that is too long for a library that reads XML."""


class _OtherError(Exception):
    """The document is not as plain as what is read here; never leaves this module."""


def document_of(html: str, layout: Layout) -> DomNode | None:
    """The document of a page, without what is neither shown nor referred to; None if it is not plain XML.

    Args:
        html: the text, without a document type.
        layout: an empty one, which takes in what is read; if None comes back, what it holds means nothing.
    """
    if not _is_plain(html):
        return None
    try:
        return _Reader(html, layout).document()
    except _OtherError:
        return None


def _is_plain(html: str) -> bool:
    """Whether all characters are such that XML has as they stand."""
    if len(html) > _LONGEST or "\ufffe" in html or "\uffff" in html:
        return False
    try:
        data = html.encode()
    except UnicodeEncodeError:
        return False
    # Carriage returns are XML, but read as line feeds.
    controls = int(np.count_nonzero(np.frombuffer(data, np.uint8) < _BLANK))
    return controls == data.count(b"\n") + data.count(b"\t")


_SOME, _ALL, _OPTION = range(3)
"""What of an element's children counts: those that were laid out, all, and all with their texts."""


@record
class _Shape:
    """What a tag's name and the names of its attributes tell; places are those among the pieces between its quotes.

    Attributes:
        tag: in lower case.
        closing: the text of its closing tag; "" for an element that closes itself.
        names: of the attributes that HTML has.
        places: of their values.
        pick: the values from the pieces, where there are several.
        live: (place, kind, name) of each attribute that tells the state of a field.
        box: the place of the box, 0 if there is none.
        number: likewise of the number of the node.
        ident: likewise of the id.
        counts: what of its children counts, by its name alone.
    """

    tag: str
    closing: str
    names: tuple[str, ...]
    places: tuple[int, ...]
    pick: Callable[[list[str]], tuple[str, ...]]
    live: tuple[tuple[int, int, str], ...]
    box: int
    number: int
    ident: int
    counts: int

    def attributes(self, parts: list[str]) -> dict[str, str]:
        """The attributes by the names that HTML has."""
        names = self.names
        if len(names) > 1:
            attributes = dict(zip(names, self.pick(parts), strict=True))
        else:
            attributes = {names[0]: parts[self.places[0]]} if names else {}
        for place, kind, name in self.live:
            value = parts[place]
            if kind == VALUE or value.lower() == "true":
                attributes[name] = value
        if self.tag == "a" and "href" not in attributes:
            # Addresses were taken out of the data, links were not.
            attributes["href"] = ""
        return attributes


@lru_cache(maxsize=4096)
def _shape(between: tuple[str, ...]) -> _Shape | None:
    """The shape of a tag by what stands around its values; None if it is not plain."""
    if len(between) == 1:
        bare = _BARE.fullmatch(between[0])
        return _shaped(bare[1], bare[2], []) if bare is not None else None
    first, tail = _FIRST.fullmatch(between[0]), _TAIL.fullmatch(between[-1])
    rest = [_NEXT.fullmatch(one) for one in between[1:-1]]
    if first is None or tail is None:
        return None
    names = [first[2], *[one[1] for one in rest if one is not None]]
    if len(names) != len(between) - 1 or len(set(names)) < len(names) or any(name[:5] == "xmlns" for name in names):
        return None
    return _shaped(first[1], tail[1], names)


def _shaped(tag: str, end: str, names: list[str]) -> _Shape | None:
    kept: dict[str, int] = {}
    live = []
    measured = {BOX: 0, NUMBER: 0}
    for place, name in enumerate(names):
        kind, key = meaning(name)
        if kind == PLAIN:
            kept.setdefault(key, 2 * place + 1)
        elif kind in (VALUE, FLAG):
            live.append((2 * place + 1, kind, key))
        elif measured.get(kind):
            return None
        elif kind in measured:
            measured[kind] = 2 * place + 1
    places = tuple(kept.values())
    counts = _OPTION if tag.lower() in KEPT_HIDDEN else _ALL if tag.lower() in _WHOLE else _SOME
    return _Shape(
        tag.lower(),
        "" if end else f"/{tag}",
        tuple(kept),
        places,
        itemgetter(*(places or (0,))),
        tuple(live),
        measured[BOX],
        measured[NUMBER],
        kept.get("id", 0),
        counts,
    )


def _plain_text(text: str) -> str:
    """The text with its references resolved.

    Raises:
        _OtherError: there is another `&` in it, or what may not stand there.
    """
    if "]]>" in text:
        raise _OtherError
    if "&" not in text:
        return text
    if text.count("&") != len(_REFERENCE.findall(text)):
        raise _OtherError
    return _REFERENCE.sub(_resolved, text)


def _resolved(found: re.Match[str]) -> str:
    decimal, hexadecimal, named = found.groups()
    if named:
        return _ENTITIES[named]
    code = int(decimal) if decimal else int(hexadecimal, 16)
    if not (32 <= code < 0xD800 or 0xE000 <= code < 0xFFFE or 0x10000 <= code < 0x110000 or code in (9, 10, 13)):
        raise _OtherError
    return chr(code)


class _Reader:
    """One reading of a document."""

    def __init__(self, html: str, layout: Layout) -> None:
        self._pieces = html.split("<")
        self._layout = layout
        self._referred = {ident for found in _REFERRED.findall(html) for ident in _plain_text(found).split()}
        # Where the element ends whose tag is at a place, if it can be passed by; 0 if it cannot.
        self._ends: dict[int, int] = {}
        # The element that is being read, the tag that closes it, what of its children counts; and those around it.
        self._parent, self._closing, self._counts = DomNode("#document"), "<", _SOME
        self._around: list[tuple[DomNode, str, int]] = []

    def document(self) -> DomNode:
        """The document.

        Raises:
            _OtherError: it is not plain.
        """
        pieces, texts, around, document = self._pieces, Texts(), self._around, self._parent
        blank, text_node, add = texts.blank, texts.node, document.children.append
        place, last = 1, len(pieces)
        while place < last:
            told, mark, after = pieces[place].partition(">")
            if told == self._closing:
                self._parent, self._closing, self._counts = around.pop()
                add = self._parent.children.append
            elif _NO_BOX in told and self._counts == _SOME and (end := self._end(place, told)):
                place = end
                after = pieces[end].partition(">")[2]
            elif not mark:
                raise _OtherError
            else:
                if self._open(told, after):
                    place += 1
                    told, mark, after = pieces[place].partition(">") if place < last else ("", "", "")
                    if told != "/text":
                        raise _OtherError
                add = self._parent.children.append
            if after:
                add(blank.get(after) or text_node(_plain_text(after)))
            place += 1
        roots = [node for node in document.children if node.tag != "#text"]
        if around or len(roots) != 1 or any(text.strip(" \t\n") for text in (pieces[0], *_texts_of(document))):
            raise _OtherError
        document.children = roots
        return document

    def _open(self, told: str, after: str) -> bool:
        """Adds the node of an opening tag; whether it is an element `text`, whose closing tag must follow.

        Args:
            told: the tag.
            after: the text up to the next one, which such an element holds.

        Raises:
            _OtherError: the tag is not plain.
        """
        if "\n" in told or "\t" in told:
            told = told.translate(_BREAKS)
        parts = told.split('"')
        shape = _shape(tuple(parts[::2]))
        if shape is None or len(self._around) > _LEVELS:
            raise _OtherError
        if "&" in told:
            parts = [_plain_text(part) for part in parts]
        parent, layout, closing, counts = self._parent, self._layout, shape.closing, self._counts
        is_text = shape.tag == "text" and parent.tag != "svg"
        if is_text:
            attributes = shape.attributes(parts) if shape.names else NO_ATTRIBUTES
            node = DomNode("#text", attributes, _plain_text(after) if closing else "", NO_CHILDREN)
        else:
            node = DomNode(shape.tag, shape.attributes(parts), "", [])
        parent.children.append(node)
        if shape.number:
            layout.nodes[parts[shape.number]] = node
        if shape.box and parts[shape.box][:1].isdecimal():
            layout.shows.add(parent)
        else:
            layout.measure(node, parent, parts[shape.box] if shape.box else None, counts == _OPTION)
        if closing and not is_text:
            self._around.append((parent, self._closing, counts))
            self._parent, self._closing = node, closing
            if shape.counts > counts:
                self._counts = shape.counts
            elif counts == _SOME and shape.ident and parts[shape.ident] in self._referred:
                self._counts = _ALL
        return is_text and closing != ""

    def _end(self, place: int, told: str) -> int:
        """The place of the tag that ends an element without a box, if the element can be passed by; 0 if it cannot."""
        if place in self._ends:
            return self._ends[place]
        if told.partition(" ")[0].lower() in _LOOKED_FOR or self._is_referred(told):
            return 0
        self._pass_by(place)
        return self._ends[place]

    def _is_referred(self, told: str) -> bool:
        """Whether something else on the page may be named by an element."""
        if " for=" in told:
            return True
        found = _IDENT.search(told) if ' id="' in told else None
        return found is not None and found[1] in self._referred

    def _pass_by(self, place: int) -> None:
        """Finds where elements end from one without a box on: to its end, or to the first that cannot be passed by."""
        pieces, ends, opened = self._pieces, self._ends, [place]
        if pieces[place].partition(">")[0][-1:] == "/":
            ends[place] = place
            return
        while opened:
            place += 1
            told, mark, _ = pieces[place].partition(">") if place < len(pieces) else ("", "", "")
            if not mark or len(opened) > _LEVELS:
                raise _OtherError
            if told[:1] == "/":
                begun = opened.pop()
                if not pieces[begun].startswith(told[1:]):
                    raise _OtherError
                ends[begun] = place
            elif _NO_BOX not in told or ((" for=" in told or ' id="' in told) and self._is_referred(told)):
                break
            elif told[-1:] == "/":
                ends[place] = place
            else:
                opened.append(place)
        for begun in opened:
            ends[begun] = 0


def _texts_of(parent: DomNode) -> list[str]:
    return [node.text for node in parent.children]
