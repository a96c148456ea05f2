"""HTML pages among the responses of a log, as compact trees, with the style sheets that they link.

A style sheet is the response to a request for its address, anywhere in the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final
from urllib.parse import urldefrag

from trajmill.connectors.screens.page import page_of
from trajmill.connectors.screens.stylesheets import Sheet
from trajmill.connectors.web.exchange import Exchange
from trajmill.connectors.web.markup import html_document, sheet_links
from trajmill.connectors.web.request_kind import SHEET

_REMEMBERED: Final = 1 << 17
"""Largest page in characters that is cached; a page that is requested repeatedly is short."""


class Pages:
    """Compact trees of pages by their HTML.

    Args:
        exchanges: all exchanges of the log. Style sheets are read from them when a page links them.
    """

    def __init__(self, exchanges: Sequence[Exchange]) -> None:
        self._exchanges = exchanges
        self._places: dict[str, int] = {}
        self._sheet = lru_cache(maxsize=64)(self._read_sheet)
        self._known = lru_cache(maxsize=32)(self._read)

    def note(self, number: int, exchange: Exchange) -> None:
        """Register an exchange of the log, which may hold a style sheet."""
        if exchange.answer is not None and exchange.answer.text and exchange.answer.media_type == SHEET:
            self._places.setdefault(urldefrag(exchange.url).url, number)

    def tree(self, text: str, url: str) -> tuple[str, tuple[str, ...]]:
        """Return the compact tree of an HTML page, and the values it masks.

        Empty if the page shows nothing, or nests too deeply.
        """
        return self._known(text, url) if len(text) <= _REMEMBERED else self._read(text, url)

    def _read(self, text: str, url: str) -> tuple[str, tuple[str, ...]]:
        try:
            document = html_document(text)
            for link, address in sheet_links(document, url):
                link.sheet = self._sheet(address)
            page = page_of(document, url)
        except ValueError:
            return "", ()
        return page.text, page.masked

    def _read_sheet(self, address: str) -> Sheet | None:
        number = self._places.get(address)
        answer = self._exchanges[number].answer if number is not None else None
        return Sheet(answer.text) if answer is not None and answer.text else None
