"""The nodes that style sheets hide: written pages with the lines that Chromium showed, edits of sheets, hostile sheets.

`benchmarks.visible_text` asks Chromium for the lines.
"""

import json
import re
from pathlib import Path

import pytest
import tinycss2
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import FUZZ
from trajmill.connectors.screens import cascade, stylesheets
from trajmill.connectors.screens.dom import DomNode
from trajmill.connectors.screens.page import page_of
from trajmill.connectors.screens.stylesheets import Layer, Sheet, Viewport, parse_sheet
from trajmill.connectors.web.markup import html_document

PAGES = Path(__file__).with_name("visible_text")
LINES = json.loads((PAGES / "lines.json").read_text("utf-8"))


def words(html: str, viewport: Viewport | None = None) -> list[str]:
    """The words in the tree of a page, without its title."""
    lines = page_of(html_document(html), viewport=viewport).text.splitlines()[1:]
    return " ".join(re.findall(r'"(.*?)"', "\n".join(lines))).split()


@pytest.mark.parametrize("name", sorted(LINES))
def test_a_written_page_shows_what_chromium_showed(name: str) -> None:
    assert words((PAGES / name).read_text("utf-8"), Viewport(1280, 720)) == " ".join(LINES[name]).split()


def test_a_media_query_is_asked_of_the_recorded_window() -> None:
    html = "<style>@media (max-width: 599px) { .menu { display: none } }</style><p class=menu>Menu</p>"
    assert words(html, Viewport(500, 800)) == []
    assert words(html, Viewport(600, 800)) == ["Menu"]


def test_what_the_pointer_and_the_focus_reveal_is_shown_while_they_are_there() -> None:
    html = (
        "<style>ul, i { display: none } nav:hover ul { display: block } p:focus-within i { display: inline }</style>"
        "<nav><b>Tools</b><ul><li>Export</ul></nav><p><input><i>Hint</i></p>"
    )
    document = html_document(html)
    nav, paragraph = document.children[0].children[1].children
    inner, field = nav.children[0], paragraph.children[0]
    assert '"Export"' not in page_of(document).text
    assert '"Export"' in page_of(document, hover=inner).text
    assert '"Hint"' not in page_of(document, hover=inner).text
    assert '"Hint"' in page_of(document, focus=field).text


def test_aria_hidden_hides_only_where_the_log_lacks_a_sheet() -> None:
    sign = "<p aria-hidden=true>Sign</p>"
    assert words(f"<style>b {{ color: red }}</style>{sign}") == ["Sign"]
    assert words(sign) == []
    assert words(f"<style>b {{ color: red }}</style><link rel=stylesheet href=a.css>{sign}") == []


def test_hidden_text_is_no_part_of_a_label_or_caption() -> None:
    html = "<style>.no { display: none }</style><label>Name<b class=no>required</b><input></label>"
    assert "required" not in page_of(html_document(html)).text


def test_rules_are_inserted_deleted_and_changed_at_their_places() -> None:
    sheet = Sheet("a { display: none } @media screen { b { display: none } }")

    def hiding() -> list[str]:
        node = DomNode("#comment", sheet=sheet)
        tags = [DomNode(tag, children=[DomNode("#text", text=tag * 3)]) for tag in ("a", "b", "p")]
        text = page_of(DomNode("#document", children=[node, *tags])).text
        return [tag for tag in ("a", "b", "p") if tag * 3 not in text]

    assert hiding() == ["a", "b"]
    sheet.delete([0])
    assert hiding() == ["b"]
    sheet.insert([0, 0], "p { display: none }")
    assert hiding() == ["b", "p"]
    sheet.declare([0, 1], "display: block")
    assert hiding() == ["p"]
    sheet.insert([9], "a { display: none }")
    sheet.delete([7])
    sheet.delete([])
    assert hiding() == ["a", "p"]
    sheet.replace("b { display: none }")
    assert hiding() == ["b"]


@pytest.mark.parametrize(
    "sheet",
    [
        "@media screen {" * 5000 + "p { display: none }" + "}" * 5000,
        ":is(" * 3000 + "p" + ")" * 3000 + "{ display: none }",
        "p " * 3000 + "{ display: none }",
        ".a {" * 3000 + "display: none",
        "p { display: " + "(" * 20_000,
        "p { display: none " + "x" * (5 << 20),
    ],
)
def test_a_sheet_that_nests_without_end_hides_nothing(sheet: str) -> None:
    assert words(f"<style>{sheet}</style><p>Shown</p>") == ["Shown"]


@pytest.mark.parametrize(
    "sheet",
    [
        "p:has(~ p:has(~ p:has(~ b))) { display: none }",
        "* * * * * * * * .none { display: none } * ~ * ~ * ~ * ~ * { display: none }",
        "".join(f":not(.c{number}) > .d {{ display: none }}" for number in range(6_000)),
        "".join(f"[a{number}] {{ display: none }}" for number in range(6_000)),
        "p:nth-last-of-type(3n + 1) ~ p:nth-of-type(2n) ~ p { display: none }",
    ],
)
def test_a_sheet_that_asks_for_endless_comparisons_is_given_up(sheet: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cascade, "_MOST_WORK", 300_000)
    body = "<div><i>x</i>" * 100 + "<p>a</p>" * 3000
    assert page_of(html_document(f"<style>{sheet}</style>{body}")).text.count('"a"') > 0


PIECES = (
    "a { color: red }", "b > i { display: none }", '.c:not(p) { content: "{"; --x: none }', "@layer l {",
    "@keyframes k { from { opacity: 0 } to { opacity: 1 } }", "@font-face { font-display: swap }", "display: { x: y }",
    "u { v { w: x } display: none }", "--y: { none }", ".i::before { content: '\\f101' }", "@layer l, m;",
    "/* p { q: r } */", "@media screen {", "opacity: 0;", "VISIBILITY: hidden",
    "url(", *"{}()[]\"'\\\n;,", "/*", "*/", "<!--",
)  # fmt: skip


def rules_of(sheet: str) -> list[tuple[str, stylesheets.Declarations, int, Layer]]:
    """The selectors of a sheet as they are written, each with what belongs to it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stylesheets, "_compile_selectors", lambda selector: [tinycss2.serialize(selector).strip()])
        rules = parse_sheet.__wrapped__(sheet).rules
    return [(str(rule.selector), rule.declarations, len(rule.conditions), rule.layer) for rule in rules]


@settings(max_examples=400 * FUZZ)
@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_a_sheet_hides_the_same_whether_its_other_rules_are_parsed_or_not(sheet: str) -> None:
    rules = rules_of(sheet)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stylesheets, "_without_idle_rules", str)
        assert rules == rules_of(sheet)


def test_rules_that_hide_nothing_are_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def parse(text: str) -> list[object]:
        parsed.append(text)
        return []

    monkeypatch.setattr(stylesheets, "_rules_of", parse)
    parse_sheet.__wrapped__("p{color:red}p{top:0}p::before{content:'x'}@media print{i{left:0}b{display:none}}")
    assert parsed == ["p{color:red}@media print{b{display:none}}"]
