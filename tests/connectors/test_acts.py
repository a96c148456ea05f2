"""Acts become actions whose text is what a model reads and whose arguments are what was typed."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from trajmill.connectors.recordings.acts import Act, action_of, typed_text

KEYS = st.text(st.sampled_from('\r\n\\r"n\x1b[A日 '), max_size=8)


@given(st.lists(KEYS, min_size=1, max_size=3))
def test_enter_is_read_as_a_line_feed_and_kept_as_typed(keys: list[str]) -> None:
    act = Act(0, 0.0, float(len(keys)), None, [(one, float(at), float(at)) for at, one in enumerate(keys)], {})
    action = action_of(act, len(keys) + 1.0)
    assert [stroke["keystrokes"] for stroke in json.loads(action.text)] == list(map(typed_text, keys))
    assert [stroke["keystrokes"] for stroke in json.loads(action.arguments or "")["keystrokes"]] == keys
