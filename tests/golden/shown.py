"""The page of the documentation that shows what a model sees of each format: a turn of a fixture of each."""

import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, Final

from tests.conftest import ROOT
from tests.rows import blob_at, parsed
from trajmill.connectors.connector import Connector
from trajmill.connectors.registry import connectors
from trajmill.pipelines.render.turns import Turn
from trajmill.pipelines.render.turns import turns as rendered
from trajmill.schemas import ParseError, Reject

SHOWN_PAGE: Final = ROOT / "docs" / "shown.md"

_LINES: Final = 14
_WIDTH: Final = 140
_SAYS_MUCH: Final = 24
"""Characters of an answer that shows what answers of a format are like."""

_HEAD: Final = """# What a model sees of each format

One turn of a log of each format, as a sample for training shows it: above the line the user's message, which is the
state where it is not what the turn before ended with, and the action; below it what the model is to predict. The logs
are those that the tests read (`tests/fixtures`); long texts are cut here and nowhere else. What stands before the first
turn, and what bears the loss: [mixtures](mixtures.md). Written by `python -m tests.golden.make tables`.
"""


def shown_page() -> str:
    """The page, with a section for each connector in the order of its name."""
    return _HEAD + "".join(_section(connector) for _, connector in sorted(connectors().items()))


def _section(connector: Connector) -> str:
    turns = sorted(
        _turns(connector), key=lambda turn: (len(turn.observation) < _SAYS_MUCH, "Current State" not in turn.user)
    )
    heading = f"\n## {connector.name}\n\n{connector.title[:1].upper()}{connector.title[1:]}.\n\n"
    if not turns:
        return f"{heading}{_untold(connector)}\n"
    text = f"{_cut(turns[0].user)}\n{'-' * 20}\n{_cut(turns[0].assistant)}"
    fence = "`" * (max(map(len, re.findall("`{3,}", text)), default=2) + 1)
    return f"{heading}{fence}text\n{text}\n{fence}\n"


def _turns(connector: Connector) -> Iterator[Turn]:
    """The turns of the fixtures of a connector that the loss would stand on."""
    for path in sorted((ROOT / "tests" / "fixtures" / connector.name / "input").iterdir()):
        rows, _ = parsed(connector, blob_at(path))
        for _, group in groupby(rows, key=lambda row: row["trajectory_id"]):
            judged = [{**row, "scrubbed": False, "use": _use(row)} for row in group]
            yield from (turn for turn in rendered(judged) if turn.loss)


def _use(row: Mapping[str, Any]) -> str:
    after = row["next_observation"]
    return "omit" if after is None or after["content"] is None else "target"


def _untold(connector: Connector) -> str:
    """Why a format shows nothing: its logs are refused, or hold no answer of a world."""
    records: list[object] = []
    for path in sorted((ROOT / "tests" / "fixtures" / connector.name / "input").iterdir()):
        try:
            records += connector.parse(blob_at(path))
        except ParseError as error:
            return f"Nothing: a log of it is refused, as `{error.reason}`."
    refused = next((record.reason for record in records if isinstance(record, Reject)), None)
    if refused is not None:
        return f"Nothing: a log of it is refused, as `{refused}`."
    return "Nothing by itself: its actions have no answer that is a text; they are kept as context."


def _cut(text: str) -> str:
    """The text, cut where it is long; characters that are no print are shown as escapes."""
    lines = text.split("\n")
    short = [line if len(line) <= _WIDTH else f"{line[:_WIDTH]} […]" for line in lines]
    if len(short) > _LINES:
        keep = _LINES // 2
        short = [*short[:keep], f"[… {len(short) - 2 * keep} lines …]", *short[-keep:]]
    return "".join(char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in "\n".join(short))
