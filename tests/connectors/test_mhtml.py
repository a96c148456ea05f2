"""Saved pages: their parts are put together, and none of them is taken for a log."""

from __future__ import annotations

import pytest

from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.registry import connectors
from trajmill.connectors.screens.page import page_of
from trajmill.connectors.web.mhtml.mime_page import saved_page
from trajmill.schemas import Reject

HEAD = (
    b"MIME-Version: 1.0\r\nSnapshot-Content-Location: https://a.example/p\r\n"
    b'Content-Type: multipart/related; boundary="b"\r\n\r\n'
)
HTML = b"Content-Type: text/html"


def part(body: bytes, *fields: bytes) -> bytes:
    return b"--b\r\n" + b"\r\n".join(fields or (b"Content-Type: text/html",)) + b"\r\n\r\n" + body + b"\r\n"


def text(*parts: bytes, head: bytes = HEAD) -> str:
    saved = saved_page(head + b"".join(parts) + b"--b--\r\n")
    return page_of(saved.document, saved.url).text


def test_soft_breaks_and_split_characters_of_quoted_printable_are_joined() -> None:
    quoted = part(
        b"<p>caf=C3=\r\n=A9 at 1=3D1</p>", b"Content-Type: text/html", b"Content-Transfer-Encoding: quoted-printable"
    )
    assert text(quoted) == '#1 document value="https://a.example/p"\n  #2 text "café at 1=1"'


@pytest.mark.parametrize("fields", [(b"Content-Type: text/html; charset=windows-1252",), (b"content-type: text/html",)])
def test_a_page_is_decoded_as_its_header_or_its_meta_element_says(fields: tuple[bytes, ...]) -> None:
    assert '"é"' in text(part(b"<meta charset=windows-1252><p>\xe9</p>", *fields))


def test_frames_are_found_by_content_id_and_by_location() -> None:
    main = part(b"<iframe src='cid:f@x'></iframe><iframe src='https://a.example/g'></iframe>")
    one = part(b"<p>one</p>", b"Content-Type: text/html", b"Content-ID: <f@x>")
    two = part(b"<p>two</p>", b"Content-Type: text/html", b"Content-Location: https://a.example/g")
    assert text(main, one, two).split("\n")[1:] == [
        "  #2 iframe",
        '    #3 text "one"',
        '  #4 iframe value="/g"',
        '    #5 text "two"',
    ]


def test_frames_that_hold_each_other_end() -> None:
    main = part(b"<iframe src='cid:f@x'></iframe>")
    loop = part(
        b"<p>in</p>" + b"<iframe src='cid:f@x'></iframe><iframe src='cid:g@x'></iframe>" * 50,
        b"Content-Type: text/html",
        b"Content-ID: <f@x>",
    )
    other = part(b"<iframe src='cid:f@x'></iframe>" * 50, b"Content-Type: text/html", b"Content-ID: <g@x>")
    assert 1 <= text(main, loop, other).count('"in"') <= 201


def test_a_saved_page_is_refused_because_nobody_acts_in_it() -> None:
    found = list(connectors()["mhtml"].parse(MemoryBlob("p", HEAD + part(b"<p>x</p>") + b"--b--\r\n")))
    assert [(one.reason, one.offset) for one in found if isinstance(one, Reject)] == [("no_actions", 0)]
    assert "https://a.example/p" in str(found)


@pytest.mark.parametrize(
    "data",
    [
        HEAD,
        HEAD + part(b"<p>cut"),
        b"Content-Type: multipart/related\r\n\r\n",
        b"Content-Type: text/plain\r\n\r\nhello",
        HEAD + part(b"abc", b"Content-Type: text/html", b"Content-Transfer-Encoding: base64") + b"--b--",
    ],
)
def test_what_holds_no_whole_page_is_no_saved_page(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        saved_page(data)
