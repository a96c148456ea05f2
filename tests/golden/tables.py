"""The tables of the documentation that repeat what the registries say: each page with its table as it should stand."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tests.conftest import GOLDEN, ROOT
from tests.data_sets import DATA_SETS, DataSet
from trajmill.connectors.connector import Connector
from trajmill.connectors.refused import SIGNATURES
from trajmill.connectors.registry import VERIFIED, connectors
from trajmill.quality.registry import SIGNALS
from trajmill.quality.settings import DATATROVE
from trajmill.quality.signal import Signal
from trajmill.quality.signals.datatrove_filter import DatatroveFilter

DATA_SETS_PAGE: Final = ROOT / "docs" / "datasets.md"
SIGNALS_PAGE: Final = ROOT / "docs" / "signals.md"
FORMATS_PAGE: Final = ROOT / "docs" / "formats.md"

_UNREAD: Final = "0 | | | | | none of the corpora"


def signals_page() -> str:
    """The page of signals, with a row for each in the order of the registry, datatrove's filters last."""
    kinds: list[tuple[str, type[Signal]]] = [(signal.name, signal) for signal in SIGNALS]
    kinds.append((f"{DATATROVE}FILTER", DatatroveFilter))
    rows = (_row(name, signal.scope, signal.measures) for name, signal in kinds)
    return _with_rows(SIGNALS_PAGE.read_text("utf-8"), "signal", rows)


def data_sets_page() -> str:
    """The page of published data sets, with a row for each in the order of their table."""
    rows = (
        f"| {data_set.name} | {data_set.form} | `{data_set.connector}` | {_checked(data_set)} |"
        for data_set in DATA_SETS
    )
    return _with_rows(DATA_SETS_PAGE.read_text("utf-8"), "data set", rows)


def _checked(data_set: DataSet) -> str:
    return f"{data_set.checked}; refused: `{data_set.reason}`" if data_set.reason else data_set.checked


def formats_page() -> str:
    """The page of formats, with a row for each connector and for each known format that is not read.

    Connectors that the page has keep their order, new ones come last.
    """
    page = FORMATS_PAGE.read_text("utf-8")
    golden: Mapping[str, Mapping[str, Any]] = json.loads(GOLDEN.read_text("utf-8"))
    known = connectors()
    listed = [name for name in re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) if name in known]
    names = dict.fromkeys([*listed, *known])
    page = _with_rows(page, "connector", (_format_row(known[name], golden.get(name)) for name in names))
    refused = dict.fromkeys((signature.name, signature.reason, signature.detail) for signature in SIGNATURES)
    return _with_rows(page, "known format", (f"| {' | '.join(cells)} |" for cells in refused))


def _format_row(connector: Connector, counts: Mapping[str, Any] | None) -> str:
    """A connector's row: what it says of itself, and how it fared on the real logs, where there are any."""
    cells = (
        connector.name,
        ", ".join(connector.domains),
        connector.title,
        str(VERIFIED.get(connector.name, "unverified")),
    )
    if counts is None:
        return f"{_row(*cells)} {_UNREAD} |"
    share = f"{counts['accepted']} ({counts['accepted'] / counts['inputs']:.0%})"
    counted = [str(counts["files"]), str(counts["inputs"]), share]
    counted += [f"{counts[unit]:,}" for unit in ("trajectories", "transitions")]
    reasons = sorted(counts["rejects"].items(), key=lambda pair: (-pair[1], pair[0]))
    return _row(*cells, *counted, ", ".join(f"{why} {number:,}" for why, number in reasons) or "none")


def _row(name: str, *cells: str) -> str:
    return f"| {' | '.join([f'`{name}`', *(cell.replace('|', chr(92) + '|') for cell in cells)])} |"


def _with_rows(page: str, head: str, rows: Iterable[str]) -> str:
    """The page with these rows in the table whose first column is called so.

    Raises:
        ValueError: the page has no such table, or several.
    """
    before, *after = re.split(rf"(?m)^(\| {head} \|.*\n\|[-:| ]+\n)(?:\|.*\n)*", page)
    if len(after) != 2:
        raise ValueError(f"wanted one table of the column '{head}', the page has {len(after) // 2}")
    return before + after[0] + "".join(row + "\n" for row in rows) + after[1]
