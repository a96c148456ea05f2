"""Saved pages (MHTML) are recognized and rejected: a page alone holds no transition.

>>> show(Mhtml(), '''
... From: <Saved by Blink>
... Snapshot-Content-Location: https://tea.example/
... Content-Type: multipart/related; type="text/html"; boundary="--b"
...
... ----b
... Content-Type: text/html
...
... <h1>Tea</h1>
... ----b--
... ''')
refused | no_actions

What was shown stands in the file, but nobody acts in it, and nothing says what came before or after. Saved pages of one
folder are no series either, since no browser or tool writes down what was done between them. So each file is one reject
`no_actions` that says what page it is. `mime_page` reads such a page for formats whose observations are kept this way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.screens.page import page_of
from trajmill.connectors.web.mhtml.mime_page import saved_page
from trajmill.schemas import ParseError, Reject, Trajectory

_RELATED: Final = re.compile(rb"^content-type\s*:\s*multipart/related\b", re.IGNORECASE | re.MULTILINE)
_SAVED: Final = re.compile(
    rb"^(?:from\s*:\s*[\"<]*saved by|snapshot-content-location\s*:)", re.IGNORECASE | re.MULTILINE
)
_ENDINGS: Final = (".mhtml", ".mht")
_HEADER: Final = re.compile(rb"\s*[A-Za-z-]{2,40}:")


class Mhtml(Connector):
    """Saved pages; none is carried on."""

    name: ClassVar[str] = "mhtml"
    version: ClassVar[str] = "2"
    domains: ClassVar[tuple[str, ...]] = ("web",)
    title: ClassVar[str] = "saved pages, MHTML (rejected: no actions)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        start = head[:4096]
        if not _HEADER.match(start) or not _RELATED.search(start):
            return None
        if _SAVED.search(start):
            return Sniff(0.95, "a multipart/related message that a browser saved")
        return Sniff(0.6, "a multipart/related message named as a saved page") if uri.endswith(_ENDINGS) else None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        data = blob.read()
        if not data.strip():
            raise ParseError(blob.uri, 0, "empty", "wanted a saved page, met nothing")
        try:
            saved = saved_page(data)
            page = page_of(saved.document, saved.url)
        except ValueError as error:
            raise ParseError(blob.uri, 0, "bad_mhtml", f"wanted a saved page: {error}", "", data[:512]) from None
        lines = page.text.count("\n") + 1
        detail = f"a page alone ({lines} lines of {saved.url[:200]}): nobody acts on it"
        yield Reject("trajectory", "no_actions", detail, blob.uri, offset=0, connector=self.name)
