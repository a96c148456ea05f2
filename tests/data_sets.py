"""Published data sets as one table: rows in the columns that each documents, who reads them, and what they give.

The rows are written for the tests; names, tools and texts in them are invented.
"""

import json
from pathlib import Path
from typing import Any, Final, NamedTuple


class DataSet(NamedTuple):
    """A data set.

    Attributes:
        name: on the Hub, or of the tool whose output it is.
        form: what a row holds.
        connector: that reads its rows.
        checked: on a rebuilt file (`case`), on rows of its documented columns alone (`columns`), or on real rows.
        rows: in its columns.
        calls, answers: calls that the rows hold, and answers to them.
        reason: why its rows are refused, if they are.
    """

    name: str
    form: str
    connector: str
    checked: str
    rows: list[dict[str, Any]]
    calls: int = 0
    answers: int = 0
    reason: str = ""


_TABLE: Final = Path(__file__).with_suffix(".jsonl")

DATA_SETS: Final = [DataSet(**json.loads(line)) for line in _TABLE.read_text("utf-8").splitlines()]
