"""`python -m benchmarks.services FOLDER`: sessions of a scripted client with real services, as their wire is logged.

    python -m benchmarks.services out/services --services 120

A service is a SQLite database and files about modules of Python's library that no other has. A client that draws its
calls by chance asks it in one session of the Model Context Protocol; SQLite and the files really answer. What a service
says is true; what is asked for, and what goes wrong around it, is drawn: of ten sessions one is logged once more as it
is, two are gone on with and logged anew, some lose their server; calls are cancelled and made again, searches find
nothing, queries are wrong, and a third of the services hold a file with the markers of a chat.
Ids, times and choices come from the seed alone.

Wire logs do not say which sessions are of one service, so none is asked in two: groups that are held out would show
what others of the same service were taught.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final

from samples.writing.files import write_file
from samples.writing.json_text import lines

BEGIN: Final = datetime(2026, 3, 2, 9, tzinfo=UTC)
MOST_ROWS: Final = 12
"""Of the answer to a query."""

LEAST: Final = 3_000
"""Characters of a module."""

LOSES: Final = 0.16
"""The share of sessions that lose their server."""

ODD: Final = 0.35
"""The share of services with a file that shows a chat, with its markers."""

_TOOLS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "list_tables": ("The tables of the database, with how many rows each has.", ()),
    "describe_table": ("The columns of a table.", ("table",)),
    "query": ("What a SELECT finds, twelve rows at most.", ("sql",)),
    "list_files": ("The files, with their sizes.", ()),
    "read_file": ("Lines of a file.", ("path", "first", "last")),
    "search": ("Lines of all files that hold a word.", ("word",)),
    "note": ("Adds a line to the notes.", ("text",)),
    "read_notes": ("The notes.", ()),
}
_QUERIES: Final = (
    "SELECT name, line FROM functions WHERE module = '{module}' ORDER BY line LIMIT {n}",
    "SELECT module, COUNT(*) AS functions FROM functions GROUP BY module ORDER BY module",
    "SELECT name, arguments FROM functions WHERE name LIKE '{letter}%' ORDER BY name",
    "SELECT MAX(line) FROM functions WHERE module = '{module}'",
    "SELECT name, doc FROM functions WHERE doc <> '' AND module = '{module}' ORDER BY name LIMIT {n}",
    "SELECT DISTINCT imported FROM imports ORDER BY imported",
    "SELECT module, name, bases FROM classes ORDER BY name LIMIT {n}",
    "SELECT imported, COUNT(*) FROM imports GROUP BY imported HAVING COUNT(*) > 1",
    "SELECT * FROM classes WHERE module = '{module}' ORDER BY line",
    "SELECT module, lines, bytes FROM modules ORDER BY bytes DESC",
    "SELECT name FROM functions WHERE module = 'none' AND line < {n}",
    "SELECT name, LENGTH(doc) AS size FROM functions ORDER BY size DESC, name LIMIT {n}",
)
_WRONG: Final = (
    "SELECT names FROM functions LIMIT {n}",
    "SELECT name FROM function WHERE module = '{module}'",
    "SELECT name FROM functions WERE line > {n}",
    "SELECT name, COUNT(* FROM functions",
    "DROP TABLE functions",
    "SELECT line FROM functions, classes WHERE module = '{module}'",
)
_WORDS: Final = ("import", "error", "self", "path", "return", "yield", "global", "lambda", "zebra", "quagga")
LOST: Final = "Connection closed before response"
"""What a gateway says of a server that it lost."""


class RefusedError(Exception):
    """A service refuses; the message is what the client is told."""


@dataclass(slots=True)
class Service:
    """A database and files, asked by messages.

    Attributes:
        name: of the server.
        files: by their names.
        database: that is only read by clients.
        notes: what clients added.
    """

    name: str
    files: Mapping[str, str]
    database: sqlite3.Connection
    notes: list[str] = field(default_factory=list)

    def answered(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """The response to a request."""
        method, asked = message["method"], message.get("params", {})
        result: dict[str, Any]
        if method == "initialize":
            server = {"name": self.name, "version": "1.2"}
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": server}
        elif method == "tools/list":
            result = {"tools": [_declare(name, *declaration) for name, declaration in _TOOLS.items()]}
        else:
            try:
                text, failed = self._tools()[asked["name"]](**asked["arguments"]), False
            except KeyError:
                error = {"code": -32602, "message": f"Unknown tool: {asked['name']}"}
                return {"jsonrpc": "2.0", "id": message["id"], "error": error}
            except (RefusedError, sqlite3.Error) as error:
                text, failed = f"Error: {error}", True
            result = {"content": [{"type": "text", "text": text}] if text else [], "isError": failed}
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}

    def _tools(self) -> dict[str, Callable[..., str]]:
        return {
            "list_tables": self._tables,
            "describe_table": self._columns,
            "query": self._found,
            "list_files": lambda: "\n".join(f"{len(text.encode()):>7} {name}" for name, text in self.files.items()),
            "read_file": self._lines,
            "search": self._searched,
            "note": self._noted,
            "read_notes": lambda: "\n".join(self.notes),
        }

    def _tables(self) -> str:
        names = [name for (name,) in self.database.execute("SELECT name FROM sqlite_master ORDER BY name")]
        counts = [self.database.execute(f"SELECT COUNT(*) FROM {name}").fetchone()[0] for name in names]
        return "\n".join(f"{name} ({count} rows)" for name, count in zip(names, counts, strict=True))

    def _columns(self, table: str) -> str:
        rows = self.database.execute("SELECT name, type FROM pragma_table_info(?)", (table,)).fetchall()
        if not rows:
            raise RefusedError(f"no table {table}")
        return "\n".join(f"{name} {kind}" for name, kind in rows)

    def _found(self, sql: str) -> str:
        with closing(self.database.execute(sql)) as cursor:
            rows = cursor.fetchmany(MOST_ROWS)
            heads = [column[0] for column in cursor.description or ()]
        return "\n".join(json.dumps(dict(zip(heads, row, strict=True)), ensure_ascii=False) for row in rows)

    def _lines(self, path: str, first: int, last: int) -> str:
        if path not in self.files:
            raise RefusedError(f"no such file: {path}")
        whole = self.files[path].splitlines()
        if first > len(whole):
            raise RefusedError(f"{path} has {len(whole)} lines")
        return "\n".join(f"{first + at}: {line}" for at, line in enumerate(whole[first - 1 : last]))

    def _searched(self, word: str) -> str:
        hits = [
            f"{name}:{number}: {line.strip()}"
            for name, text in self.files.items()
            for number, line in enumerate(text.splitlines(), 1)
            if re.search(rf"\b{word}\b", line)
        ]
        return "\n".join([*hits[:MOST_ROWS], *([f"({len(hits)} lines in all)"] if len(hits) > MOST_ROWS else [])])

    def _noted(self, text: str) -> str:
        self.notes.append(text)
        return f"{len(self.notes)} notes"


def _declare(name: str, description: str, arguments: tuple[str, ...]) -> dict[str, Any]:
    kinds = {argument: {"type": "integer" if argument in ("first", "last") else "string"} for argument in arguments}
    schema = {"type": "object", "properties": kinds, "required": list(arguments)}
    return {"name": name, "description": description, "inputSchema": schema}


def database(files: Mapping[str, str]) -> sqlite3.Connection:
    """Load what modules hold into tables that can only be read."""
    connection = sqlite3.connect(":memory:")
    connection.executescript(
        "CREATE TABLE modules (module TEXT, lines INTEGER, bytes INTEGER);"
        "CREATE TABLE functions (module TEXT, name TEXT, line INTEGER, arguments TEXT, doc TEXT);"
        "CREATE TABLE classes (module TEXT, name TEXT, line INTEGER, bases TEXT);"
        "CREATE TABLE imports (module TEXT, imported TEXT);"
    )
    for name, text in files.items():
        module = name.removesuffix(".py")
        connection.execute("INSERT INTO modules VALUES (?, ?, ?)", (module, text.count("\n"), len(text.encode())))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                doc = (ast.get_docstring(node) or "").partition("\n")[0]
                row = (module, node.name, node.lineno, ast.unparse(node.args), doc)
                connection.execute("INSERT INTO functions VALUES (?, ?, ?, ?, ?)", row)
            elif isinstance(node, ast.ClassDef):
                bases = ", ".join(ast.unparse(base) for base in node.bases)
                connection.execute("INSERT INTO classes VALUES (?, ?, ?, ?)", (module, node.name, node.lineno, bases))
            elif isinstance(node, ast.Import):
                connection.executemany(
                    "INSERT INTO imports VALUES (?, ?)", [(module, alias.name) for alias in node.names]
                )
    connection.execute("PRAGMA query_only = ON")
    return connection


class Wire:
    """The log of a session: each message as it passes, with its direction and time."""

    def __init__(self, service: Service, session: str, begin: datetime, rng: random.Random) -> None:
        self.lines: list[dict[str, Any]] = []
        self._service, self._session, self._now, self._rng, self._next = service, session, begin, rng, 0
        client = {"name": "scripted-client", "version": "1.0"}
        self.asked("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
        self._passed("client", {"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.asked("tools/list", {})

    def asked(self, method: str, params: Mapping[str, Any], *, lost: bool = False) -> None:
        """A request and its answer; of a server that is `lost` a gateway answers."""
        request = self._request(method, params)
        if lost:
            error = {"code": -32000, "message": LOST}
            self._passed("server", {"jsonrpc": "2.0", "id": request["id"], "error": error})
        else:
            self._passed("server", self._service.answered(request))

    def cancelled(self, params: Mapping[str, Any]) -> None:
        """A call that the client gave up, so that nothing answers it."""
        request = self._request("tools/call", params)
        notice = {"requestId": request["id"], "reason": "took too long"}
        self._passed("client", {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": notice})

    def _request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        request = {"jsonrpc": "2.0", "id": self._next, "method": method, "params": dict(params)}
        self._next += 1
        self._passed("client", request)
        return request

    def _passed(self, way: str, message: Mapping[str, Any]) -> None:
        self._now += timedelta(milliseconds=self._rng.randrange(3, 900))
        at = self._now.isoformat(timespec="milliseconds")
        self.lines.append({"timestamp": at, "session_id": self._session, "direction": way, "message": message})


def draw_call(rng: random.Random, names: list[str]) -> dict[str, Any]:
    """A call that the client makes next."""
    low, module = rng.randrange(1, 180), rng.choice(names)
    values: dict[str, Any] = {"module": module.removesuffix(".py"), "n": rng.randrange(2, MOST_ROWS)}
    values["letter"] = rng.choice("abcdgilprsw_")
    kind = rng.random()
    if kind < 0.45:
        sql = rng.choice(_WRONG if rng.random() < 0.2 else _QUERIES).format(**values)
        return {"name": "query", "arguments": {"sql": sql}}
    if kind < 0.68:
        path = rng.choice((module, module, module, "chat.txt", f"{values['letter']}.md"))
        low = 1 if path == "chat.txt" else low
        return {"name": "read_file", "arguments": {"path": path, "first": low, "last": low + rng.randrange(4, 25)}}
    if kind < 0.8:
        return {"name": "search", "arguments": {"word": rng.choice(_WORDS)}}
    if kind < 0.86:
        table = rng.choice(("functions", "classes", "imports", "modules", "methods"))
        return {"name": "describe_table", "arguments": {"table": table}}
    if kind < 0.92:
        return {"name": "note", "arguments": {"text": f"{module} was looked at, line {low}"}}
    return {"name": rng.choice(("list_tables", "list_files", "read_notes", "list_views")), "arguments": {}}


def play(wire: Wire, rng: random.Random, names: list[str], steps: int) -> None:
    """Play the requests of a client, and what comes between."""
    for _ in range(steps):
        call = draw_call(rng, names)
        if rng.random() < 0.05:
            wire.cancelled(call)
        wire.asked("tools/call", call)


def files_of(own: Mapping[str, str], rng: random.Random) -> dict[str, str]:
    """The files of a service: modules, and in some of them one that shows a chat."""
    if rng.random() > ODD:
        return dict(own)
    first = next(iter(own.values()))
    words = rng.sample(sorted(set(re.findall(r"[a-z]{4,}", first))), 8)
    turns = zip(("user", "assistant") * 4, words, strict=True)
    chat = "\n".join(f"<|im_start|>{who}\nWhat does {word} do?<|im_end|>" for who, word in turns)
    return {**own, "chat.txt": chat + "\n"}


@cache
def library(seed: int) -> list[tuple[str, str]]:
    """Modules of Python's library and its packages that are not short, by name, in the order of a draw."""
    root = Path(os.__file__).parent
    apart = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "__phello__"}
    paths = [path for path in sorted(root.rglob("*.py")) if not apart & set(path.relative_to(root).parts)]
    sources = [(str(path.relative_to(root)), path.read_text("utf-8", "replace")) for path in paths]
    chosen = [(name, text) for name, text in sources if len(text) > LEAST]
    random.Random(seed).shuffle(chosen)
    return chosen


def sessions(services: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """The names and bytes of the logs."""
    sources = library(seed)
    each = len(sources) // services
    for number in range(services):
        key = f"services:{seed}:{number}"
        own = dict(sources[number * each : (number + 1) * each])
        rng = random.Random(key)
        files, more = files_of(own, rng), rng.choice((0,) * 7 + (1, 1, 2))
        for copy in range(2 if more else 1):
            draws = random.Random(key)
            with closing(database(own)) as tables:
                begin = BEGIN + timedelta(hours=number)
                wire = Wire(Service(f"modules-{number}", files, tables), f"{number}", begin, draws)
                wire.asked("tools/call", {"name": "list_files", "arguments": {}})
                play(wire, draws, sorted(own), draws.randrange(6, 22))
                if draws.random() < LOSES:
                    for _ in range(2):
                        wire.asked("tools/call", draw_call(draws, sorted(own)), lost=True)
                if copy and more == 1:
                    play(wire, draws, sorted(own), 3)
            yield f"service{number}-{copy}.jsonl", lines(wire.lines, escaped=False)


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--services", type=int, default=120)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for name, data in sessions(options.services, options.seed):
        write_file(options.folder / name, data)


if __name__ == "__main__":
    main()
