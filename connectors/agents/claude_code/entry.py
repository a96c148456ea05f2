"""Records of the lines of a Claude Code log: an entry a line, with the texts, calls and results it holds.

They are tuples, since `kept` lays them off as plain values. How lines become entries is in `lines`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from trajmill.schemas import Attachment

AGENT_TOOLS: Final = frozenset({"Task", "Agent"})
"""Tools that start a sub-agent; their `prompt` is the sub-agent's first user text."""


class Setting(NamedTuple):
    """Setting of lines: session, agent, folder and version; `agent` is None in the main conversation, else a
    sub-agent's id, empty if not stated.
    """

    session: str
    agent: str | None
    cwd: str | None
    version: str | None


class Said(NamedTuple):
    """A text that stood in a user's message: by the `user`, or put there by the `harness`; `at` in µs since 1970.

    A `compaction` is the client's summary of all that stood before.

    The text is empty where the user sent only images.
    """

    role: str
    text: str
    at: int | None
    cwd: str | None
    attachments: tuple[Attachment, ...] = ()


class Call(NamedTuple):
    """A tool call. `arguments` is JSON text; `prompt` is set for `AGENT_TOOLS`; `offset` is where its line begins."""

    name: str
    call_id: str | None
    arguments: str | None
    prompt: str | None
    offset: int
    at: int | None


class Result(NamedTuple):
    """Answer to a call as the agent saw it, without the harness's additions, which are the `notes`.

    It was `stopped` if the tool was interrupted, so that it is what had come until then.
    """

    call_id: str
    content: str | None
    is_error: bool
    stopped: bool
    notes: tuple[str, ...]
    attachments: tuple[Attachment, ...]
    exit_code: int | None
    agent_id: str | None
    offset: int
    at: int | None
    cwd: str | None


Part = tuple[str, str] | Call
"""A block of an assistant message: (`text` or `thinking`, the text), or a call."""


class Entry(NamedTuple):
    """One line that has a place in the chain.

    Attributes:
        offset: where the line begins.
        uuid: the line's own id, None if it has none.
        parent: id of the line that it says it follows, None if it says that it follows none.
        begins: whether a conversation may begin with it.
        setting: where it was written.
        at: when, in µs since 1970.
        parts: blocks of an assistant message that the model wrote.
        said: texts of a user message, a queued prompt or a message that the client made up.
        results: answers to calls.
        message_id: the API message that the line is a part of; None unless `parts` is set.
        request_id: the API request of that message.
        model: the model that wrote it.
        kept: of a compaction, ids of the messages it kept, last first; the parent's stand-ins.
    """

    offset: int
    uuid: str | None
    parent: str | None
    begins: bool
    setting: Setting
    at: int | None
    parts: tuple[Part, ...] = ()
    said: tuple[Said, ...] = ()
    results: tuple[Result, ...] = ()
    message_id: str | None = None
    request_id: str | None = None
    model: str | None = None
    kept: tuple[str, ...] | None = None
