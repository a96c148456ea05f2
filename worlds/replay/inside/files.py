"""What tools of files do to the files of a session, and what a file then holds; not how they word it."""

from __future__ import annotations

import os
from typing import Any

_LARGEST = 1 << 20


class FileTools:
    """Reads and changes files.

    Args:
        folder: that relative paths are in.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._before: dict[str, list[str | None]] = {}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """`lines` of the file afterwards, or `failed` with why in `output`."""
        path = os.path.join(self._folder, request["path"])
        try:
            if request["act"] == "read" and os.path.isdir(path):
                return {"output": "\n".join(sorted(os.listdir(path))), "stopped": "", "code": None, "folder": True}
            text = self._acted(path, request)
        except (OSError, ValueError, UnicodeError) as error:
            return {"output": f"{type(error).__name__}: {error}", "stopped": "", "code": None, "failed": True}
        if len(text) > _LARGEST:
            return {"output": "", "stopped": "output", "code": None}
        return {"output": "", "stopped": "", "code": None, "lines": text.split("\n")}

    def _acted(self, path: str, request: dict[str, Any]) -> str:
        act = request["act"]
        if act == "undo":
            return self._undone(path)
        there = os.path.exists(path)
        before = self._read(path) if there else None
        if act == "write":
            if there and request.get("new"):
                raise ValueError("it is there already")
            return self._written(path, request["text"], before)
        if before is None:
            raise ValueError("there is no such file")
        for change in request.get("changes", ()):
            old, new = change["old"], change["new"]
            times = before.count(old) if old else 0
            if times == 0 or (times > 1 and not change["all"]):
                raise ValueError(f"the text occurs {times} times")
            before = before.replace(old, new)
        if act == "insert":
            lines, at = before.split("\n"), request["line"]
            if not 0 <= at <= len(lines):
                raise ValueError("there is no such line")
            before = "\n".join([*lines[:at], *request["text"].split("\n"), *lines[at:]])
        return before if act == "read" else self._written(path, before, self._read(path))

    def _read(self, path: str) -> str:
        with open(path, encoding="utf-8", errors="replace", newline="") as stream:
            return stream.read(_LARGEST + 1)

    def _written(self, path: str, text: str, before: str | None) -> str:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "w", encoding="utf-8", errors="surrogatepass", newline="") as stream:
            stream.write(text)
        self._before.setdefault(path, []).append(before)
        return text

    def _undone(self, path: str) -> str:
        held = self._before.get(path)
        if not held:
            raise ValueError("nothing was changed")
        before = held.pop()
        if before is None:
            os.remove(path)
            return ""
        with open(path, "w", encoding="utf-8", newline="") as stream:
            stream.write(before)
        return before
