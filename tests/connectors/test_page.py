"""Pages as trees: what of a DOM has a line, what each line says, and which line stands for which node."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.connectors.screens.dom import MAX_LEVELS, DomNode
from trajmill.connectors.screens.page import page_of
from trajmill.connectors.screens.tree import Tree
from trajmill.connectors.web.markup import html_document, html_observation


def shown(html: str, url: str = "") -> list[str]:
    """The lines of the page of that HTML, without the document's own."""
    text = page_of(html_document(html), url).text
    return [line[2:] for line in text.split("\n")[1:]]


def words(text: str) -> list[str]:
    return text.split()


@pytest.mark.parametrize(
    ("html", "line"),
    [
        ("<a href='/x'>Go <b>on</b></a>", '#2 link "Go on" value="/x"'),
        ("<a>not a link</a>", '#2 text "not a link"'),
        ("<button aria-label=Close>×</button>", '#2 button "Close" description="×"'),
        ("<button>Save</button>", '#2 button "Save"'),
        ("<button title=Save></button>", '#2 button "Save"'),
        ("<button><img alt=Cart></button>", '#2 button "Cart"'),
        ("<button aria-expanded=false disabled>Menu</button>", '#2 button "Menu" collapsed disabled'),
        ("<h3>Part <i>two</i></h3>", '#2 h3 "Part two"'),
        ("<div role=heading aria-level=4>Part</div>", '#2 h4 "Part"'),
        ("<input placeholder='Your name' required>", '#2 textbox "Your name" required'),
        (
            "<input type=search name=q value=tea aria-label=Find placeholder=All>",
            '#2 searchbox "Find" value="tea" description="All" id=q',
        ),
        ("<input type=password value=secret>", '#2 textbox value="••••••" password'),
        ("<input type=checkbox aria-label=A checked>", '#2 checkbox "A" checked'),
        ("<input type=radio aria-label=A>", '#2 radio "A" unchecked'),
        ("<div role=switch aria-checked=mixed aria-label=A></div>", '#2 switch "A" mixed'),
        ("<input type=submit>", '#2 button "Submit"'),
        ("<input type=image alt=Go>", '#2 button "Go"'),
        ("<textarea readonly>a\nb</textarea>", '#2 textbox value="a\\nb" readonly'),
        ("<div contenteditable>a <b>note</b></div>", '#2 textbox value="a note"'),
        ("<progress value=3 max=9></progress>", '#2 progressbar value="3"'),
        ("<img alt='A cat' src=x>", '#2 image "A cat"'),
        ("<svg><title>Logo</title><path/></svg>", '#2 image "Logo"'),
        ("<nav aria-label=Main><a href=/>x</a></nav>", '#2 navigation "Main"'),
        ("<div onclick='f()'>Open</div>", '#2 group "Open" clickable'),
        ("<div tabindex=-1>Plain</div>", '#2 text "Plain"'),
        ("<span role=button tabindex=0>Fake</span>", '#2 button "Fake"'),
        ("<button role=presentation>Still one</button>", '#2 button "Still one"'),
        ("<p>one<br>two <em>three</em></p>", '#2 text "one two three"'),
        ("<span>a</span><span>b</span>", '#2 text "ab"'),
        ("<pre>if x:\n  y\n</pre>", '#2 text "if x:\\n  y"'),
        ("<p id=n>Note</p><input aria-describedby=n aria-label=A>", '#3 textbox "A" description="Note"'),
        ("<b id=n>N</b> <i id=m>M</i><input aria-labelledby='n m'>", '#3 textbox "N M"'),
        ("<iframe title=Ad srcdoc='<p>Buy</p>'></iframe>", '#2 iframe "Ad"'),
    ],
)
def test_an_element_says_its_role_name_value_and_states(html: str, line: str) -> None:
    assert line in shown(html)


