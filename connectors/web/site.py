"""Site of a URL: its host, cut down to the registered name.

Browsers use the Public Suffix List, which has more than 9,000 lines and changes every week. This module uses a short
rule instead. The last two labels of a host are its site. It has three labels if the last two are a suffix that a
country's registries sell names under (`co.uk`), and one label more than a provider's own name if customers have names
below it (`github.io`). An IP address and a host of one label are their own site. If the rule does not know a suffix,
two customers of it count as one site.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

_UNDER_COUNTRIES: Final = frozenset(
    {"ac", "co", "com", "edu", "gen", "go", "gob", "gouv", "gov", "govt", "ltd", "mil", "ne", "net", "nhs", "nom"}
    | {"or", "org", "plc", "sch", "school"}
)
"""Second labels that registries sell names under, before a country code of two letters."""

_PROVIDERS: Final = frozenset(
    {
        "amazonaws.com",
        "appspot.com",
        "azurewebsites.net",
        "blogspot.com",
        "cloudfront.net",
        "csb.app",
        "firebaseapp.com",
    }
    | {"firebaseio.com", "fly.dev", "github.io", "gitlab.io", "glitch.me", "herokuapp.com", "hf.space", "myshopify.com"}
    | {"netlify.app", "ngrok.io", "now.sh", "onrender.com", "pages.dev", "repl.co", "surge.sh", "vercel.app", "web.app"}
    | {"wordpress.com", "workers.dev"}
)
"""Names of providers whose customers have sites of their own below them."""

_ADDRESS: Final = re.compile(r"\[.*\]|[0-9.]+")


def host_of(url: str) -> str:
    """Return the host of an address; empty if it has none or is invalid."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def site_of(url: str) -> str:
    """Return the site of a URL, in lower case; empty if the URL has no host or is invalid.

    >>> [site_of(url) for url in ("https://api.tides.example/low", "https://www.tides.co.uk", "http://127.0.0.1:5000/")]
    ['tides.example', 'tides.co.uk', '127.0.0.1']
    """
    host = host_of(url).rstrip(".")
    labels = host.split(".")
    if ":" in host or _ADDRESS.fullmatch(host) or len(labels) <= 2:
        return host
    if ".".join(labels[-2:]) in _PROVIDERS:
        # Names of buckets and regions are not sites of one customer, so the whole host is the site.
        return host if labels[-2] == "amazonaws" else ".".join(labels[-3:])
    under = len(labels[-1]) == 2 and labels[-2] in _UNDER_COUNTRIES
    return ".".join(labels[-3 if under else -2 :])
