"""Changes of a database by a run: the rows in which its final state differs from its initial state.

Databases of logs are untrusted input. They are opened read-only and as they are (no journal is replayed, no lock
taken). Nothing that their schema defines is trusted or called, and virtual tables and views are skipped. Tables are
read in the order of their key, both sides at once, within bounds on rows, bytes and steps of SQLite's machine.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from trajmill.pipelines.plan.plan import Plan
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.ownership import PLAN
from trajmill.pipelines.storage.paths import Place
from trajmill.schemas import ConfigError

ROWS: Final = 2_000
"""Most differing rows that are reported; each table is read to its end or to the bound of steps."""

BYTES: Final = 1 << 20
"""Most bytes of text that are reported."""

_STEPS: Final = 50_000_000
_LOOKED: Final = 100_000
_CELL: Final = 4_000
_TABLES: Final = 500
_LARGEST: Final = 1 << 30
Values = dict[str, Any]


@dataclass(slots=True)
class Difference:
    """Added, removed and changed rows of tables.

    Attributes:
        added: Pairs (table, row).
        removed: Pairs (table, row).
        changed: Triples (table, row before, row after).
        is_whole: True if the difference is complete; False if a bound was met.
    """

    added: list[tuple[str, Values]] = field(default_factory=list)
    removed: list[tuple[str, Values]] = field(default_factory=list)
    changed: list[tuple[str, Values, Values]] = field(default_factory=list)
    is_whole: bool = True

    def written(self) -> list[str]:
        """Return the texts and numbers in the final database that were not in the same row before."""
        texts: dict[str, None] = {}
        for _, row in self.added:
            texts.update(dict.fromkeys(map(_text, row.values())))
        for _, before, after in self.changed:
            texts.update(dict.fromkeys(_text(value) for name, value in after.items() if before.get(name) != value))
        return [text for text in texts if text]

    def to_text(self) -> str:
        """Return the difference as lines: `+ table {row}`, `- table {row}`, `~ table {before} → {after}`."""
        lines = [f"+ {table} {_json(row)}" for table, row in self.added]
        lines += [f"- {table} {_json(row)}" for table, row in self.removed]
        lines += [f"~ {table} {_json(before)} → {_json(after)}" for table, before, after in self.changed]
        return "\n".join(lines if self.is_whole else [*lines, "…"])


def database_difference(initial: Path, final: Path, rows: int = ROWS, size: int = BYTES) -> Difference:
    """Find the rows in which two SQLite databases differ.

    Args:
        initial: Database at the beginning.
        final: Database at the end.
        rows: Most rows that are reported.
        size: Most bytes of text that are reported.

    Raises:
        ConfigError: One of them is not a readable database.
    """
    changes, left = Difference(), [rows, size]
    try:
        with closing(_open_database(initial)) as before, closing(_open_database(final)) as after:
            tables = sorted({*_tables(before), *_tables(after)})
            changes.is_whole = len(tables) <= _TABLES
            for table in tables[:_TABLES]:
                if not _compare(table, before, after, changes, left):
                    changes.is_whole = False
                    break
    except sqlite3.OperationalError as error:
        if "interrupted" not in str(error):
            raise ConfigError(f"{initial} or {final} cannot be read: {error}.") from error
        changes.is_whole = False
    except (sqlite3.Error, UnicodeError, OSError) as error:
        raise ConfigError(f"{initial} or {final} is no SQLite database that can be read: {error}.") from error
    return changes


class RunFolders:
    """Databases of runs, located by the run's plan."""

    def __init__(self, out: Folder) -> None:
        self._out = out
        self._members: dict[str, dict[str, Place]] | None = None

    def difference(self, uri: str) -> Difference | None:
        """Return the difference of the databases of a run; None if it lacks one, or they are not on this machine."""
        if self._members is None:
            plan = Plan.from_json(self._out.read(PLAN))
            self._members = {log.uri: dict(log.members) for log in plan.inputs}
        places = [self._members.get(uri, {}).get(name) for name in ("initial.db", "final.db")]
        paths = [
            Path(location.path)
            for location in places
            if location is not None and location.is_local and not location.within
        ]
        if len(paths) < len(places) or not all(path.is_file() for path in paths):
            return None
        try:
            return database_difference(paths[0], paths[1])
        except ConfigError:
            return None


