"""Bodies of HTTP messages, unpacked and decoded to text where possible; other bodies are known only by their digest.

A recorder keeps a body as text, as base64, as a file beside the log, or not at all. Some keep it compressed, as it was
transferred. Some write its bytes as text without a mark: as base64, as hex (also as an array of pieces, as Polly.JS
does), or as Latin-1 characters. This module knows no log format. An unreadable body is `lost`; nothing is guessed.
"""

from __future__ import annotations

import binascii
import re
import zlib
from typing import Final

import pyarrow as pa
import pybase64
import zstandard

from trajmill.connectors.reading.attached import digest_of
from trajmill.connectors.reading.values import value_or_none
from trajmill.schemas import Attachment
from trajmill.schemas.record import record

UNPACKED_BYTES: Final = 32 << 20
"""Largest unpacked size in bytes; larger compressed bodies are not read."""

_TEXTUAL: Final = re.compile(
    r"text/.*|image/svg\+xml|message/http|multipart/.*"
    r"|application/(?:.*\+(?:json|xml)|json.*|xml.*|x-?ndjson|graphql.*|x-www-form-urlencoded|x-javascript|javascript"
    r"|ecmascript|x-json|yaml|x-yaml|csp-report|reports|manifest|rtf|sql|toml|x-sh|x-httpd-php|mpegurl|x-mpegurl)"
)
_UNTOLD: Final = frozenset(
    {"", "x-unknown", "unknown/unknown", "unknown", "application/octet-stream", "binary/octet-stream"}
)
_CHARSET: Final = re.compile(r";\s*charset\s*=\s*[\"']?([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_META: Final = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_ENCODINGS: Final = re.compile(
    r"utf-?8|utf-?16(?:le|be)?|windows-?\d{3,4}|cp\d{3,4}|iso-?8859-\d{1,2}|gbk|gb18030|big5(?:-?hkscs)?|shift[_-]?jis"
    r"|euc-(?:jp|kr)|koi8-[ru]|iso-2022-jp|tis-620"
)
_SAME: Final = {
    "latin1": "cp1252",
    "latin-1": "cp1252",
    "iso-8859-1": "cp1252",
    "iso8859-1": "cp1252",
    "us-ascii": "cp1252",
    "ascii": "cp1252",
    "gb2312": "gbk",
    "x-sjis": "shift_jis",
    "sjis": "shift_jis",
    "windows-31j": "cp932",
    "ks_c_5601-1987": "cp949",
}
"""Encoding names that browsers read as another encoding (WHATWG Encoding, 4.2)."""
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0b\x0e-\x1f]")
_CONTROLS: Final = re.compile("[\x00-\x08\x0b\x0e-\x1f]")
_HEX: Final = re.compile("(?:[0-9a-fA-F]{2}){8,}+")
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4}\s*+){5,}+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?\s*")
"""Base64 text; shorter matches are words."""
_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"


@record
class Body:
    """Body of a message as far as the log holds it.

    Attributes:
        text: the text; None if the body is no text, is absent, or is lost.
        media_type: media type in lower case, without parameters; empty if not stated.
        sha256: digest of a body that is no text, 64 hex digits.
        size: size in bytes of a body that is no text.
        lost: whether there was a body that the log does not hold, or holds damaged.
    """

    text: str | None = None
    media_type: str = ""
    sha256: str | None = None
    size: int | None = None
    lost: bool = False

    def attachment(self) -> Attachment | None:
        """Return a body that is no text as an attachment."""
        if self.sha256 is None:
            return None
        kind = self.media_type.partition("/")[0]
        role = kind if kind in ("image", "audio", "video") else "document"
        return Attachment(self.sha256, role, self.media_type or None)


def media_type_of(content_type: str) -> str:
    """Return the media type in lower case, without parameters; empty if the recorder marks it as unknown."""
    kind = content_type.partition(";")[0].strip().lower()
    return "" if kind in ("x-unknown", "unknown") else kind


