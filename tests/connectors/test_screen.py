"""The screen: what it shows, against pyte as the oracle on all that both emulate, and what it must survive."""

from trajmill.connectors.recordings.screen import encoded

COLUMNS, ROWS = 20, 6


def test_lone_surrogates_become_the_replacement_character_and_pairs_are_joined() -> None:
    assert encoded("a\ud83d\ude00b\ud83d").decode() == "a\U0001f600b\ufffd"
