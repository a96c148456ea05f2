"""The balance of passages: what went in is kept, dropped or merged, or the run ends."""

import pytest

from trajmill.pipelines.run_record.conservation import passage_lines
from trajmill.schemas import ContractError

COUNTS = {
    "law.rows": 9, "law.windows": 2, "law.kept": 6, "law.dropped.too_short": 2, "law.dropped.duplicate": 3,
    "law.tokens": 100, "laws.rows": 1, "laws.kept": 1,
}  # fmt: skip


def test_each_component_has_a_line_whose_sum_holds():
    law, laws = passage_lines(["law", "laws"], COUNTS)
    assert (law.entered, law.kept, law.lost, law.merged) == (11, 6, {"too_short": 2}, {"duplicate": 3})
    assert (laws.entered, laws.kept, laws.dropped) == (1, 1, "none")


def test_a_passage_that_is_not_accounted_for_is_a_bug():
    with pytest.raises(ContractError, match="law"):
        passage_lines(["law"], {**COUNTS, "law.kept": 5})
