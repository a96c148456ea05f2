"""How many lines of a screen count as changed, and how many as renumbered only."""

from __future__ import annotations

from benchmarks.screen_changes import Changes, changed

BEFORE = '#1 window\n  #2 text "Tea"\n  #3 button "Buy"'


def test_a_line_that_only_moved_down_has_not_changed_and_a_renumbered_one_has() -> None:
    kept = '#1 window\n  #4 text "Sold"\n  #2 text "Tea"\n  #3 button "Buy"'
    counted = '#1 window\n  #2 text "Sold"\n  #3 text "Tea"\n  #4 button "Buy"'
    assert (changed(BEFORE, BEFORE), changed(BEFORE, kept), changed(BEFORE, counted)) == (0, 1, 3)
    found = Changes()
    for after in (kept, counted, BEFORE):
        found.add(BEFORE, after)
    assert (found.pairs, found.equal, found.lines, found.changed, found.renewed) == (3, 1, 11, 4, 2)
