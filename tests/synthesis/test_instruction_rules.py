"""Rules of simulation instructions: what a draft may name, and what it must not give away."""

from typing import Any

import pytest

from trajmill.synthesis.instruction_rules import Draft, Logged, compose_instruction, draft_in, fault_of

SHELL = Logged(
    "t",
    "terminal",
    "mend the tests",
    "",
    ('"command": "pytest tests/test_sum.py"', '"command": "cat out.log"'),
    ("2 failed, 17 passed in test_sum.py\nAssertionError: 3 != 4", "x" * 400 + " no network"),
)
SEARCH = Logged(
    "s",
    "search",
    "Who built the lighthouse of Orvane?",
    "Maren Toft",
    ('"query": "lighthouse of Orvane"', '"query": "builder"'),
    ("Lighthouse of Orvane: lit in 1820.", "Maren Toft, engineer, built it."),
)


def draft(instruction: str, quote: str = "2 failed, 17 passed", kind: str = "failure", turn: int = 1) -> Draft:
    return Draft(instruction, (kind,), ((turn, quote),))


@pytest.mark.parametrize(
    ("made", "fault"),
    [
        (draft("Two of the tests in `test_sum.py` fail for good, since a sum is off by one."), ""),
        (draft('In turn 12 or later the log says "no network".', "no network", "content", 2), ""),
        (draft("It fails."), "length"),
        (draft("Tests fail, and go on failing whatever is tried."), ""),
        (draft("Tests fail, and go on failing whatever is tried.", kind="pagination"), "kind"),
        (draft("Tests fail, and go on failing whatever is tried.", "3 failed"), "quote_absent"),
        (draft("Tests fail, and go on failing whatever is tried.", turn=2), "quote_absent"),
        (draft("Tests fail, and go on failing whatever is tried.", turn=9), "quote_absent"),
        (draft("The tests in `test_product.py` fail, whatever is tried."), "mentions_absent"),
        (draft("The tests below tests/unit/deep fail, whatever is tried."), "mentions_absent"),
        (draft("Exactly 42 tests fail, whatever is tried."), "mentions_absent"),
        (draft("The function add_all fails, whatever is tried."), "mentions_absent"),
        (draft("The class named addAll fails, whatever is tried."), "mentions_absent"),
        (draft('The test says "assert 5 == 6", whatever is tried.'), "mentions_absent"),
        (draft("The log holds " + "x" * 150, "no network", "content", 2), "copies"),
        (Draft("Tests fail, and go on failing whatever is tried.", (), ()), "kind"),
    ],
)
def test_an_instruction_rests_on_what_is_there_and_names_nothing_else(made, fault):
    assert fault_of(made, SHELL) == fault


@pytest.mark.parametrize(
    ("instruction", "query", "answer", "fault"),
    [
        ("An engineer has an article of her own.", SEARCH.task, "Maren Toft", ""),
        ("", SEARCH.task, "maren  TOFT", ""),
        ("The builder is Maren Toft.", SEARCH.task, "Maren Toft", "leaks_answer"),
        ("", "What did Maren Toft build?", "Maren Toft", "leaks_answer"),
        ("", SEARCH.task, "Vera Lund", "answer_unknown"),
        ("", SEARCH.task, "", "answer_unknown"),
        ("", "", "Maren Toft", "answer_unknown"),
        ("", SEARCH.task, "1820", "answer_shown_first"),
        ("Toft's bridges are in `bridges.html`.", SEARCH.task, "Maren Toft", "mentions_absent"),
    ],
)
def test_an_answer_stands_in_its_own_line_and_nowhere_else(instruction, query, answer, fault):
    assert fault_of(Draft(instruction, (), (), query, answer), SEARCH) == fault


def test_the_clause_on_leaks_is_one_that_the_log_fulfils():
    instruction = compose_instruction(Draft("One article is hers.", (), (), SEARCH.task, "Maren Toft"), SEARCH)
    assert instruction.splitlines() == [
        "Target query: Who built the lighthouse of Orvane?",
        "Reference answer: Maren Toft",
        "No result before turn 2 states the reference answer, and none says that it is one.",
        "One article is hers.",
    ]
    never = Logged(*("s", "search", "q", "Vera", ("a",), ("nothing",)))
    assert "No result states the reference answer" in compose_instruction(Draft("", (), (), "q", "Vera"), never)


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"instruction": None}, "nothing"),
        (None, "unreadable"),
        ({}, "unreadable"),
        ({"instruction": 3}, "unreadable"),
        ({"instruction": "x", "controls": "y"}, "unreadable"),
        ({"instruction": "x", "controls": [{"kind": "content"}]}, "unreadable"),
        ({"instruction": "x", "controls": [{"kind": "content", "turn": "1", "quote": "q"}]}, "unreadable"),
        ({"instruction": " x ", "controls": [{"kind": "k", "turn": 1, "quote": "q"}]}, Draft("x", ("k",), ((1, "q"),))),
        ({"instruction": "", "query": "q", "answer": None}, Draft("", (), (), "q", "")),
    ],
)
def test_only_a_draft_in_its_form_is_one(values: dict[str, Any] | None, found: Draft | str):
    assert draft_in(values) == found
