"""What a request is to its page: the document, one in a frame, a call, a beacon, an asset; and whose site it asks.

A person notices the document that they went to and what the page then shows of its own site's answers. What else a page
asks for (advertisements, counters, error reports) stands in the same log, so each request says which it is. Whether a
role bears the loss is not decided here.
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
"""How what a request accepts begins, where it may be a page."""


class Page:
    """What the requests of a page say of it. It takes them all, in their order, before it is asked about any.

    Its document is what the browser says was navigated to; else the first request for HTML, with the hops that it is
    redirected by. Recorders call frames documents too, so a later one counts only where the log knows no pages and the
    request names no page of another site as its asker. HTML that is asked for with `Accept: */*` after it is a script's
    call: a browser that draws a frame says that it wants a page. The page's own sites are those of its documents. Where
    there is none (a log of an app's calls, one that begins later), it is the site of the page that asked, where that is
    told.

    Attributes:
        host: of its first document; None if the log holds none.
    """

    def __init__(self) -> None:
        self.host: str | None = None
        self._sites: set[str] = set()
        self._documents: set[int] = set()
        self._leads_to: str | None = None

    def take(self, one: Exchange) -> None:
        """Takes in a request of the page."""
        if one.kind != DATA or not self._is_document(one):
            return
        self._documents.add(_place(one))
        self._leads_to = redirect_target(one)
        self.host = self.host or host_and_path(one.url)[0] or None
        if site := site_of(one.url):
            self._sites.add(site)

    def _is_document(self, one: Exchange) -> bool:
        told = _told(one)
        if told == DOCUMENT and one.headers.get("sec-fetch-dest", "").lower() == DOCUMENT:
            return True
        if told not in ("", DOCUMENT) or (told == "" and not _asks_for_html(one)):
            return False
        if not self._documents or one.url == self._leads_to:
            return True
        asked = site_of(one.asked_by) in ("", site_of(one.url))
        return not one.page and asked and (told == DOCUMENT or one.headers.get("accept", "").startswith("text/html"))

    def role(self, chain: Sequence[Exchange]) -> str:
        """What a request with the hops of its redirects is to the page: one of the roles."""
        if any(_place(one) in self._documents for one in chain):
            return DOCUMENT
        first, last = chain[0], chain[-1]
        told = _told(first)
        if told in (WEBSOCKET, BEACON):
            return told
        if first.kind != DATA or is_asset_type(media_type_of(last.received.get("content-type", ""))):
            return ASSET
        framed = not told and _asks_for_html(last) and not last.headers.get("accept", "").startswith("*/*")
        return FRAME if framed or told in (FRAME, DOCUMENT) else CALL

    def is_other_site(self, one: Exchange) -> bool | None:
        """Whether the request goes to another site than the page's; None if the log does not tell."""
        asked, asker = site_of(one.url), site_of(one.asked_by)
        own = self._sites or {asker} - {""}
        return asked not in own if asked and own else None


def _told(one: Exchange) -> str:
    """The role by what the browser said of the request, else by the recorder's word; empty where neither tells."""
    if one.messages or one.word == "websocket":
        return WEBSOCKET
    if media_type_of(one.headers.get("content-type", "")) in _BEACON_TYPES:
        return BEACON
    return _ROLES.get(one.headers.get("sec-fetch-dest", "").lower(), "") or _ROLES.get(one.word, "")


def _asks_for_html(one: Exchange) -> bool:
    accepted = one.headers.get("accept", "")
    if "x-requested-with" in one.headers or (accepted and not accepted.startswith(_PAGES)):
        return False
    told = media_type_of(one.received.get("content-type", ""))
    return "html" in told or (accepted.startswith("text/html") and not told)


def _place(one: Exchange) -> int:
    """What tells a request from the others of its log, whose places may all be that of one archive's member."""
    return hash((one.member, one.offset, one.url, one.began))
