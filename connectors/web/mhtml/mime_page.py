"""A saved page (MHTML, RFC 2557) as a DOM: the parts of a `multipart/related` message, put together.

Browsers write the page as the first part, each iframe's document as a part of its own that the iframe names by
`cid:`, and images and style sheets, which are not read. Bodies are quoted-printable or base64.
"""

from __future__ import annotations

import binascii
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Final
from urllib.parse import unquote

from trajmill.connectors.screens.dom import DomNode, walk
from trajmill.connectors.web.markup import html_document

HEADER_BYTES: Final = 65536
MAX_PARTS: Final = 10000

_FIELD: Final = re.compile(rb"([!-9;-~]+)[ \t]*:[ \t]*((?:[^\r\n]|\r?\n[ \t])*)\r?\n")
_PARAMETER: Final = re.compile(r";\s*([\w-]+)\s*=\s*(?:\"([^\"]*)\"|([^\s;\"]+))")
_CHARSET: Final = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE)
_LEVELS: Final = 3
MAX_FRAMES: Final = 200
"""Frames that are read; a page that names one document over and over is no reason to read it that often."""


@dataclass(frozen=True, slots=True)
class SavedPage:
    """A page as it was saved: its document with its frames, its address, and the mail's subject, which is its title."""

    document: DomNode
    url: str
    title: str


@dataclass(frozen=True, slots=True)
class _Part:
    fields: dict[str, str]
    body: bytes


def saved_page(data: bytes) -> SavedPage:
    """The page of an MHTML file.

    Raises:
        ValueError: it is no MHTML file, its page is missing or cut, or it nests too deeply.
    """
    fields, start = _fields(data, 0)
    kind, parameters = _content_type(fields)
    if not kind.startswith("multipart/"):
        raise ValueError(f"wanted multipart/related, met {kind or 'no content type'}")
    boundary = parameters.get("boundary", "").encode("utf-8", "replace")
    if not boundary:
        raise ValueError("its header names no boundary between parts")
    parts = _parts(data, start, boundary)
    pages = [part for part in parts if _content_type(part.fields)[0] in ("text/html", "application/xhtml+xml")]
    if not pages:
        raise ValueError("none of its whole parts is a page")
    named = {part.fields["content-id"].strip(" <>"): part for part in pages if "content-id" in part.fields}
    named.update({part.fields["content-location"]: part for part in pages if "content-location" in part.fields})
    main = named.get(parameters.get("start", "").strip(" <>"), pages[0])
    url = fields.get("snapshot-content-location") or main.fields.get("content-location", "")
    return SavedPage(_document(main, named, _LEVELS, [MAX_FRAMES]), url, fields.get("subject", ""))


def _fields(data: bytes, start: int) -> tuple[dict[str, str], int]:
    """The header fields from `start` on, by lower-case name, and where the body begins."""
    fields: dict[str, str] = {}
    while (found := _FIELD.match(data, start)) is not None:
        value = re.sub(rb"\r?\n[ \t]+", b" ", found[2]).strip()
        fields.setdefault(found[1].decode("latin-1").lower(), value.decode("utf-8", "replace"))
        start = found.end()
    return fields, start


def _content_type(fields: dict[str, str]) -> tuple[str, dict[str, str]]:
    told = fields.get("content-type", "")
    parameters = {name.lower(): quoted or plain for name, quoted, plain in _PARAMETER.findall(told)}
    return told.partition(";")[0].strip().lower(), parameters


def _parts(data: bytes, start: int, boundary: bytes) -> list[_Part]:
    """The parts that are whole: each between two boundaries."""
    fence = re.compile(rb"(?:^|\r?\n)--" + re.escape(boundary) + rb"(?:--)?[ \t]*(?=\r?\n|\Z)")
    places = [found.span() for _, found in zip(range(MAX_PARTS), fence.finditer(data, start), strict=False)]
    parts = []
    for (_, begin), (end, _) in pairwise(places):
        body = data[begin:end].removeprefix(b"\r").removeprefix(b"\n")
        fields, offset = _fields(body, 0)
        rest = body[offset:].removeprefix(b"\r").removeprefix(b"\n")
        parts.append(_Part(fields, rest))
    return parts


def _document(part: _Part, named: dict[str, _Part], levels: int, left: list[int]) -> DomNode:
    """The document of a part, with those of its frames as long as any are left to read."""
    document = html_document(_text(part))
    if levels > 0:
        for node in walk(document):
            source = node.attributes.get("src") if node.tag in ("iframe", "frame") else None
            if source is not None and node.frame is None and left[0] > 0:
                inner = named.get(unquote(source[4:]) if source[:4].lower() == "cid:" else source)
                if inner is not None and inner is not part:
                    left[0] -= 1
                    node.frame = _document(inner, named, levels - 1, left)
    return document


def _text(part: _Part) -> str:
    coding = part.fields.get("content-transfer-encoding", "").strip().lower()
    data = part.body
    if coding == "quoted-printable":
        data = binascii.a2b_qp(data)
    elif coding == "base64":
        try:
            data = binascii.a2b_base64(data)
        except binascii.Error as error:
            raise ValueError(f"a page's base64 is damaged: {error}") from None
    charset = _content_type(part.fields)[1].get("charset")
    if charset is None and (found := _CHARSET.search(data[:HEADER_BYTES])) is not None:
        charset = found[1].decode("ascii", "replace")
    try:
        return data.decode(charset or "utf-8", "replace")
    except LookupError:
        return data.decode("utf-8", "replace")
