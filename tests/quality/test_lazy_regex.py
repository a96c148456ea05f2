import re

from trajmill.quality.lazy_regex import Later


def test_a_pattern_is_compiled_once_and_not_before_it_is_asked():
    made = []

    def compiled():
        made.append(1)
        return re.compile("b+")

    pattern = Later(compiled)
    assert not made
    assert pattern.search("abb").span() == (1, 3)
    assert [one[0] for one in pattern.finditer("b bb")] == ["b", "bb"]
    assert pattern.search("a") is None
    assert len(made) == 1
