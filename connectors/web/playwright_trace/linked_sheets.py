"""Style sheets that pages of a trace link: bodies from the network log, or versions changed by scripts.

Source of the format: `packages/trace/src/snapshot.ts` (`ResourceSnapshot`, `ResourceOverride`) of microsoft/playwright.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any, Final
from urllib.parse import urldefrag

from trajmill.connectors.reading.fields import object_of, objects_of, str_of
from trajmill.connectors.reading.lines import line_values
from trajmill.connectors.screens.stylesheets import Sheet
from trajmill.schemas import ParseError

_RESOURCES: Final = "resources/"


class LinkedSheets:
    """Style sheets by address.

    Args:
        read: returns the bytes of a file of the trace by its name; None if the file is missing.
        network: name of the trace's network log.
    """

    def __init__(self, read: Callable[[str], bytes | None], network: str) -> None:
        self._read = read
        self._network = network
        self._files: dict[str, str] | None = None
        self._sheets: dict[str, Sheet | None] = {}
        self._changed: dict[tuple[str, int], dict[str, str | int]] = {}

    def add(self, frame: str, number: int, snapshot: Mapping[str, Any]) -> None:
        """Record the sheets that scripts have changed in a frame's snapshot of that number."""
        for override in objects_of(snapshot.get("resourceOverrides")):
            reference = override.get("ref") or override.get("sha1") or override.get("file")
            if isinstance(reference, str | int) and isinstance(override.get("url"), str):
                self._changed.setdefault((frame, number), {})[override["url"]] = reference

    def sheet(self, frame: str, number: int, address: str) -> Sheet | None:
        """Return the sheet of that address in a frame's snapshot; None if the trace does not hold it."""
        reference = self._changed.get((frame, number), {}).get(address)
        if isinstance(reference, int):
            reference = self._changed.get((frame, number - reference), {}).get(address)
        return self._sheet(reference if isinstance(reference, str) else self._read_network_log().get(address, ""))

    def _sheet(self, file: str) -> Sheet | None:
        if file not in self._sheets:
            data = self._file(file if file.startswith(_RESOURCES) else _RESOURCES + file) if file else None
            self._sheets[file] = Sheet(data.decode("utf-8-sig", "replace")) if data is not None else None
        return self._sheets[file]

    def _file(self, name: str) -> bytes | None:
        try:
            return self._read(name)
        except ParseError:
            return None

    def _read_network_log(self) -> dict[str, str]:
        """Return the files of the sheets in the network log by their addresses."""
        if self._files is None:
            self._files = {}
            for _, value in line_values(BytesIO(self._file(self._network) or b""), ""):
                snapshot = object_of(value.get("snapshot")) if isinstance(value, dict) else {}
                content = object_of(object_of(snapshot.get("response")).get("content"))
                file = str_of(content.get("_sha1")) or str_of(content.get("_file"))
                if file and "css" in str_of(content.get("mimeType")):
                    address = str_of(object_of(snapshot.get("request")).get("url"))
                    self._files.setdefault(urldefrag(address).url, file)
        return self._files
