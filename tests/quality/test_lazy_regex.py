import re

from trajmill.quality.lazy_regex import Later


def test_a_pattern_is_compiled_once_and_not_before_it_is_asked():
    calls = []

    def compiled():
        calls.append(1)
        return re.compile("b+")

    pattern = Later(compiled)
    assert not calls
    assert pattern.search("abb").span() == (1, 3)
    assert [match[0] for match in pattern.finditer("b bb")] == ["b", "bb"]
    assert pattern.search("a") is None
    assert len(calls) == 1