def is_textual(media_type: str) -> bool:
    """Check if bodies of that type are text."""
    return _TEXTUAL.fullmatch(media_type) is not None


def unbase64(text: str) -> bytes | None:
    """Decode base64, ignoring other characters; None if the text is no base64, or cut."""
    try:
        return pybase64.b64decode(text, validate=True)
    except ValueError:
        # Broken over lines, or damaged. This is rare, and the strict decoder takes a fortieth of the time of this one.
        try:
            return binascii.a2b_base64(text)
        except ValueError:
            return None


def text_body(text: str, content_type: str, coding: str = "", size: int | None = None) -> Body:
    """Read a body that the log holds as text.

    The text is unpacked if it encodes bytes. The body is lost if the text is a remnant of bytes that were decoded as
    text.

    Args:
        text: the logged body.
        content_type: content type with its parameters.
        coding: value of the header `content-encoding`.
        size: size of the body in bytes, if the log states it.
    """
    kind = media_type_of(content_type)
    data = _bytes_of_text(text, kind, coding, size)
    if data is not None:
        return byte_body(data, content_type, coding or "gzip")
    damaged = text.count("\ufffd")
    binary = kind not in _UNTOLD and not is_textual(kind) and ("\0" in text or damaged > 0)
    if coding or text.startswith("\x1f"):
        damaged += len(_CONTROLS.findall(text))
    if binary or damaged > 1 + len(text) // 50:
        return Body(media_type=kind, lost=True)
    return Body(_with_characters(text).removeprefix("\ufeff"), kind)


def _bytes_of_text(text: str, kind: str, coding: str, size: int | None) -> bytes | None:
    """Return the bytes that a text encodes; None if the text is the body itself.

    Bytes that no content coding unpacks are used only if they are text and if the encoded text cannot be a body of that
    kind or contradicts the log's size.
    """
    pieces = pieces_of(text)
    for pattern, decode in ((_HEX, bytes.fromhex), (_BASE64, pybase64.b64decode)):
        if not all(pattern.fullmatch(piece) for piece in pieces):
            continue
        data = b"".join(map(decode, pieces))
        if _is_packed(data, coding) or (
            pattern is _BASE64 and pieces[0] is text and _is_foreign(text, data, kind, size)
        ):
            return data
    if coding or text.startswith("\x1f"):
        try:
            data = text.encode("latin-1")
        except UnicodeEncodeError:
            return None
        return data if _is_packed(data, coding) else None
    return None


def pieces_of(text: str) -> list[str]:
    """Return the pieces of a body if a recorder keeps it as a JSON array of strings; else the text itself."""
    pieces = value_or_none(text) if text.startswith('["') else None
    return pieces if isinstance(pieces, list) and all(isinstance(piece, str) for piece in pieces) else [text]


def _is_packed(data: bytes, coding: str) -> bool:
    """Check if bytes are packed by gzip or by the stated content coding."""
    return data.startswith(_GZIP) or (bool(coding) and _unpack(data, coding.lower()) is not data)


def _is_foreign(text: str, data: bytes, kind: str, size: int | None) -> bool:
    """Check if base64 text that encodes the bytes cannot be a body of that kind."""
    if kind not in _UNTOLD and not is_textual(kind):
        return True
    is_told = size == len(data) and size != len(text)
    return is_plain(data) and (is_told or (kind not in _UNTOLD and kind != "text/plain"))


def is_plain(data: bytes) -> bool:
    """Check if bytes are text in UTF-8, without control characters."""
    try:
        return not _CONTROL.search(data) and bool(data.decode())
    except UnicodeDecodeError:
        return False


def _with_characters(text: str) -> str:
    """Repair a text whose UTF-8 bytes were each decoded as one character (`cafÃ©`)."""
    for encoding in () if text.isascii() else ("latin-1", "cp1252"):
        try:
            return text.encode(encoding).decode()
        except UnicodeError:
            continue
    return text


