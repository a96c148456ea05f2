"""Numbers of elements over the screens of a trajectory: who keeps one, who gets the next, and what never changes."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.connectors.screens.numbers import Numbers
from trajmill.connectors.screens.tree import Node, Tree


def shown(*screens: list[str]) -> list[list[str]]:
    """The screens with numbers that last; each line is given by its indent and what follows the number."""
    numbers = Numbers()
    texts = []
    for screen in screens:
        placed = [re.sub(r"^( *)", rf"\1#{number} ", line) for number, line in enumerate(screen, 1)]
        texts.append(numbers.shown("\n".join(placed))[0].split("\n"))
    return texts


def numbers_of(screen: list[str]) -> list[int]:
    return [int(line.lstrip()[1:].split()[0]) for line in screen]


def bare(text: str) -> str:
    return re.sub(r"(?m)^( *)#[0-9]+ ", r"\1", text)


TABLE = [("Ann", "10"), ("Bob", "10"), ("Cid", "20"), ("Dan", "10"), ("Eve", "20"), ("Fay", "10"), ("Gus", "10")]


@pytest.mark.parametrize("boxes", [False, True])
def test_equal_cells_of_a_flat_table_stay_with_their_row_when_it_is_scrolled(boxes: bool) -> None:
    def scrolled(first: int) -> list[str]:
        cells = [(at, side, word) for at, row in enumerate(TABLE[first : first + 4]) for side, word in enumerate(row)]
        return [
            "table",
            *(f'  cell "{word}"' + f" [{side},{at}][{side + 1},{at + 1}]" * boxes for at, side, word in cells),
        ]

    first, second = shown(scrolled(0), scrolled(2))
    assert numbers_of(first) == list(range(1, 10))
    assert numbers_of(second)[:5] == [1, 6, 7, 8, 9], "the rows of Cid and Dan"
    assert not {6, 7, 8, 9} & set(numbers_of(second)[5:])


TREES = st.lists(
    st.tuples(st.sampled_from(["group", "text", "button"]), st.sampled_from(["", "a", "b"]), st.integers(0, 3)),
    min_size=1,
    max_size=12,
)


def text_of(rows: list[tuple[str, str, int]]) -> str:
    depths: list[int] = []
    for _, _, depth in rows:
        depths.append(min(depth, depths[-1] + 1) if depths else 0)
    return Tree([Node(role, name, bounds=(0, 0, 1, at)) for at, (role, name, _) in enumerate(rows)], depths).text


@given(st.lists(TREES, min_size=1, max_size=6))
def test_only_numbers_change_none_stands_twice_and_nothing_later_counts(
    screens: list[list[tuple[str, str, int]]],
) -> None:
    texts = [text_of(rows) for rows in screens]
    numbers = Numbers()
    results = [numbers.shown(text) for text in texts]
    again = Numbers()
    assert [again.shown(text)[0] for text in texts[: len(texts) // 2]] == [
        text for text, _ in results[: len(texts) // 2]
    ]
    seen: set[int] = set()
    for text, (written, places) in zip(texts, results, strict=True):
        assert bare(written) == bare(text)
        here = Tree.parse(written).numbers or tuple(range(1, written.count("\n") + 2))
        assert list(here) == list(places.values())
        assert sorted(set(here) - seen) == list(range(len(seen) + 1, len(seen | set(here)) + 1))
        seen |= set(here)


@given(TREES, TREES)
def test_equal_screens_one_after_the_other_have_equal_texts(
    first: list[tuple[str, str, int]], second: list[tuple[str, str, int]]
) -> None:
    numbers = Numbers()
    numbers.shown(text_of(first))
    assert numbers.shown(text_of(second)) == numbers.shown(text_of(second))


def test_thousands_of_equal_elements_and_many_screens_take_no_square_of_time() -> None:
    rows = ["window", *("  cell" for _ in range(4_000))]
    first, second = shown(rows, [*rows, '  text "end"'])
    assert numbers_of(first) == list(range(1, 4_002))
    assert numbers_of(second)[-1] == 4_002
    assert numbers_of(shown(*(["window", f'  text "{at}"', '  button "Next"'] for at in range(600)))[-1]) == [1, 2, 3]
