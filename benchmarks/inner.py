"""Measure what connectors decode within the container of a log: pages of HTML, XML, Python, and texts that are JSON.

It listens to the decoders while a connector parses; what it names is for a plain decoder to decode as well.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import orjson
from lxml import etree

from trajmill.connectors.desktop import agentnet, pyautogui
from trajmill.connectors.desktop.osworld import lines as osworld_lines
from trajmill.connectors.web import markup
from trajmill.connectors.web.mind2web import page_snapshot

Decoding = tuple[bytes, Callable[[bytes], Any]]
"""Bytes, and what decodes them."""

TextDecoding = tuple[str, Callable[[str], Any]]
"""A text, and what decodes it."""


@contextmanager
def pages_read() -> Iterator[list[Decoding]]:
    """A list that grows by each page of HTML that a connector parses within, with what parses it."""
    pages: list[Decoding] = []
    parsers = {markup: "html_root", page_snapshot: "xml_root"}
    own = {module: getattr(module, name) for module, name in parsers.items()}

    def noted(parser: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
        def parse_noted(data: bytes) -> Any:
            root = parser(data)
            pages.append((data, parser))
            return root

        return parse_noted

    for module, name in parsers.items():
        setattr(module, name, noted(own[module]))
    try:
        yield pages
    finally:
        for module, name in parsers.items():
            setattr(module, name, own[module])


def xml_tree(data: bytes) -> Any:
    """The tree of an XML document, as `lxml` makes it."""
    return etree.fromstring(data, etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True))


@contextmanager
def scripts_read() -> Iterator[list[TextDecoding]]:
    """A list that grows by each script that a connector reads the calls of, with what makes a syntax tree of it."""
    scripts: list[TextDecoding] = []
    own = pyautogui.calls_of

    def read_noted(code: str) -> Any:
        calls = own(code)
        if calls is not None:
            scripts.append((code.strip(), ast.parse))
        return calls

    readers = (agentnet, osworld_lines)
    for module in readers:
        setattr(module, "calls_of", read_noted)  # noqa: B010
    try:
        yield scripts
    finally:
        for module in readers:
            setattr(module, "calls_of", own)  # noqa: B010


@contextmanager
def texts_read(members: Sequence[bytes]) -> Iterator[list[TextDecoding]]:
    """A list that grows by each text that a connector decodes to more than a number, but for members and lines.

    Equal texts are named once. The texts of a container are read as bytes; where a connector reads one as text, as it
    does with a line that only the standard library takes, it is none of those within.
    """
    lines = {line.strip() for data in members for line in (data, *data.split(b"\n"))}
    texts: list[TextDecoding] = []
    known: set[str] = set()
    readers: list[tuple[Any, str, Callable[[Any], Any]]] = [
        (orjson, "loads", json.loads),
        (json, "loads", json.loads),
        (ast, "literal_eval", ast.literal_eval),
    ]
    own = [getattr(module, name) for module, name, _ in readers]

    def noted(reader: Callable[..., Any], plain: Callable[[Any], Any]) -> Callable[..., Any]:
        def read_noted(text: Any, **options: Any) -> Any:
            value = reader(text, **options)
            if isinstance(text, str) and isinstance(value, list | dict | str) and text not in known:
                known.add(text)
                if text.encode("utf-8", "surrogatepass").strip() not in lines:
                    texts.append((text, plain))
            return value

        return read_noted

    for (module, name, plain), reader in zip(readers, own, strict=True):
        setattr(module, name, noted(reader, plain))
    try:
        yield texts
    finally:
        for (module, name, _), reader in zip(readers, own, strict=True):
            setattr(module, name, reader)
