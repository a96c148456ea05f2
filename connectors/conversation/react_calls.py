r"""Calls that an agent writes into its text as ReAct asks for them, as messages that hold them as calls and answers.

    Thought: …\nAction: look\nAction Input: {"bed": 2}        (the agent)
    Observation: dry                                          (the user, or at the end of the agent's own message)

They are read only where a message of others asks for this form. An observation at the end of the agent's message was
put there by the harness, as CrewAI and LangChain do; where the agent goes on behind it, nobody knows who wrote it, and
the conversation is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from trajmill.connectors.conversation.answers import content_of
from trajmill.connectors.conversation.calls import MessageError
from trajmill.connectors.conversation.content import spoken_text
from trajmill.connectors.conversation.shapes import ROLES_OF_AGENT

_STEP: Final = re.compile(r"(?:\A|\n)Action:[ \t]*([^\n]+)\n+Action Input:")
_SHOWN: Final = re.compile(r"(?:\A|\n)Observation:[ \t]*")
_NEXT: Final = re.compile(r"\n(?:Thought|Action|Action Input|Observation|Final Answer):")


def is_react(messages: Iterable[Any]) -> bool:
    """Whether messages of others ask for actions and observations in the text, and the agent writes one."""
    asked = False
    for message in messages:
        role, text = _role_and_text(message)
        if role in ROLES_OF_AGENT and asked and _STEP.search(text):
            return True
        asked = asked or (role not in ROLES_OF_AGENT and "Action Input:" in text and "Observation" in text)
    return False


def structured(messages: Iterable[Any]) -> Iterator[Any]:
    """The messages, with calls that are written into them and their answers taken out of the texts.

    Raises:
        MessageError: `bad_call` of a message that holds more than one step.
    """
    waiting: str | None = None
    for message in messages:
        role, text = _role_and_text(message)
        step = _STEP.search(text) if role in ROLES_OF_AGENT else None
        shown = _SHOWN.match(text) if waiting is not None and role not in ROLES_OF_AGENT else None
        if step is not None:
            waiting = step[1].strip()
            given, told = _parted(text[step.end() :])
            called = {"name": waiting, "arguments": given}
            yield {**message, "role": "assistant", "content": text[: step.start()], "tool_calls": [called]}
            if told is not None:
                yield {"role": "tool", "name": waiting, "content": told}
                waiting = None
        elif shown is not None:
            yield {"role": "tool", "name": waiting, "content": text[shown.end() :]}
            waiting = None
        else:
            yield message


def _parted(text: str) -> tuple[str, str | None]:
    """The arguments that a text begins with, and the observation that it ends with; None where it has none."""
    shown = _SHOWN.search(text)
    given, told = (text, None) if shown is None else (text[: shown.start()], text[shown.end() :])
    if _NEXT.search(given) or (told is not None and _NEXT.search(told)):
        raise MessageError("bad_call", "wanted one action in a message, and nothing behind its observation")
    return given.strip(), told


def _role_and_text(message: Any) -> tuple[str | None, str]:
    held = message if isinstance(message, Mapping) else {}
    role = held.get("role") or held.get("from")
    return role if isinstance(role, str) else None, spoken_text(content_of(held))