def byte_body(data: bytes, content_type: str, coding: str = "") -> Body:
    """Read a body that the log holds as bytes.

    Args:
        data: the body, as sent or already unpacked.
        content_type: content type with its parameters.
        coding: value of the header `content-encoding`; bytes that are packed in this way are unpacked.
    """
    kind = media_type_of(content_type)
    unpacked = _unpack(data, coding.lower())
    if unpacked is None:
        return Body(None, kind, digest_of(data), len(data), lost=True)
    text = _decode(unpacked, kind, content_type)
    if text is None:
        # Bytes that should be text but are not were packed by an unknown coding.
        packed = unpacked is data and is_textual(kind)
        return Body(None, kind, digest_of(unpacked), len(unpacked), lost=packed)
    return Body(text, kind)


def _unpack(data: bytes, coding: str) -> bytes | None:
    """Remove the content coding, which may be removed already; None if the bytes are damaged or too long."""
    try:
        if "gzip" in coding and data.startswith(_GZIP):
            return _inflate(data, zlib.MAX_WBITS | 16)
        if "deflate" in coding and data[:1] == b"\x78" and len(data) > 1 and (data[0] << 8 | data[1]) % 31 == 0:
            return _inflate(data, zlib.MAX_WBITS)
        if coding.strip() == "deflate" and (raw := _raw_deflated(data)) is not None:
            return raw
        if "br" in coding and not is_plain(data):
            with pa.CompressedInputStream(pa.BufferReader(data), "brotli") as packed:
                content = packed.read(UNPACKED_BYTES + 1)
            return content if len(content) <= UNPACKED_BYTES else None
        if "zstd" in coding and data.startswith(_ZSTD):
            with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(data) as reader:
                content = reader.read(UNPACKED_BYTES + 1)
            return content if len(content) <= UNPACKED_BYTES else None
    except OSError:
        return data  # Nothing marks a stream of Brotli, and most of what is called one was unpacked.
    except (zlib.error, zstandard.ZstdError):
        return None
    return data


def _raw_deflated(data: bytes) -> bytes | None:
    """Unpack bytes that were deflated without a header, as some servers do; None if they were not, or are cut."""
    engine = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        content = engine.decompress(data, UNPACKED_BYTES)
    except zlib.error:
        return None
    return content if engine.eof and not engine.unused_data else None


def _inflate(data: bytes, window: int) -> bytes | None:
    engine = zlib.decompressobj(window)
    content = engine.decompress(data, UNPACKED_BYTES)
    return content if engine.eof else None


def _decode(data: bytes, kind: str, content_type: str) -> str | None:
    """Decode the bytes as text; None if they are no text."""
    if kind in _UNTOLD:
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            return None
        return None if "\0" in text else text
    if not is_textual(kind):
        return None
    charset = _CHARSET.search(content_type)
    named = charset[1] if charset else None
    if named is None and "html" in kind and (meta := _META.search(data[:4096])):
        named = meta[1].decode("ascii")
    if data.startswith(b"\xef\xbb\xbf"):
        named = "utf-8"
    try:
        return data.decode("utf-8-sig" if named is None else _encoding(named))
    except UnicodeDecodeError:
        if named is None and not _CONTROL.search(data):
            return data.decode("cp1252", "replace")
        damaged = data.decode("utf-8" if named is None else _encoding(named), "replace")
    # A text has a few bad bytes at most. Many bad bytes mean another encoding, or no text.
    return damaged if damaged.count("\ufffd") * 50 <= len(damaged) else None


def _encoding(name: str) -> str:
    name = _SAME.get(name.lower(), name.lower())
    if name in ("utf-8", "utf8") or not _ENCODINGS.fullmatch(name):
        return "utf-8-sig"
    try:
        "".encode(name)
    except LookupError:
        return "utf-8-sig"
    return name
