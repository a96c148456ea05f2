"""Calls in the form of ReAct and its successors (`Action: …`), and code to be run, in tags or a fence."""

from __future__ import annotations

import re
from typing import Any, Final

from trajmill.connectors.conversation.written_calls.form import Block, bad_call, call_block

_ASKED: Final = re.compile(r"(?:^|[\"'`])[ \t]*(?:Action|ACTION|Act):", re.MULTILINE)
_THOUGHT: Final = re.compile(r"\s*(?:Thought|THOUGHT|Think):")
_THINKS: Final = re.compile(r"thought|think", re.IGNORECASE)
_SHOWN: Final = re.compile(r"\nObservation:[ \t]*\n?")
_NEXT: Final = re.compile(r"\n[ \t]*(?:Thought|Action|ACTION|Act|Action Input|Observation|Final Answer):")
_GIVEN: Final = re.compile(r"([^\n]+?)(?:\n+| with )(Action Input|Final Answer):[ \t]*(.*)", re.DOTALL)
_FENCED: Final = re.compile(r"([^\n`]+?)\s*\n```[^\n]*\n(.*?)\n?```", re.DOTALL)
_BRACKETS: Final = re.compile(r"(\w[\w.-]{0,99})[ \t]?(?:\[(.*)\]|\((.*)\))", re.DOTALL)
_CODE: Final = {"execute_bash": "command"}

ENDING: Final = frozenset({"finish", "answer", "final_answer", "submit"})
"""Actions that submit an answer, to which no environment replies."""


def asks_for_actions(text: str, own: bool) -> bool:
    """Check whether others' text asks for thoughts and actions, or the agent's own text begins with a thought."""
    return _ASKED.search(text) is not None and (_THOUGHT.match if own else _THINKS.search)(text) is not None


def asks_for_code(text: str, own: bool) -> bool:
    """Check whether a text asks for code in the way of smolagents."""
    return not own and "code blobs" in text


def action(text: str, mark: re.Match[str]) -> tuple[list[Block], int]:
    """Return the action at the end of a text, and the observation that the harness may have appended."""
    body, *observations = _SHOWN.split(text[mark.end() :], maxsplit=1)
    name, arguments, last = _action(body.strip())
    if _NEXT.search(last) or (observations and _NEXT.search(observations[0])):
        raise bad_call("one action in a message, and nothing behind its observation", text, mark.start())
    return [
        call_block(name, arguments),
        *({"type": "tool_result", "content": observation} for observation in observations),
    ], len(text)


def _action(text: str) -> tuple[str, Any, str]:
    """Return name and arguments of an action, and the last of its texts; words of a game are its `action`."""
    if (match := _GIVEN.fullmatch(text)) is not None:
        return match[1].strip(), match[3] if match[2] == "Action Input" else {"argument": match[3]}, match[3]
    if (fenced := _FENCED.fullmatch(text)) is not None:
        return fenced[1], {"argument": fenced[2]}, fenced[1]
    if (called := _BRACKETS.fullmatch(text)) is not None:
        return called[1], {"argument": called[2] or called[3] or ""}, text
    return (text, None, text) if text.lower() in ENDING else ("action", {"argument": text}, text)


def blob(text: str, mark: re.Match[str]) -> tuple[list[Block], int]:
    """Return the code between a fence or tags that smolagents runs."""
    closing = "</code>" if mark["mark"].startswith("<") else "```"
    end = text.find(closing, mark.end())
    if end < 0:
        raise bad_call("code that is closed", text, mark.start())
    behind = end + len(closing)
    behind += len("<end_code>") if text.startswith("<end_code>", behind) else 0
    return [call_block("python_interpreter", {"code": text[mark.end() : end].strip("\n")})], behind


def code(text: str, mark: re.Match[str]) -> tuple[list[Block], int]:
    """Return the code between tags named after the tool that runs it."""
    name = mark["mark"].strip(" \t<>")
    end = text.find(f"</{name}>", mark.end())
    if end < 0:
        raise bad_call("code between tags that are closed", text, mark.start())
    return [call_block(name, {_CODE.get(name, "code"): text[mark.end() : end].strip("\n")})], end + len(name) + 3
