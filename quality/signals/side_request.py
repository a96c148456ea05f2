"""Signal of background requests of a page, whose answers do not come from the visited site in a way that a person would
notice.

It applies only to rows of network recordings, whose arguments say what a request is to its page (`resource_type`) and
whether it leaves the page's site (`third_party`). A navigated document always counts as a main request. Background
requests are: requests to other sites; beacons and static assets; addresses whose words show counting and reporting, on
the site's own hosts too; and answers without a body, or missing answers. A body that the recorder left out is no empty
answer; `recorder_cut` reports it.
"""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from trajmill.quality.signal import Measured, Numbers, Signal
from trajmill.quality.texts import Flags

_DOCUMENT: Final = r'"resource_type": ?"document"'
_URL: Final = r'(?i)"url": ?"(?:https?|wss?)://'
_HOSTS: Final = (
    r"(?:ads?|adserver|analytics|beacons?|collector|metrics|pixel|rum|stats|telemetry|tracker|tracking|vitals)"
)
_PATHS: Final = r"(?:adserver|beacons?|collect|collector|csp[_-]reports?|pixel|rum|telemetry|(?:web-?)?vitals)"
"""Words such as ads, track and metrics are left out, since sites of advertisements, music and dashboards serve people
under them.
"""
_COUNTERS: Final = (
    r"(?:google-analytics|googletagmanager|googlesyndication|googleadservices|doubleclick|demdex|omtrdc|hotjar|segment"
    r"|mixpanel|amplitude|sentry|bugsnag|nr-data|newrelic|scorecardresearch|criteo|adnxs|rubiconproject|taboola"
    r"|outbrain|perimeterx|fullstory|clarity|cloudflareinsights|chartbeat|quantserve|s-onetag)"
)
"""Services that count visitors, show advertisements and collect errors, for logs that name no page."""

REASONS: Final = (
    ("other_site", r'"third_party": ?true'),
    ("beacon", r'"resource_type": ?"beacon"'),
    ("asset", r'"resource_type": ?"asset"'),
    ("telemetry", rf"{_URL}[^/\"?#]+/(?:[^\"?#]*/)?{_PATHS}(?:\.[a-z]+)?/?[\"?#]"),
    ("telemetry", r'"method": ?"POST"[^{}]*"url": ?"[^"?#]*/(?:stats|logs?|ping|impressions?)/?["?#]'),
)
"""Patterns of the arguments of background requests other than documents (RE2 syntax), by reason; the first match
counts.
"""

_COUNTING_HOST: Final = rf"{_URL}(?:[^/\"?#]*[.@])?{_HOSTS}\.[^/\"?#]+\."
_UNTOLD: Final = rf"{_URL}(?:[^/\"?#]*[.@])?{_COUNTERS}\.[a-z]+[/:\"?#]"
_BODILESS: Final = r"(?:\A|\n\n)HTTP [0-9]{3}[^\n]*(?:\n(?:content-type|location|retry-after): [^\n]*)*\s*\z"
_HTTP: Final = r"\AHTTP [0-9]{3}"


def sides(measured: Measured) -> list[tuple[str, Flags]]:
    """Return the reasons for background requests, with the rows of each; a row may have several."""
    arguments = measured.texts("action", "arguments")
    exchanges = arguments.matching('"resource_type": ?"') & measured.texts("action", "name").matching(
        "^(?:http_request|websocket_send)$"
    )
    no_documents = exchanges & ~arguments.at(exchanges).matching(_DOCUMENT)
    asked = arguments.at(no_documents)
    flags_by_reason = [(reason, asked.matching(pattern)) for reason, pattern in REASONS]
    flags_by_reason.append(("telemetry", _elsewhere(measured, asked.matching(_COUNTING_HOST))))
    flags_by_reason.append(("telemetry", asked.matching(_UNTOLD) & ~asked.matching('"third_party": ?false')))
    content = measured.texts("next_observation", "content").at(exchanges)
    http = measured.texts("next_observation", "media_type").at(exchanges).matching("^message/http$")
    flags_by_reason.append(("no_response", http & (content.index >= 0) & ~content.matching(_HTTP)))
    whole = ~measured.texts("next_observation", "truncation").matching("^recorder$")
    flags_by_reason.append(("empty", http & whole & content.matching(_BODILESS)))
    return flags_by_reason


def _elsewhere(measured: Measured, rows: Flags) -> Flags:
    """Flag the given rows whose request goes to another host than the page's own, which may have such a word in its
    name.
    """
    arguments, pages = measured.texts("action", "arguments"), measured.texts("environment", "id").at(rows)
    there = rows.copy()
    for row in np.flatnonzero(rows & (pages.index >= 0)).tolist():
        url = str(arguments.texts[int(arguments.index[row])]).partition('"url": "')[2]
        there[row] = f"//{pages.texts[int(pages.index[row])]}/" not in url.partition('"')[0] + "/"
    return there


class SideRequest(Signal):
    """1 if a request brought nothing that a person at the page would notice, else 0."""

    name: ClassVar[str] = "side_request"
    measures: ClassVar[str] = (
        "1: in a network recording, a request to another site than the page's, a beacon, an asset, telemetry, "
        "or an answer without a body"
    )

    def measure(self, measured: Measured) -> Numbers:
        return np.logical_or.reduce([rows for _, rows in measured.once(sides)]).astype(np.float32)

    def reasons(self, measured: Measured) -> pa.StringArray | None:
        reasons_of_rows = np.full(measured.batch.num_rows, None, dtype=object)
        for reason, rows in reversed(measured.once(sides)):
            reasons_of_rows[rows] = reason
        return pa.array(reasons_of_rows, pa.string())
