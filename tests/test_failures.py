"""A failure in one of many cases hides no other, and none is passed over."""

import pytest

from tests.failures import every


def tried(names: list[str]) -> None:
    with every() as case:
        for name in ("good", "wrong", "broken", "last"):
            with case(name):
                names.append(name)
                assert name != "wrong", "it is wrong"
                if name == "broken":
                    raise KeyError("a key")


def test_every_case_is_tried_and_each_that_fails_is_named():
    names: list[str] = []
    with pytest.raises(pytest.fail.Exception) as caught:
        tried(names)
    assert names == ["good", "wrong", "broken", "last"]
    for words in ("2 failed: wrong, broken", "it is wrong", "KeyError: 'a key'"):
        assert words in str(caught.value)
    assert "good" not in str(caught.value)


def test_a_failure_of_pytest_is_told_like_any_other():
    with pytest.raises(pytest.fail.Exception, match="late"), every() as case, case("late"):
        pytest.fail("by hand")


def test_where_nothing_fails_nothing_is_raised():
    names = []
    with every() as case, case("good"):
        names.append("good")
    assert names == ["good"]