@pytest.mark.parametrize(
    "html",
    [
        "<div hidden>x</div>",
        "<div aria-hidden=true>x</div>",
        "<div style='color: red; DISPLAY:none !important'>x</div>",
        "<p style='visibility: hidden'>x</p>",
        "<script>x</script><style>x</style><noscript>x</noscript><template>x</template>",
        "<input type=hidden value=x>",
        "<dialog>x</dialog>",
        "<!-- x -->",
        "<img src=x alt=''>",
        "<ul></ul><nav></nav><section></section>",
    ],
)
def test_what_is_not_shown_has_no_line(html: str) -> None:
    assert shown(html) == []


def test_a_disabled_fieldset_disables_what_is_in_it_and_is_named_by_its_legend() -> None:
    html = "<fieldset disabled><legend>Opts</legend><input aria-label=A></fieldset><input aria-label=B>"
    assert shown(html) == ['#2 group "Opts"', '  #3 textbox "A" disabled', '#4 textbox "B"']


def test_a_table_with_headers_keeps_rows_and_empty_cells_and_one_for_layout_does_not() -> None:
    data = "<table><tr><th>N<th>V<tr><td>a<td></table>"
    assert shown(data) == [
        "#2 table",
        "  #3 row",
        '    #4 columnheader "N"',
        '    #5 columnheader "V"',
        "  #6 row",
        '    #7 cell "a"',
        "    #8 cell",
    ]
    assert shown("<table><tr><td>a<td></table>") == ['#2 row "a"']


def test_a_header_belongs_to_the_page_only_outside_of_sections() -> None:
    assert shown("<header>a</header>") == ["#2 banner", '  #3 text "a"']
    assert shown("<article><header>a</header><p>b</article>") == ["#2 article", '  #3 text "a"', '  #4 text "b"']


def test_slots_show_what_their_host_puts_there() -> None:
    html = (
        "<x-card><template shadowrootmode=open><h2><slot name=t>none</slot></h2><slot></slot><p><slot name=f>bare"
        "</slot></p></template><b slot=t>Title</b>Body <button>Go</button></x-card>"
    )
    assert shown(html) == ['#2 h2 "Title"', '#3 text "Body"', '#4 button "Go"', '#5 text "bare"']


def test_ids_of_a_shadow_root_are_its_own() -> None:
    html = (
        "<p id=n>outer</p><x-a><template shadowrootmode=open><p id=n>inner</p><input aria-labelledby=n>"
        "</template></x-a><input aria-labelledby=n>"
    )
    assert [line for line in shown(html) if "textbox" in line] == ['#4 textbox "inner"', '#5 textbox "outer"']


@pytest.mark.parametrize(
    ("href", "told"),
    [
        ("https://a.example/b/c?d=1", "/b/c?d=1"),
        ("https://a.example/p#top", "#top"),
        ("https://a.example.org/b", "https://a.example.org/b"),
        ("b", "b"),
        ("javascript:void(0)", ""),
        ("#", ""),
        ("/" + "x" * 100, ""),
    ],
)
def test_an_address_is_told_without_what_it_shares_with_the_pages(href: str, told: str) -> None:
    line = shown(f"<a href='{href}'>A</a>", "https://a.example/p#now")[0]
    assert line == '#2 link "A"' + (f' value="{told}"' if told else "")


@pytest.mark.parametrize("html", ["<div>" * 300, "<div>" * 50000, "<b>" * 300 + "<p>" * 5000])
def test_a_page_that_nests_too_deeply_is_refused_at_once(html: str) -> None:
    with pytest.raises(ValueError):
        page_of(html_document(html))


