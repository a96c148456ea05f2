r"""Message dumps of browser-use (`{"messages": […]}`): the page in one message, the answer in the next.

>>> show(BrowserUseMessages(), r'''
... {"messages": [
...     {"role": "user", "content": "<browser_state>\n[4]<button aria-label=Order />\n</browser_state>"},
...     {"role": "assistant", "content": "{\"next_goal\": \"Order\", \"action\": [{\"click\": {\"index\": 4}}]}"},
...     {"role": "user", "content": "<browser_state>\nThank you\n*[9]<a title=Back />\n</browser_state>"}]}
... ''')
before  | [4]<button aria-label=Order />
action  | {"name": "click", "arguments": {"element": 4}}
after   | Thank you
        | *[9]<a title=Back />

A user message shows the page in `<browser_state>`, in the text form that the agent reads (`[746]<header id=… />`,
indented by tabs, `*[3]` for new elements), beside the task and the agent's own history, which are no observation. An
answer is the JSON of the agent's output, as text or as the arguments of a tool call. Actions name elements by the
numbers in brackets on the page before.

Most dumps are one request: they show a page and end before the answer, and are refused (`no_actions`). The history
within a request states the results of earlier actions, but not the actions, so none is read from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.conversation.content import spoken_text
from trajmill.connectors.reading.attached import attachment_of_bytes
from trajmill.connectors.reading.documents import json_document
from trajmill.connectors.reading.fields import object_of, objects_of, str_of
from trajmill.connectors.reading.values import BOM, object_or_none
from trajmill.connectors.screens.moves import Moves
from trajmill.connectors.web.bodies import unbase64
from trajmill.connectors.web.browser_use import DIALECT, REQUEST, SCREEN, add_turn, calls_of
from trajmill.schemas import COMPLETE, Agent, Context, Observation, ParseError, Reject, Task, Trajectory

_SIGNS: Final = (b"<browser_state>", b"<user_request>", b"<agent_history>", b"automate browser tasks", b"<page_info>")
_PICTURE: Final = re.compile(r"data:(image/[a-z.+-]{1,20});base64,(.*)", re.DOTALL)
_FENCE: Final = re.compile(r"\s*```(?:json)?\s*(.*?)\s*```\s*", re.DOTALL)


class BrowserUseMessages(Connector):
    """Message dumps of browser-use."""

    name: ClassVar[str] = "browser_use_messages"
    version: ClassVar[str] = "2"
    domains: ClassVar[tuple[str, ...]] = ("web",)
    title: ClassVar[str] = "browser-use message dumps (messages.json)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        data = head.removeprefix(BOM).lstrip()
        if data[:1] not in (b"{", b"[") or b'"role"' not in head or b'"history"' in data[:64]:
            return None
        if sum(sign in head for sign in _SIGNS) >= 3:
            return Sniff(0.92, "messages with the page and the task as browser-use marks them")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        document, data = json_document(blob)
        messages = object_of(document).get("messages") if isinstance(document, dict) else document
        if not isinstance(messages, list):
            raise ParseError(blob.uri, 0, "no_messages", "wanted a list of messages")
        hits = [hit.start() for hit in re.finditer(rb'\{\s*"role"\s*:', data)]
        offsets = hits if len(hits) == len(messages) else [0] * len(messages)
        moves = Moves()
        page: Observation | None = None
        is_open = False
        task = system = None
        for offset, message in zip(offsets, messages, strict=True):
            role, text = object_of(message).get("role"), spoken_text(object_of(message).get("content"))
            if role == "system":
                system = system or text or None
            elif role == "assistant" and (output := _output(message)) is not None:
                calls = calls_of(output)
                add_turn(moves, offset, {"model_output": output}, calls, [], page, None)
                is_open = bool(calls) and moves.steps[-1].action.name != COMPLETE
            elif role == "user":
                asked = REQUEST.search(text)
                task = task or (asked[1].strip() if asked else None)
                shown = _page(text, message.get("content"))
                if shown is not None:
                    if is_open:
                        moves.reach(shown)
                    page, is_open = shown, False
        if not moves.steps:
            raise ParseError(blob.uri, -1, "no_actions", "the messages end before an answer of the agent")
        if not moves.is_followed:
            raise ParseError(blob.uri, moves.steps[0].offset, "no_observation", "no action is followed by a page")
        yield Trajectory(
            native_id=blob.uri.removesuffix("/messages.json").rpartition("/")[2],
            domain="web",
            steps=moves.steps,
            agent=Agent(name="browser-use"),
            task=Task(instruction=task),
            context=Context(agent_system=system),
        )


def _page(text: str, content: Any) -> Observation | None:
    """Return the page in a message, with its screenshots; None if there is none."""
    shown = SCREEN.search(text)
    if shown is None:
        return None
    attachments = []
    for part in content if isinstance(content, list) else []:
        image = object_of(object_of(part).get("image_url"))
        picture = _PICTURE.fullmatch(str_of(image.get("url")))
        data = unbase64(picture[2]) if picture else None
        if picture and data:
            attachments.append(attachment_of_bytes(data, "screenshot", picture[1]))
    return Observation(shown[1], form="screen", dialect=DIALECT, attachments=tuple(attachments))


def _output(message: dict[str, Any]) -> dict[str, Any] | None:
    """Return the agent's output in a message, `{…, "action": […]}`; None if there is none."""
    texts = [spoken_text(message.get("content"))]
    texts += [
        str_of(object_of(tool_call.get("function")).get("arguments"))
        for tool_call in objects_of(message.get("tool_calls"))
    ]
    for text in texts:
        fenced = _FENCE.fullmatch(text)
        value = object_or_none(fenced[1] if fenced else text)
        if value is not None and "action" in value:
            return value
    return None
