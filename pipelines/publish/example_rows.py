"""A row of each configuration, as a card can show it: short, and of a form that no content gets out of.

Rows are logs of others. In a fenced block of JSON each line begins with a bracket, a blank or a quotation mark, however
its texts are, so that none ends the fence; and what cannot be seen in them is told as an escape.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final

from trajmill.pipelines.publish.dataset import Config
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_batches

_CHARACTERS: Final = 160
_ITEMS: Final = 2
_WORD: Final = 80
_NAME: Final = re.compile(r"[A-Za-z0-9_.:+-]{1,80}")
_MARKUP: Final = re.compile(r"([\\`*_{}\[\]<>()#|~!&])")


def example_rows(shards: Folder, configs: Iterable[Config]) -> dict[str, str]:
    """Of each configuration its first row, as JSON of several lines with long values cut.

    Raises:
        ShardError: a file is missing or damaged.
    """
    found = {}
    for config in configs:
        row = _first(shards, config)
        if row is not None:
            found[config.name] = visible(json.dumps(shortened(row), indent=1, ensure_ascii=False))
    return found


def _first(shards: Folder, config: Config) -> dict[str, Any] | None:
    for file in config.files:
        for batch in read_batches(shards, file.name) if file.rows else ():
            rows: list[dict[str, Any]] = batch.slice(0, 1).to_pylist()
            return rows[0]
    return None


def shortened(value: Any) -> Any:
    """The value with long texts and lists cut, and how much that was told in their place."""
    if isinstance(value, str):
        rest = len(value) - _CHARACTERS
        return value if rest <= 0 else f"{value[:_CHARACTERS]}… ({rest:,} more characters)"
    if isinstance(value, dict):
        return {name: shortened(one) for name, one in value.items()}
    if isinstance(value, list):
        rest = len(value) - _ITEMS
        return [*map(shortened, value[:_ITEMS]), *([f"… ({rest:,} more)"] if rest > 0 else [])]
    return value


def visible(text: str) -> str:
    """The text of JSON with each character that cannot be seen, or turns the direction of reading, as an escape."""
    return "".join(one if one == "\n" or one.isprintable() else json.dumps(one)[1:-1] for one in text)


def inline(text: str) -> str:
    """A text of others as it can stand in a line of Markdown or in a table, where it means nothing but itself."""
    line = visible(" ".join(text.split()))
    return _MARKUP.sub(r"\\\1", line if len(line) <= _WORD else f"{line[:_WORD]}…")


def named(name: str) -> str:
    """A name in a line of Markdown: as code where it is one word of the common signs, else as `inline` has it."""
    return f"`{name}`" if _NAME.fullmatch(name) else inline(name)
