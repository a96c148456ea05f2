"""Role of a request for its page (document, frame, call, beacon, asset), and whether it goes to another site.

A person notices the document that they opened and what the page then shows from its own site's answers. The other
requests of a page (advertisements, counters, error reports) are in the same log, so each request states its role. This
module does not decide which roles bear the loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trajmill.connectors.web.bodies import media_type_of
from trajmill.connectors.web.exchange import Exchange, redirect_target
from trajmill.connectors.web.request_kind import DATA, host_and_path, is_asset_type
from trajmill.connectors.web.site import site_of

DOCUMENT, FRAME, CALL, BEACON, ASSET, WEBSOCKET = "document", "frame", "call", "beacon", "asset", "websocket"

_WORDS: Final = {
    DOCUMENT: ("document", "navigate", "html"),
    FRAME: ("iframe", "frame", "embed", "object", "subdocument", "fencedframe"),
    CALL: ("xhr", "fetch", "eventsource", "empty", "xmlhttprequest"),
    BEACON: ("ping", "beacon", "csp", "cspreport", "csp_report", "cspviolationreport", "report"),
}
_ROLES: Final = {word: role for role, words in _WORDS.items() for word in words}
_BEACON_TYPES: Final = frozenset({"application/csp-report", "application/reports+json", "text/ping"})
_PAGES: Final = ("text/html", "application/xhtml", "*/*")
"""Beginnings of the `accept` header of a request that may be for a page."""


class Page:
    """Properties of a page, derived from its requests. All requests must be added, in order, before any query.

    The document of a page is the request that the browser marks as navigation, else the first request for HTML, with
    its redirects. Recorders mark frames as documents too, so a later document counts only if the log knows no pages and
    the request names no page of another site as its origin. A later request for HTML with `Accept: */*` is a call of a
    script, because a browser that draws a frame asks for a page. The page's own sites are those of its documents. If
    there is no document (a log of an app's calls, or one that begins later), the site is that of the requesting page,
    if stated.

    Attributes:
        host: host of its first document; None if the log holds none.
    """

    def __init__(self) -> None:
        self.host: str | None = None
        self._sites: set[str] = set()
        self._documents: set[int] = set()
        self._leads_to: str | None = None

    def take(self, exchange: Exchange) -> None:
        """Add a request of the page."""
        if exchange.kind != DATA or not self._is_document(exchange):
            return
        self._documents.add(_place(exchange))
        self._leads_to = redirect_target(exchange)
        self.host = self.host or host_and_path(exchange.url)[0] or None
        if site := site_of(exchange.url):
            self._sites.add(site)

    def _is_document(self, exchange: Exchange) -> bool:
        stated = _role_of_headers(exchange)
        if stated == DOCUMENT and exchange.headers.get("sec-fetch-dest", "").lower() == DOCUMENT:
            return True
        if stated not in ("", DOCUMENT) or (stated == "" and not _asks_for_html(exchange)):
            return False
        if not self._documents or exchange.url == self._leads_to:
            return True
        asked = site_of(exchange.asked_by) in ("", site_of(exchange.url))
        return (
            not exchange.page
            and asked
            and (stated == DOCUMENT or exchange.headers.get("accept", "").startswith("text/html"))
        )

    def role(self, chain: Sequence[Exchange]) -> str:
        """Return the role of a request, given with the hops of its redirects."""
        if any(_place(hop) in self._documents for hop in chain):
            return DOCUMENT
        first, last = chain[0], chain[-1]
        stated = _role_of_headers(first)
        if stated in (WEBSOCKET, BEACON):
            return stated
        if first.kind != DATA or is_asset_type(media_type_of(last.received.get("content-type", ""))):
            return ASSET
        framed = not stated and _asks_for_html(last) and not last.headers.get("accept", "").startswith("*/*")
        return FRAME if framed or stated in (FRAME, DOCUMENT) else CALL

    def is_other_site(self, exchange: Exchange) -> bool | None:
        """Check if the request goes to a site other than the page's; None if the log does not state it."""
        asked, asker = site_of(exchange.url), site_of(exchange.asked_by)
        own = self._sites or {asker} - {""}
        return asked not in own if asked and own else None


def _role_of_headers(exchange: Exchange) -> str:
    """Return the role by the browser's headers, else by the recorder's word; empty if neither states it."""
    if exchange.messages or exchange.word == "websocket":
        return WEBSOCKET
    if media_type_of(exchange.headers.get("content-type", "")) in _BEACON_TYPES:
        return BEACON
    return _ROLES.get(exchange.headers.get("sec-fetch-dest", "").lower(), "") or _ROLES.get(exchange.word, "")


def _asks_for_html(exchange: Exchange) -> bool:
    accepted = exchange.headers.get("accept", "")
    if "x-requested-with" in exchange.headers or (accepted and not accepted.startswith(_PAGES)):
        return False
    received_type = media_type_of(exchange.received.get("content-type", ""))
    return "html" in received_type or (accepted.startswith("text/html") and not received_type)


def _place(exchange: Exchange) -> int:
    """Return a hash that identifies a request in its log, where all offsets may be that of one archive member."""
    return hash((exchange.member, exchange.offset, exchange.url, exchange.began))
