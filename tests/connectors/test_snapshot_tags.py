"""Snapshots read tag by tag: the same page as of the whole document, whatever is passed by."""

from __future__ import annotations

from html import escape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.web.layout import Layout
from connectors.web.page import page_of
from connectors.web.snapshot import Snapshot, snapshot, whole_snapshot
from connectors.web.snapshot_tags import document_of

TAGS = (
    "div",
    "div",
    "div",
    "span",
    "p",
    "a",
    "button",
    "input",
    "label",
    "select",
    "optgroup",
    "option",
    "table",
    "tbody",
    "tr",
    "th",
    "td",
    "caption",
    "details",
    "summary",
    "fieldset",
    "legend",
    "figure",
    "figcaption",
    "svg",
    "title",
    "text",
    "text",
    "pre",
    "textarea",
    "ul",
    "li",
    "iframe",
    "br",
    "img",
    "dialog",
    "h2",
    "form",
    "section",
)
BOXES = ("0,0,9,9", "4.5,0,4,4", "-1,-1,-1,-1", "-1,-1,-1,-1", "-1, -1, -1, -1", "-3,2,4,4", None)
VALUES = {
    "id": ("a", "b", "c"),
    "for": ("a", "b", "c"),
    "aria_labelledby": ("a", "b c"),
    "aria_describedby": ("a", "c"),
    "aria_label": ("named", "two  words & more"),
    "role": ("button", "listitem", "none"),
    "style": ("display: none", "color: red"),
    "input_value": ("typed",),
    "input_checked": ("true", "false"),
    "option_selected": ("true", "false"),
    "is_clickable": ("true",),
    "type": ("checkbox", "text", "password"),
    "title": ("hinted",),
    "class": ('many "words"\nof it',),
    "open": ("",),
    "hidden": ("",),
    "href": ("/there",),
    "data_pw_testid_buckeye": ("x",),
}
TEXTS = ("", "", "\n  ", " ", "word", "a < b & c", " é \u00a0 ", 'said "so"')


@st.composite
def elements(draw: st.DrawFn, levels: int = 5) -> str:
    """The text of an element; its numbers are put in afterwards."""
    tag = draw(st.sampled_from(TAGS))
    names = draw(st.lists(st.sampled_from(sorted(VALUES)), max_size=3, unique=True))
    told = {name: draw(st.sampled_from(VALUES[name])) for name in names}
    if (box := draw(st.sampled_from(BOXES))) is not None:
        told = {"bounding_box_rect": box, **told}
    opened = "".join([f'<{tag} backend_node_id="%"', *(f' {name}="{escape(value)}"' for name, value in told.items())])
    if tag == "text":
        return f"{opened}>{escape(draw(st.sampled_from(TEXTS)))}</text>"
    if draw(st.booleans()) and draw(st.booleans()):
        return f"{opened}/>"
    inside = draw(st.lists(elements(levels - 1), max_size=4)) if levels else []
    texts = [escape(draw(st.sampled_from(TEXTS))) for _ in range(len(inside) + 1)]
    return f"{opened}>{texts[0]}{''.join(one + text for one, text in zip(inside, texts[1:], strict=True))}</{tag}>"


def numbered(html: str) -> str:
    pieces = html.split("%")
    return "".join(f"{piece}{number}" for number, piece in enumerate(pieces[:-1])) + pieces[-1]


def shown(taken: Snapshot, numbers: int) -> tuple[str, list[int | None]]:
    page = page_of(taken.document, "https://shop.example/")
    return page.text, [page.ids.get(taken.nodes[str(number)]) for number in range(numbers)]


@settings(max_examples=150, deadline=None)
@given(st.lists(elements(), min_size=1, max_size=5))
def test_what_is_passed_by_changes_neither_the_page_nor_what_its_numbers_stand_for(found: list[str]) -> None:
    html = numbered(f'<html backend_node_id="%"><body bounding_box_rect="0,0,9,9">{"".join(found)}</body></html>')
    numbers = html.count("backend_node_id")
    assert document_of(html, Layout()) is not None
    assert shown(snapshot(html), numbers) == shown(whole_snapshot(html), numbers)


def test_what_was_not_laid_out_is_not_built_and_found_by_its_number_all_the_same() -> None:
    html = (
        '<html bounding_box_rect="0,0,9,9"><body bounding_box_rect="0,0,9,9"><div bounding_box_rect="-1,-1,-1,-1">'
        '<p backend_node_id="7" bounding_box_rect="-1,-1,-1,-1" class="far"/></div></body></html>'
    )
    taken = snapshot(html)
    (root,) = taken.document.children
    assert root.children[0].children == []
    assert taken.nodes["7"].attributes == {"class": "far", "hidden": ""}
    assert "8" not in taken.nodes


@pytest.mark.parametrize(
    "inside",
    [
        "<!-- said -->",
        "<![CDATA[said]]>",
        "<p class='a'/>",
        '<p xmlns="urn:a"/>',
        '<p a:b="c"/>',
        '<p class="a" class="b"/>',
        '<p class="a"title="b"/>',
        "<p>&nbsp;</p>",
        "<p>&#0;</p>",
        "<p>a]]></p>",
        "<p>\r</p>",
        "<p>\x01</p>",
        "<p>\ufffe</p>",
        "<p>\ud800</p>",
        "<p></q>",
        "<p>",
        "</p>",
        "<text><b/></text>",
        '<p title="a>b"/>',
        "<" + "p><" * 200 + "/p><" * 199 + "/p>",
    ],
)
def test_what_is_not_plain_is_left_to_a_library(inside: str) -> None:
    html = f"<html><body>{inside}</body></html>"
    assert document_of(html, Layout()) is None
    assert page_of(snapshot(html).document).text == page_of(whole_snapshot(html).document).text


@pytest.mark.parametrize("html", ["", "text", "<html/><html/>", "<html/>text", "text<html/>", "<html", "<>", "</html>"])
def test_a_text_that_is_no_document_is_left_to_a_library(html: str) -> None:
    assert document_of(html, Layout()) is None
