"""Server-sent events, the bodies of streamed HTTP answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_EVENT_END: Final = re.compile(r"\r\n\r\n|\n\n|\r\r")
_LINE_END: Final = re.compile(r"\r\n|\n|\r")


def sse_data(text: str) -> Iterator[str]:
    """Yield the data of each server-sent event in order, without comments and events without data.

    Lines end in LF, CRLF or CR; several data lines of one event are joined by LF (WHATWG HTML, 9.2.6).
    """
    for event in _EVENT_END.split(text):
        data = [line[5:].removeprefix(" ") for line in _LINE_END.split(event) if line.startswith("data:")]
        if data:
            yield "\n".join(data)
