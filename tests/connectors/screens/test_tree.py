"""The compact tree: its text is read back as it was written, whatever the texts hold."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trajmill.connectors.screens.tree import MAX_DEPTH, Node, Tree

TEXTS = st.one_of(st.just(""), st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
NUMBERS = st.integers(-9999, 99999)
NODES = st.builds(
    Node,
    role=st.from_regex(r"[a-z][a-z0-9_.-]{0,8}", fullmatch=True),
    name=TEXTS,
    value=TEXTS,
    description=TEXTS,
    states=st.lists(st.sampled_from(["clickable", "checked", "long_clickable"]), max_size=3, unique=True).map(tuple),
    ident=TEXTS,
    bounds=st.none() | st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS),
)


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    nodes = draw(st.lists(NODES, max_size=12))
    depths: list[int] = []
    for _ in nodes:
        depths.append(draw(st.integers(0, min(depths[-1] + 1, 5))) if depths else 0)
    return Tree(nodes, depths)


@given(trees())
@settings(max_examples=60, deadline=None)
def test_a_tree_is_read_back_from_its_text(tree: Tree) -> None:
    read = Tree.parse(tree.text)
    assert list(read.nodes) == list(tree.nodes)
    assert list(read.depths) == list(tree.depths)
    assert read.text == tree.text


def test_a_node_is_one_line_with_its_parts_in_order() -> None:
    box = (1, 2, 30, 40)
    leaf = Node("textbox", 'To "all"', "a\nb", "wide", ("clickable", "focused"), "to field", box)
    tree = Tree([Node("window", "org.example"), leaf, Node("text", ident="title")], [0, 1, 1])
    assert tree.text == (
        '#1 window "org.example"\n'
        '  #2 textbox "To \\"all\\"" value="a\\nb" description="wide" clickable focused id="to field" [1,2][30,40]\n'
        "  #3 text id=title"
    )


@pytest.mark.parametrize(
    "text",
    [
        "#0 text",
        "#1 text\n#1 text",
        "  #1 text",
        "#1 text\n    #2 text",
        '#1 text "a" "b"',
        '#1 text "open',
        "#1 text [1,2]",
        "#1 Text",
        "#1 text\n",
        "text",
        "\n".join("  " * depth + f"#{depth + 1} text" for depth in range(MAX_DEPTH + 1)),
    ],
)
def test_text_that_is_no_tree_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(ValueError):
        Tree.parse(text)


def test_numbers_that_last_are_read_back_and_are_what_a_touch_meets() -> None:
    text = '#7 window "a" [0,0][9,9]\n  #12 button "Buy" clickable [0,0][5,5]\n  #3 text "Tea"'
    tree = Tree.parse(text)
    assert tree.numbers == (7, 12, 3)
    assert tree.text == text
    assert tree.at(2, 2, "clickable") == 12


def test_a_touch_meets_the_last_node_drawn_that_takes_it() -> None:
    row, over = Node("group", states=("clickable",), bounds=(0, 0, 100, 50)), Node("text", bounds=(0, 0, 50, 50))
    button = Node("button", states=("clickable",), bounds=(80, 0, 100, 50))
    tree = Tree([Node("window", bounds=(0, 0, 100, 100)), row, over, button], [0, 1, 2, 2])
    assert tree.at(10, 10, "clickable") == 2
    assert tree.at(90, 10, "clickable") == 4
    assert tree.at(90, 50, "clickable") is None
    assert tree.at(10, 10, "scrollable") is None


def test_a_touch_meets_the_topmost_window_first() -> None:
    button = Node("button", states=("clickable",), bounds=(0, 0, 100, 50))
    tree = Tree([Node("window"), button, Node("window"), button], [0, 1, 0, 1])
    assert tree.at(5, 5, "clickable") == 2