@pytest.mark.parametrize("tag", ["div", "table", "label", "slot", "section", "details", "button", "iframe", "x-a"])
@pytest.mark.parametrize("levels", [MAX_LEVELS // 2 - 2, MAX_LEVELS * 2])
def test_no_nesting_exhausts_the_stack_of_a_worker(tag: str, levels: int) -> None:
    node = DomNode("#text", text="x")
    for _ in range(levels):
        node = DomNode(tag, {"open": "", "aria-label": "a"}, children=[node])
        if tag == "iframe":
            node.frame = DomNode("#document", children=node.children)
        elif tag == "x-a":
            node.shadow = node.children
    document = DomNode("#document", children=[node])

    def called(depth: int) -> int:
        return called(depth - 1) if depth else page_of(document).text.count("\n") + 1

    if levels < MAX_LEVELS:
        assert called(250) > 1
    else:
        with pytest.raises(ValueError):
            called(250)


def test_many_items_without_end_tags_are_no_deep_nesting() -> None:
    assert len(shown("<ul>" + "<li>a" * 5000)) == 5001


TAGS = st.sampled_from(
    words(
        "div span p a button input ul li table tr td th h1 label select option textarea form nav svg img pre section "
        "details summary fieldset legend iframe slot dialog b br"
    )
)
VALUES = st.one_of(st.sampled_from(["", "true", "false", "1", "a", "button", "text", "checkbox"]), st.text(max_size=8))
NAMES = st.sampled_from(
    words(
        "id class role href type value aria-label aria-labelledby aria-hidden hidden onclick tabindex title alt for "
        "name open contenteditable aria-expanded checked selected disabled placeholder slot"
    )
)
ATTRIBUTES = st.dictionaries(NAMES, VALUES, max_size=3)
TEXTS = st.builds(lambda text: DomNode("#text", text=text), st.text(max_size=10))


def elements(children: st.SearchStrategy[DomNode]) -> st.SearchStrategy[DomNode]:
    inside = st.lists(children, max_size=4)
    return st.builds(
        lambda tag, attributes, nodes, shadow, frame: DomNode(
            tag, attributes, "", nodes, shadow, None if frame is None else DomNode("#document", children=frame)
        ),
        TAGS,
        ATTRIBUTES,
        inside,
        st.none() | st.lists(children, max_size=2),
        st.none() | st.lists(children, max_size=2),
    )


NODES = st.recursive(TEXTS, elements, max_leaves=25)
DOCUMENTS = st.builds(lambda nodes: DomNode("#document", children=nodes), st.lists(NODES, max_size=4))


@given(DOCUMENTS, st.text(max_size=10))
def test_the_tree_of_any_dom_is_read_back_from_its_text_and_names_only_its_own_lines(
    document: DomNode, url: str
) -> None:
    page = page_of(document, url)
    read = Tree.parse(page.text)
    assert read.text == page.text
    assert all(1 <= line <= len(read.nodes) for line in page.ids.values())
    assert page_of(document, url).text == page.text


@given(st.text(alphabet="<>/ab='\"&;! -pdivsl\x00\u00a0é", max_size=80))
def test_any_text_is_a_page(text: str) -> None:
    page = page_of(html_document(text))
    assert Tree.parse(page.text).text == page.text


def test_html_reads_back_to_the_same_page() -> None:
    html = "<main><a href='/x?a=1&amp;b=2'>A &lt; B</a><input value='&quot;q&quot;' checked></main>"
    document = html_document(html)
    assert page_of(html_document(html_observation(document, None).content or "")).text == page_of(document).text


def test_a_password_is_not_in_the_html() -> None:
    seen = html_observation(html_document("<input type=password value=hunter2>"), None)
    assert ("hunter" in (seen.content or ""), seen.sensitive) == (False, ("hunter2",))


def test_white_space_before_a_pre_on_its_line_is_kept_with_that_in_it() -> None:
    assert shown("<div>  <pre role=code>a  b</pre></div>") == ['#2 text "  a  b"']
    assert shown("<div>  <pre>a  b</pre></div>") == ['#2 text "a  b"']
    assert shown("<div>  <pre role=code> </pre></div>") == []


@pytest.mark.parametrize(
    ("html", "lines"),
    [
        ("<span>Prev</span><span>Next</span>", ['#2 text "Prev Next"']),
        ("<span>Price</span><!-- --><span>$5</span><b>!</b>", ['#2 text "Price $5!"']),
        ("<span>16</span><span>th</span>", ['#2 text "16th"']),
        ("<b>H</b>ello <i>w</i><i>e</i>", ['#2 text "Hello we"']),
        ("<pre><span>de</span><span>f</span></pre>", ['#2 text "def"']),
        ("<label><i>First</i><i>name</i><input></label>", ['#2 text "First name"', '#3 textbox "First name"']),
    ],
)
def test_elements_side_by_side_are_parted_by_a_blank_and_parts_of_a_word_are_not(html: str, lines: list[str]) -> None:
    assert shown(html) == lines


@pytest.mark.parametrize(
    ("html", "lines"),
    [
        ("<a>Prev</a><a onclick=x>Next</a>", ['#2 text "Prev"', '#3 link "Next"']),
        (
            "<p>See <a href=/x>it</a> <i onclick=y></i></p>",
            ['#2 text "See"', '#3 link "it" value="/x"', "#4 group clickable"],
        ),
        ("<img alt='' onclick=x><svg onclick=y></svg>", ["#2 image clickable", "#3 image clickable"]),
        (
            "<table><tr><td onclick=x>A</td><td>B</td></tr></table>",
            ["#2 row", '  #3 cell "A" clickable', '  #4 text "B"'],
        ),
    ],
)
def test_what_listens_keeps_a_line_with_and_without_text(html: str, lines: list[str]) -> None:
    assert shown(html) == lines


def boxed(tag: str, box: tuple[int, int, int, int], *children: DomNode, **attributes: str) -> DomNode:
    return DomNode(tag, dict(attributes), "", list(children), None, None, box)


def written(content: str) -> DomNode:
    return DomNode("#text", {}, content)


def lines_of(*nodes: DomNode, targets: tuple[DomNode, ...] = ()) -> list[str]:
    body = DomNode("body", children=list(nodes))
    return page_of(DomNode("#document", children=[body]), targets=targets).text.split("\n")[1:]


def test_elements_with_boxes_of_their_own_never_join_be_they_words_icons_or_shapes() -> None:
    words = boxed(
        "p",
        (0, 0, 99, 20),
        written("Pick "),
        boxed("span", (30, 0, 50, 20), written("red")),
        boxed("span", (50, 0, 70, 20), written("blue")),
        boxed("i", (80, 0, 90, 10)),
        boxed("i", (90, 0, 90, 10)),
    )
    drawing = boxed("svg", (0, 30, 99, 90), boxed("circle", (5, 35, 15, 45)), boxed("g", (20, 35, 30, 45)))
    assert lines_of(words, drawing) == [
        '  #2 text "Pick"',
        '  #3 text "red" [30,0][50,20]',
        '  #4 text "blue" [50,0][70,20]',
        "  #5 group [80,0][90,10]",
        "  #6 image [0,30][99,90]",
        "    #7 circle [5,35][15,45]",
        "    #8 group [20,35][30,45]",
    ]


def test_a_place_that_was_hit_beside_what_stands_in_it_has_a_line_of_its_own() -> None:
    box = boxed("input", (5, 5, 15, 15), type="checkbox")
    label = boxed("label", (5, 5, 60, 15), box, written("Milk"))
    area = boxed("div", (0, 0, 90, 90), label)
    body = [boxed("form", (0, 0, 99, 99), area)]
    unhit = lines_of(*body)
    assert not [line for line in unhit if "group" in line]
    hit = lines_of(*body, targets=(area,))
    assert hit[:2] == ["  #2 form [0,0][99,99]", "    #3 group [0,0][90,90]"]
    page = page_of(DomNode("#document", children=body), targets=[area])
    assert page.ids[area] == 3
    # A label that was hit is its box.
    page = page_of(DomNode("#document", children=body), targets=[label])
    assert page.ids[label] == page.ids[box]


def test_texts_of_a_drawing_are_shown_and_what_it_only_defines_is_not() -> None:
    texts = "<text>May</text><g><text>Ju<tspan>ne</tspan></text></g><a href='/all'><text>All</text></a>"
    unseen = "<desc>rain</desc><defs><text>old</text></defs><symbol><text>sign</text></symbol>"
    assert shown(f"<svg><title>Rain by month</title>{unseen}{texts}</svg>") == [
        '#2 image "Rain by month"',
        '  #3 text "May"',
        '  #4 text "June"',
        '  #5 link "All" value="/all"',
    ]
    assert shown("<a href='/cart'><svg><text>Cart</text></svg></a>") == ['#2 link "Cart" value="/cart"']