def _open_database(path: Path) -> sqlite3.Connection:
    if path.stat().st_size > _LARGEST:
        raise ConfigError(f"{path} is larger than {_LARGEST:,} bytes.")
    database = sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1", uri=True)
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1 << 24)
    database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    database.text_factory = lambda data: data.decode("utf-8", "replace")
    for pragma in ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON", "mmap_size = 0"):
        database.execute(f"PRAGMA {pragma}")
    if database.execute("PRAGMA encoding").fetchone()[0] != "UTF-8":
        database.close()
        raise ConfigError(f"{path} holds texts in another form than UTF-8, which is not read.")
    steps = iter(range(_STEPS // _LOOKED))
    database.set_progress_handler(lambda: int(next(steps, None) is None), _LOOKED)
    return database


def _tables(database: sqlite3.Connection) -> list[str]:
    """Return the names of the tables that store rows themselves."""
    entries = database.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table' ORDER BY name LIMIT 5000")
    plain = (name for name, sql in entries if sql and not sql.lstrip().upper().startswith("CREATE VIRTUAL"))
    return [name for name in plain if not name.startswith("sqlite_")]


def _columns(database: sqlite3.Connection, table: str) -> tuple[list[str], list[str]]:
    """Return the stored columns of a table, and those of its key."""
    infos = database.execute(f"PRAGMA table_xinfo({_quote(table)})").fetchall()
    stored = [(column[1], column[5]) for column in infos if column[6] == 0]
    key = [name for name, rank in sorted(stored, key=lambda column: column[1]) if rank]
    return [name for name, _ in stored], key


def _compare(
    table: str, before: sqlite3.Connection, after: sqlite3.Connection, changes: Difference, left: list[int]
) -> bool:
    """Add the differences of a table; return True if they are complete."""
    sides = [(_columns(database, table) if table in _tables(database) else ([], [])) for database in (before, after)]
    (old_names, old_key), (new_names, new_key) = sides
    key = new_key if new_key == old_key or not old_names else []
    old = _rows(before, table, old_names, key if old_names else [])
    new = _rows(after, table, new_names, key)
    old_row, new_row = next(old, None), next(new, None)
    while old_row is not None or new_row is not None:
        if new_row is None or (old_row is not None and old_row[0] < new_row[0]):
            assert old_row is not None
            row_change: tuple[Any, ...] = (table, old_row[1])
            changes.removed.append((table, old_row[1]))
            old_row = next(old, None)
        elif old_row is None or new_row[0] < old_row[0]:
            row_change = (table, new_row[1])
            changes.added.append((table, new_row[1]))
            new_row = next(new, None)
        else:
            row_change = (table, old_row[1], new_row[1]) if old_row[1] != new_row[1] else ()
            if row_change:
                changes.changed.append((table, old_row[1], new_row[1]))
            old_row, new_row = next(old, None), next(new, None)
        if row_change:
            left[0] -= 1
            left[1] -= len(_json(row_change))
        if min(left) < 0:
            return False
    return True


def _rows(
    database: sqlite3.Connection, table: str, names: list[str], key: list[str]
) -> Iterator[tuple[tuple[Any, ...], Values]]:
    """Yield (key, row) of a table, ascending in SQLite's order of values; without a key, by row number."""
    if not names:
        return
    columns = ", ".join(_quote(name) for name in names)
    by = ", ".join(f"{_quote(name)} COLLATE BINARY" for name in key) if key else "rowid"
    key_told = ", ".join(_quote(name) for name in key) if key else "rowid"
    count = len(key) or 1
    try:
        cursor = database.execute(f"SELECT {key_told}, {columns} FROM {_quote(table)} ORDER BY {by}")  # noqa: S608 - quoted
    except sqlite3.OperationalError as error:
        if "no such column" not in str(error):
            raise
        return  # a table without numbers of rows has a key, and this one says otherwise on the other side
    for row in cursor:
        yield tuple(map(_order, row[:count])), dict(zip(names, map(_cell, row[count:]), strict=True))


def _order(value: Any) -> tuple[int, Any]:
    """Return a sort key of a value in SQLite's order: null, numbers, text, bytes."""
    if value is None:
        return 0, 0
    if isinstance(value, int | float):
        return 1, value
    return (2, value.encode("utf-8", "surrogatepass")) if isinstance(value, str) else (3, bytes(value))


def _cell(value: Any) -> Any:
    if isinstance(value, bytes):
        return f"x'{value[:64].hex()}'" + ("…" if len(value) > 64 else "")
    return value if not isinstance(value, str) or len(value) <= _CELL else f"{value[:_CELL]}…"


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _json(value: Mapping[str, Any] | tuple[Any, ...]) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
