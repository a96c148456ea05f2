"""Fields that may hold anything."""

import pytest

from trajmill.connectors.reading.fields import whole_number_of
from trajmill.connectors.reading.own_arguments import arguments_in


@pytest.mark.parametrize("value", [True, False, None, 1.0, "1", [1], {"a": 1}])
def test_what_is_no_whole_number_is_none_and_so_are_true_and_false(value):
    assert whole_number_of(value) is None
    assert whole_number_of(value, range(2)) is None


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
