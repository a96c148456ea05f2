"""Long tables of cases, which stand in files beside their tests: a JSON array whose elements are the rows."""

import json
from pathlib import Path
from typing import Any


def table(test: str, name: str) -> list[Any]:
    """The rows of a table beside a test's file."""
    rows: list[Any] = json.loads(Path(test).with_name(f"{name}.json").read_text("utf-8"))
    return rows
