"""The compact tree: its text is read back as it was written, whatever the texts hold."""

import pytest
from hypothesis import given
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
def test_a_tree_is_read_back_from_its_text(tree: Tree) -> None:
    read = Tree.parse(tree.text)
    assert list(read.nodes) == list(tree.nodes)
    assert list(read.depths) == list(tree.depths)
    assert read.text == tree.text


@pytest.mark.parametrize(
    "text",
    [
        "#0 text", "#1 text\n#1 text", "  #1 text", "#1 text\n    #2 text", '#1 text "a" "b"', '#1 text "open',
        "#1 text [1,2]", "#1 Text", "#1 text\n", "text",
        "\n".join("  " * depth + f"#{depth + 1} text" for depth in range(MAX_DEPTH + 1)),
    ],
)  # fmt: skip
def test_text_that_is_no_tree_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(ValueError):
        Tree.parse(text)
