"""The tools of the usual SQLite server of MCP (`mcp-server-sqlite`), answered in its words from the one database."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from typing import Any

_READS = "SELECT"


class Database:
    """The one database file in a folder.

    Args:
        folder: that holds it, whatever it is called.
    """

    def __init__(self, folder: str) -> None:
        names = sorted(name for name in os.listdir(folder) if not name.endswith(("-wal", "-shm", "-journal")))
        self._path = os.path.join(folder, names[0] if names else "world.db")

    def answer(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The answer's text as `output`, and whether it is an error; `stopped` of a tool that nobody knows."""
        try:
            return {"output": self._answer(tool, arguments), "code": None, "stopped": ""}
        except sqlite3.Error as error:
            return {"output": f"Database error: {error}", "code": None, "stopped": ""}
        except ValueError as error:
            return {"output": f"Error: {error}", "code": None, "stopped": ""}

    def _answer(self, tool: str, arguments: dict[str, Any]) -> str:
        if tool == "list_tables":
            return str(self._run("SELECT name FROM sqlite_master WHERE type='table'"))
        if tool == "describe_table":
            if "table_name" not in arguments:
                raise ValueError("Missing table_name argument")
            return str(self._run(f"PRAGMA table_info({arguments['table_name']})"))
        query = str(arguments.get("query", ""))
        first = query.strip().upper()
        if tool == "read_query":
            if not first.startswith(_READS):
                raise ValueError("Only SELECT queries are allowed for read_query")
            return str(self._run(query))
        if tool == "write_query":
            if first.startswith(_READS):
                raise ValueError("SELECT queries are not allowed for write_query")
            return str(self._run(query))
        if not first.startswith("CREATE TABLE"):
            raise ValueError("Only CREATE TABLE statements are allowed")
        self._run(query)
        return "Table created successfully"

    def _run(self, query: str) -> list[dict[str, Any]]:
        with closing(sqlite3.connect(self._path)) as connection:
            connection.row_factory = sqlite3.Row
            with closing(connection.cursor()) as cursor:
                cursor.execute(query)
                if query.strip().upper().startswith(("INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "ALTER")):
                    connection.commit()
                    return [{"affected_rows": cursor.rowcount}]
                return [dict(row) for row in cursor.fetchall()]
