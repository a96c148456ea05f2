"""Records of the lines of a Claude Code log: one entry per line, with its texts, calls and results.

They are tuples, since `kept` stores them as plain values. The module `lines` turns lines into entries.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from trajmill.schemas import Attachment

AGENT_TOOLS: Final = frozenset({"Task", "Agent"})
"""Tools that start a sub-agent. Their `prompt` is the first user text of the sub-agent."""


class Setting(NamedTuple):
    """Setting of lines: session, agent, folder and version; `agent` is None in the main conversation, else the
    sub-agent's id, empty if not stated.
    """

    session: str
    agent: str | None
    cwd: str | None
    version: str | None


class Said(NamedTuple):
    """A text in a user message, from the `user` or inserted by the `harness`; `at` is in µs since 1970.

    A `compaction` is the client's summary of everything before it.

    The text is empty if the user sent only images.
    """

    role: str
    text: str
    at: int | None
    cwd: str | None
    attachments: tuple[Attachment, ...] = ()


class Call(NamedTuple):
    """A tool call. `arguments` is JSON text; `prompt` is set for `AGENT_TOOLS`; `offset` is the start of its line."""

    name: str
    call_id: str | None
    arguments: str | None
    prompt: str | None
    offset: int
    at: int | None


class Result(NamedTuple):
    """The answer to a call as the agent saw it. The harness's additions are kept apart as `notes`.

    `stopped` means that the tool was interrupted, so the content is the output up to that point.
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
"""A block of an assistant message: a pair of `text` or `thinking` and the text, or a call."""


class Entry(NamedTuple):
    """A line that has a place in the chain.

    Attributes:
        uuid: the line's own id; None if it has none.
        parent: id of the line that it states it follows; None if it states that it follows none.
        begins: whether a conversation may begin with it.
        setting: session, agent, folder and version of the line.
        at: time, in µs since 1970.
        parts: blocks of an assistant message that the model wrote.
        said: texts of a user message, a queued prompt or a message that the client made up.
        message_id: the API message that the line is part of; None unless `parts` is set.
        request_id: the API request of that message.
        model: the model that wrote the message.
        kept: of a compaction, ids of the messages it kept, last first; they stand in for the parent.
        beside: whether the client wrote it beside the conversation, about a hook or a tool at work.
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
    beside: bool = False
