"""Purpose of a request: data or documents, assets that a page is drawn with, or the browser's own preflight."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

DATA, ASSET, PREFLIGHT = "data", "asset", "preflight"
SHEET: Final = "text/css"
"""Media type of style sheets."""

_ASSET_TYPES: Final = ("image/", "font/", "audio/", "video/", SHEET, "application/font", "application/x-font")
_ASSETS: Final = frozenset(
    {
        "text/javascript",
        "application/javascript",
        "application/x-javascript",
        "application/ecmascript",
        "text/ecmascript",
        "application/wasm",
        "application/manifest+json",
        "application/vnd.ms-fontobject",
        "application/vnd.apple.mpegurl",
        "application/dash+xml",
        "application/x-mpegurl",
        "text/vtt",
    }
)
_ASSET_WORDS: Final = frozenset(
    {"image", "imageset", "stylesheet", "script", "font", "media", "manifest", "texttrack", "style", "audio", "video"}
    | {
        "track",
        "worker",
        "serviceworker",
        "sharedworker",
        "paintworklet",
        "audioworklet",
        "css",
        "js",
        "signedexchange",
    }
)
_DATA_WORDS: Final = frozenset(
    {"document", "xhr", "fetch", "eventsource", "websocket", "iframe", "frame", "ping", "beacon", "navigate", "html"}
)
_LOCAL: Final = ("data:", "blob:", "about:", "chrome-extension:", "moz-extension:")
_ENDINGS: Final = frozenset(
    {"css", "js", "mjs", "map", "png", "jpg", "jpeg", "gif", "webp", "avif", "ico", "svg", "bmp", "woff", "woff2"}
    | {"ttf", "otf", "eot", "mp3", "mp4", "webm", "ogg", "wav", "m4a", "m4s", "ts"}
)


def kind_of(word: str, method: str, url: str, headers: Mapping[str, str], media_type: str) -> str:
    """Return `DATA`, `ASSET` or `PREFLIGHT`, the purpose of a request.

    Args:
        word: the recorder's own word for it, lower case; empty if it has none.
        method: method in upper case.
        headers: headers of the request, names in lower case.
        media_type: media type of the response, without parameters; empty if not stated.
    """
    if url.startswith(_LOCAL):
        return ASSET
    if word == "preflight" or (method == "OPTIONS" and "access-control-request-method" in headers):
        return PREFLIGHT
    for destination in (word, headers.get("sec-fetch-dest", "").lower()):
        if destination in _ASSET_WORDS:
            return ASSET
        if destination in _DATA_WORDS:
            return DATA
    if method not in ("GET", "HEAD") or "x-requested-with" in headers:
        return DATA
    accept = headers.get("accept", "")
    # The answer may be the page of an error, so what was asked for comes first.
    if is_asset_type(media_type) or accept.startswith(("text/css", "image/")):
        return ASSET
    if media_type and media_type not in ("application/octet-stream", "binary/octet-stream", "text/plain"):
        return DATA
    path = host_and_path(url)[1]
    ending = path.rpartition("/")[2].rpartition(".")[2].lower() if "." in path else ""
    return ASSET if ending in _ENDINGS else DATA


def is_asset_type(media_type: str) -> bool:
    """Check if content of that type is an asset that pages are drawn with; `media_type` has no parameters."""
    return media_type in _ASSETS or media_type.startswith(_ASSET_TYPES)


def host_and_path(url: str) -> tuple[str, str]:
    """Return (host with port, path) of a URL; empty if it has none or is invalid."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "", ""
    return parts.netloc.rpartition("@")[2], parts.path
