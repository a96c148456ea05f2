"""The known steps of a session of the Model Context Protocol: what is called, and what the server answers."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from dataclasses import dataclass
from typing import Any, Final

PICTURE: Final = b"\x89PNG planted picture"
NOTE_URI: Final = "planted://note"
NOTE: Final = "Remember the fifth shelf."
QUESTION: Final = "Which colour?"
REPLY: Final = "blue"
INSTRUCTIONS: Final = "Ask for shelves by number."
SERVER: Final = ("planted-shelf", "4.2.0")
CLIENT: Final = ("planted-client", "0.7")


@dataclass(frozen=True, slots=True)
class McpCall:
    """A call and its answer.

    Attributes:
        name: of the tool, or the method where it is none.
        arguments: as sent.
        shown: the text of the answer; None if it holds none.
        is_error: whether the answer says that the call failed.
        together: whether it is sent while the call before is unanswered.
        late: whether the call after it is answered first.
        pictures: digests of what is attached.
        heard: what the server asked and was told during the call before, as (role, a word of it).
    """

    name: str
    arguments: dict[str, Any]
    shown: str | None
    is_error: bool = False
    together: bool = False
    late: bool = False
    pictures: tuple[str, ...] = ()
    heard: tuple[tuple[str, str], ...] = ()

    @property
    def is_tool(self) -> bool:
        return "/" not in self.name


CALLS: Final = (
    McpCall("add", {"a": 2, "b": 3}, "5"),
    McpCall("measure", {"shelf": 5}, '{"shelf": 5, "metres": 1.25}'),
    McpCall("weigh", {"shelf": 5}, '{"kilograms": 40}'),
    McpCall("open_shelf", {"shelf": 9}, "no such shelf: 9", is_error=True),
    McpCall("count", {"to": 3}, "counted to 3"),
    McpCall("fly", {"to": "the moon"}, '{"code": -32602, "message": "Unknown tool: fly"}', is_error=True),
    McpCall("dawdle", {}, "slow and done", late=True),
    McpCall("hurry", {}, "quick and done", together=True),
    McpCall("greet", {"name": "Müller"}, "Grüße, Müller\n世界\n\n— the shelf"),
    McpCall("tidy", {}, ""),
    McpCall("photograph", {"shelf": 5}, None, pictures=(hashlib.sha256(PICTURE).hexdigest(),)),
    McpCall("resources/read", {"uri": NOTE_URI}, NOTE),
    McpCall("ask", {}, f"you said {REPLY}"),
    McpCall("add", {"a": 2, "b": 3}, "5", heard=(("environment", QUESTION), ("agent", REPLY))),
)
"""`measure` answers text and structured content, `weigh` structured content alone, `count` reports progress, `fly` is
not among the tools, and `ask` asks the client's model before it answers. The last call repeats the first."""

PICTURE_BASE64: Final = b64encode(PICTURE).decode()


def turns(parallel: bool) -> list[tuple[int, int, int]]:
    """(turn, call_index, num_calls) of each call; without `parallel` the form does not hold what was sent together."""
    groups: list[int] = []
    for call in CALLS:
        if call.together and parallel:
            groups[-1] += 1
        else:
            groups.append(1)
    return [(turn, index, size) for turn, size in enumerate(groups) for index in range(size)]
