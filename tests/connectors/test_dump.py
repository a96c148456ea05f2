"""Reading uiautomator dumps: the same tree as an XML library sees, and what real dumps do beyond XML."""

import re
from collections.abc import Callable
from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from tests.connectors.android_logs import dump, node, real_files
from trajmill.connectors.android.action import target_at
from trajmill.connectors.android.dump import read_dump
from trajmill.connectors.screens.tree import Tree
from trajmill.schemas import ParseError

XML_TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("\n\t\"'<>&"), max_size=12)


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Dumps of odd layout: either quote, white space between tags, attributes in any order, comments."""

    def element(levels: int) -> str:
        pairs = {"text": draw(XML_TEXT), "class": "android.widget.Button", "resource-id": "a:id/" + draw(XML_TEXT)}
        pairs |= {"bounds": "[0,0][9,9]", "checked": draw(st.sampled_from(["true", "false"]))}
        names = draw(st.permutations(sorted(pairs)))
        single = draw(st.booleans())
        words = "".join(f" {name}={_quoted(pairs[name], single)}" for name in names)
        count = draw(st.integers(0, 2)) if levels else 0
        inner = draw(st.sampled_from(["", "\n  ", "<!-- <node> -->"])).join(element(levels - 1) for _ in range(count))
        return f"<node{words}>{inner}</node>" if inner or draw(st.booleans()) else f"<node{words} />"

    return f'<?xml version="1.0"?>\n<hierarchy rotation="0">{element(3)}</hierarchy>'


def _quoted(text: str, single: bool) -> str:
    quoted = quoteattr(text, {"\n": "&#10;", "\t": "&#x9;", '"': "&quot;"})
    return "'" + quoted[1:-1].replace("'", "&apos;") + "'" if single else quoted


@given(documents())
def test_the_tree_is_what_an_xml_library_sees(document: str) -> None:
    seen = [
        (element.get("text"), element.get("resource-id", "").rpartition(":id/")[2], element.get("checked") == "true")
        for element in etree.fromstring(document.encode()).iter("node")
    ]
    nodes = read_dump(document.encode(), "x").tree.nodes[1:]
    assert [(element.name, element.ident, "checked" in element.states) for element in nodes] == seen


FLAG = st.sampled_from(["true", "false", "", "TRUE"])


@given(st.lists(XML_TEXT, min_size=6, max_size=6), st.lists(FLAG, min_size=11, max_size=11), st.booleans(), st.data())
def test_the_order_that_android_writes_attributes_in_reads_like_any_other(
    texts: list[str], flags: list[str], newer: bool, data: st.DataObject
) -> None:
    index, text, ident, kind, description, hint = (quoteattr(value, {'"': "&quot;"}) for value in texts)
    names = "checkable checked clickable enabled focusable focused scrollable long-clickable password selected"
    pairs = {"index": index, "text": text, "resource-id": ident, "class": kind, "package": '"p"'}
    pairs |= {"content-desc": description}
    pairs |= {name: f'"{flag}"' for name, flag in zip(names.split(), flags, strict=False)}
    pairs |= {"bounds": data.draw(st.sampled_from(['"[0,-1][20,30]"', '"[0,0]"', '""']))}
    if newer:
        pairs |= {"drawing-order": '"1"', "hint": hint, "display-id": '"0"', "visible-to-user": f'"{flags[-1]}"'}
    own, shuffled = (
        "".join(f" {name}={pairs[name]}" for name in order)
        for order in (list(pairs), data.draw(st.permutations(list(pairs))))
    )
    seen = []
    for words in (own, shuffled):
        screen = read_dump(f"<hierarchy><node{words}><node{words} /></node></hierarchy>".encode(), "x")
        seen.append((screen.text, screen.package, screen.marks))
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    ("ident", "shown"),
    [("search", "search"), ("radix-:r1:", ""), ("mui-123", ""), ("org.example:id/mui-123", "mui-123")],
)
def test_the_id_of_an_element_of_a_web_view_is_shown_where_it_lasts(ident: str, shown: str) -> None:
    attributes = {"class": "android.widget.Button", "clickable": "true", "resource-id": ident}
    (_, button) = read_dump(dump(node("[0,0][9,9]", "A", **attributes)), "x").tree.nodes
    assert (button.name, button.ident) == ("A", shown)


def test_a_dump_cut_at_any_byte_is_truncated_at_its_broken_tag() -> None:
    data = dump(node("[0,0][9,9]", "é"), node("[0,9][9,18]", "b"))
    end = data.index(b"</hierarchy>") + len(b"</hierarchy>")
    for length in range(data.index(b"<hierarchy") + 1, end):
        with pytest.raises(ParseError) as caught:
            read_dump(data[:length], "x")
        assert caught.value.reason == "truncated"
        assert data[caught.value.offset : caught.value.offset + 1] in (b"<", "é".encode()[:1], b"")


@pytest.mark.parametrize(
    ("box", "shown"),
    [
        ("[0,0][50,50]", True), ("[90,190][150,250]", True), ("[-20,-20][1,1]", True), ("", True),
        ("[0,60][50,50]", False), ("[60,0][50,50]", False), ("[0,0][0,0]", False), ("[0,10][50,10]", False),
        ("[0,200][50,250]", False), ("[100,0][150,50]", False), ("[-50,0][0,50]", False),
    ],
)  # fmt: skip
def test_a_view_has_a_line_where_its_box_has_a_place_on_the_screen(box: str, shown: bool) -> None:
    inner = node("[0,0][9,9]", "inside")
    screen = read_dump(dump(node(box, "out", inner, clickable="true")), "x")
    assert [element.name for element in screen.tree.nodes[1:]] == ["out", "inside"][not shown :]
    assert screen.marks[0][0] == (2 if shown else 0)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("&#55357;&#56832;", "😀"), ("&#xD83D;&#xDE00;", "😀"), ("&#55357;!", "\ufffd!"), ("&#0;&#1;", "\ufffd\ufffd"),
        ("&#99999999;", "\ufffd"), ("a&#10;b&#9;c", "a\nb\tc"), ("a\nb", "a b"), ("a\x01b", "a\ufffdb"),
        ("a\0b", "a b"),
        ("&lt;&amp;amp;&gt;&quot;&apos;", "<&amp;>\"'"),
        ("&file; & co", "&file; & co"),
        ("a > b", "a > b"),
    ],
)  # fmt: skip
def test_references_and_characters_beyond_xml_are_read(raw: str, text: str) -> None:
    assert read_dump(dump(node("[0,0][9,9]", raw)), "x").tree.nodes[1].name == text


def test_an_entity_is_never_expanded_and_a_document_type_refused_with_its_place() -> None:
    data = b'<?xml version="1.0"?>\n<!DOCTYPE x [<!ENTITY a "aaaa">]>' + dump(node("[0,0][9,9]", "&a;"))
    with pytest.raises(ParseError) as caught:
        read_dump(data, "x")
    assert (caught.value.reason, caught.value.offset) == ("doctype", data.index(b"<!DOCTYPE"))


def test_lines_of_the_tool_around_the_document_are_passed_over() -> None:
    data = dump(node("[0,0][9,9]", "a"))
    plain = read_dump(data, "x").text
    around = b"UI hierchary dumped to: /sdcard/window_dump.xml\r\n" + data + b"UI hierchary dumped to: /dev/tty\n\0\0"
    assert read_dump(around, "x").text == plain


def test_a_dump_rewritten_as_utf16_reads_the_same() -> None:
    data = dump(node("[0,0][9,9]", "Grüße"))
    assert read_dump(data.decode().encode("utf-16"), "x").text == read_dump(data, "x").text
    assert read_dump(b"\xef\xbb\xbf" + data, "x").text == read_dump(data, "x").text


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"ERROR: could not get idle state.\n", "no_hierarchy"),
        (b"<hierarchy rotation='0'/>", "no_nodes"),
        (b"<hierarchy></hierarchy>", "no_nodes"),
        (b"<project><a/></project>", "bad_xml"),
        (b"<hierarchy><node a='1' a='2'/></hierarchy>", "bad_xml"),
        (b"<hierarchy></node></hierarchy>", "bad_xml"),
        (b"<hierarchy><node></hierarchy></node></hierarchy>", "bad_xml"),
        (b'<hierarchy><node text="\xff"/></hierarchy>', "not_utf8"),
        (b"<hierarchy>" + b'<node resource-id="a">' * 300 + b"</node>" * 300 + b"</hierarchy>", "nested_too_deeply"),
    ],
)
def test_what_is_no_dump_is_refused_with_its_reason(data: bytes, reason: str) -> None:
    with pytest.raises(ParseError) as caught:
        read_dump(data, "x", "m")
    assert (caught.value.reason, caught.value.member) == (reason, "m")


def test_nesting_without_lines_of_its_own_has_no_limit() -> None:
    opening = b'<node class="android.widget.FrameLayout" bounds="[0,0][9,9]">'
    data = b"<hierarchy>" + opening * 20000 + b'<node text="a"/>' + b"</node>" * 20000 + b"</hierarchy>"
    assert read_dump(data, "x").text.split("\n")[1] == '  #2 node "a"'


@pytest.mark.corpus
def test_real_dumps_have_the_texts_that_an_xml_library_sees(record_property: Callable[[str, object], None]) -> None:
    for file in real_files("appagent_task", "*.xml", record_property):
        data = file.read_bytes()
        screen = read_dump(data, file.name)
        assert Tree.parse(screen.text).text == screen.text
        boxes = [
            (element, [int(side) for side in re.findall(r"-?\d+", element.get("bounds", ""))])
            for element in etree.fromstring(data).iter("node")
        ]
        seen = {element.get("text") for element, box in boxes if box[0] < box[2] and box[1] < box[3]} - {""}
        shown = {text for element in screen.tree.nodes for text in (element.name, element.value, element.description)}
        assert seen <= shown
        assert all(re.search(r"\[-?\d+,-?\d+\]$", line) for line in screen.text.split("\n"))
        assert not re.search(r"^ +#\d+ group( disabled)?( id=\S+)? \[", screen.text, re.MULTILINE)


def test_a_page_source_of_ios_is_named_as_none_of_android() -> None:
    with pytest.raises(ParseError) as caught:
        read_dump(b'<?xml version="1.0"?><XCUIElementTypeApplication name="x"/>', "x")
    assert caught.value.reason == "not_android"


def test_a_touch_meets_nothing_of_another_display() -> None:
    view = '<node class="android.widget.Button" text="{}" package="p" clickable="true" bounds="[0,{}][90,{}]"/>'
    first, second = view.format("A", 0, 50), view.format("B", 100, 150)
    inner = '<display id="{}"><window title="w" bounds="[0,0][90,200]"><hierarchy>{}</hierarchy></window></display>'
    text = f"<displays>{inner.format(0, first)}{inner.format(2, second)}</displays>"
    screen = read_dump(text.encode(), "x")
    assert '#4 button "B"' in screen.text
    assert [target_at(screen, (10, y), "click") for y in (10, 110)] == [2, None]
    alone = read_dump(
        text.replace('<display id="2">', "").replace("</display></displays>", "</displays>").encode(), "x"
    )
    assert target_at(alone, (10, 110), "click") == 4
