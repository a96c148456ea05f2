"""Site of a URL: its host cut down to the name that somebody registered.

Browsers ask the Public Suffix List, of more than 9,000 lines that change every week. Here a short rule of our own
stands for it: the last two labels of a host are its site; three where the last two are one that registries of a country
sell names under (`co.uk`); and one more than a provider's own name where customers have names below it (`github.io`).
An IP address and a host of one label are their own site. Where the rule does not know a suffix, two customers of it
count as one site.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

_UNDER_COUNTRIES: Final = frozenset(
    {"ac", "co", "com", "edu", "gen", "go", "gob", "gouv", "gov", "govt", "ltd", "mil", "ne", "net", "nhs", "nom"}
    | {"or", "org", "plc", "sch", "school"}
)
"""Second labels that registries sell names under, before a country's code of two letters."""

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
"""Names whose customers have sites of their own below them."""

_ADDRESS: Final = re.compile(r"\[.*\]|[0-9.]+")


def host_of(url: str) -> str:
    """The host of an address; empty where it has none or cannot be read."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def site_of(url: str) -> str:
    """The site of a URL, in lower case; empty where the URL has no host or cannot be read.

    >>> [site_of(url) for url in ("https://api.tides.example/low", "https://www.tides.co.uk", "http://127.0.0.1:5000/")]
    ['tides.example', 'tides.co.uk', '127.0.0.1']
    """
    host = host_of(url).rstrip(".")
    labels = host.split(".")
    if ":" in host or _ADDRESS.fullmatch(host) or len(labels) <= 2:
        return host
    if ".".join(labels[-2:]) in _PROVIDERS:
        # Names of buckets and regions are no sites of one customer, so the whole host is.
        return host if labels[-2] == "amazonaws" else ".".join(labels[-3:])
    under = len(labels[-1]) == 2 and labels[-2] in _UNDER_COUNTRIES
    return ".".join(labels[-3 if under else -2 :])
