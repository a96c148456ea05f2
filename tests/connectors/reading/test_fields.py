"""Fields that may hold anything."""

import pytest

from trajmill.connectors.reading.fields import INT32, str_in, text_in, whole_number_of
from trajmill.connectors.reading.own_arguments import arguments_in


@pytest.mark.parametrize("value", [0, -1, 7, 1 << 40, 10**30])
def test_a_whole_number_is_what_it_is(value):
    assert whole_number_of(value) == value


@pytest.mark.parametrize("value", [True, False, None, 1.0, "1", [1], {"a": 1}])
def test_what_is_no_whole_number_is_none_and_so_are_true_and_false(value):
    assert whole_number_of(value) is None
    assert whole_number_of(value, range(2)) is None


def test_a_whole_number_is_one_of_those_allowed():
    assert [one for one in (-(2**31) - 1, -(2**31), 2**31 - 1, 2**31) if whole_number_of(one, INT32) is not None] == [
        -(2**31),
        2**31 - 1,
    ]


def test_an_empty_text_is_told_from_none_only_where_that_is_asked_for():
    told = {"a": "", "b": "x", "c": 1}
    assert [str_in(told, key) for key in "abcd"] == ["", "x", None, None]
    assert [text_in(told, key) for key in "abcd"] == [None, "x", None, None]
    assert str_in(["a"], "a") is None


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("", {}),
        ('{"a": 1}', {"a": 1}),
        ("[1]", {"input": "[1]"}),
        ("ls -l", {"input": "ls -l"}),
        ("null", {"input": "null"}),
    ],
)
def test_arguments_that_are_no_object_are_the_input(text, held):
    assert arguments_in(text) == held
