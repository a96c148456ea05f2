"""Calls in the XML of Cline and Roo, whose tools are tags, and the answers of these clients in messages of the user."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from trajmill.connectors.conversation.harness_text import Source, read_output
from trajmill.connectors.conversation.shapes import HARNESS
from trajmill.connectors.conversation.tools import MCP_PREFIX
from trajmill.connectors.conversation.written_calls.form import Block, bad_call, call_block
from trajmill.connectors.reading.fields import objects_of, str_of

SPEAKING: Final = {"attempt_completion": "result", "ask_followup_question": "question", "plan_mode_respond": "response"}
"""Tools that speak to the user, with the parameter of their words."""

_ACTING: Final = (
    "execute_command read_command_output read_file write_to_file replace_in_file apply_diff insert_content "
    "search_and_replace edit_file apply_patch search_files list_files list_code_definition_names codebase_search "
    "browser_action use_mcp_tool access_mcp_resource load_mcp_documentation web_fetch web_search new_task condense "
    "new_rule switch_mode use_skill fetch_instructions update_todo_list generate_image"
)
TOOLS: Final = "|".join(sorted([*SPEAKING, *_ACTING.split()]))
HEAD: Final = re.compile(r"\[(?P<name>\w{2,60})(?: (?:for|to|in|from|on) .*?)?\] Result:\n*", re.DOTALL)

LOST: Final = "lost"
"""Role of an answer without a pending call."""

_LONG: Final = frozenset({"content", "diff", "args", "arguments", "result", "patch"})
"""Parameters that may contain apparent tags; they end at their last closing tag."""

_PARAMETER: Final = re.compile(r"<([a-z_]{2,40})>")
_SAYS: Final = re.compile(r"<(task|feedback|answer|user_message)>\s*(.*?)\s*</\1>", re.DOTALL)
_CLIENT: Final = re.compile(
    r"\s*(?:<environment_details>|# (?:task_progress|todo list)\b|\[[A-Z ]{4,40}\]"
    r"|\(The user did not provide a new message\. )",
    re.IGNORECASE,
)
_CLINE: Final = "cline"
_FEEDBACK: Final = "\n\nThe user provided the following feedback:\n"
_FAILED: Final = re.compile(
    r"\AThe tool execution failed with the following error:\n<error>\n(.*)\n</error>\s*\Z", re.DOTALL
)


def read_call(text: str, mark: re.Match[str]) -> tuple[list[Block], int]:
    """Return the call in a tool's tag; a tool that speaks to the user becomes the agent's words."""
    tool = mark["tool"]
    parameter = _PARAMETER.match(text, mark.end())
    is_long = parameter is not None and tool not in ("read_file", "execute_command")
    closing = f"</{tool}>"
    end = text.rfind(closing, mark.end()) if is_long else text.find(closing, mark.end())
    if end < 0:
        raise bad_call("a tool's tag that is closed", text, mark.start())
    return [block_of(tool, _parameters(text[mark.end() : end]))], end + len(closing)


def block_of(tool: str, parameters: Mapping[str, Any], key: str | None = None) -> Block:
    """Return the block of a tool call of these clients."""
    if tool in SPEAKING:
        return {"type": "text", "text": str_of(parameters.get(SPEAKING[tool])) or tool}
    if tool != "use_mcp_tool":
        return call_block(tool, parameters, key)
    name = f"{MCP_PREFIX}{str_of(parameters.get('server_name'))}__{str_of(parameters.get('tool_name'))}"
    return call_block(name, parameters.get("arguments"), key)


def _parameters(body: str) -> dict[str, str]:
    """Return the parameters of a call."""
    values: dict[str, str] = {}
    position = 0
    while (opened := _PARAMETER.search(body, position)) is not None:
        closing = f"</{opened[1]}>"
        is_long = opened[1] in _LONG
        end = body.rfind(closing, opened.end()) if is_long else body.find(closing, opened.end())
        end = len(body) if end < 0 else end
        values[opened[1]] = body[opened.end() : end].removeprefix("\n").removesuffix("\n")
        position = end + len(closing)
    return values


def answer(name: str | None, key: str | None, content: Any, is_error: bool | None = None) -> Iterator[dict[str, Any]]:
    """Yield an answer as a message, and the client's words around it as messages."""
    text, pictures = content, []
    if not isinstance(content, str):
        text = "\n".join(str_of(block.get("text")) for block in objects_of(content) if block.get("type") == "text")
        pictures = [block for block in objects_of(content) if block.get("type") != "text"]
    text, told, feedback = text.partition(_FEEDBACK)
    failed = _FAILED.match(text)
    ended = read_output(failed[1] if failed is not None else text, Source(_CLINE, None, name))
    text = ended.text or ""
    message: dict[str, Any] = {"role": "tool", "name": name, "tool_call_id": key, "content": text}
    if pictures:
        message["content"] = [{"type": "text", "text": text}, *pictures]
    if failed is not None or is_error:
        message["is_error"] = True
    if ended.exit_code is not None:
        message["exit_code"] = ended.exit_code
    yield message
    yield from ({"role": HARNESS, "content": note} for note in ended.notes)
    yield from split_speakers(told.strip() + feedback) if told else ()


def split_speakers(text: str) -> Iterator[dict[str, Any]]:
    """Split a text into the words of the user and the client.

    The contents of the user's tags are the user's; so is a text without any tags.
    """
    position = 0
    if _CLIENT.match(text):
        yield {"role": HARNESS, "content": text}
        return
    for words in _SAYS.finditer(text):
        if before := text[position : words.start()].strip():
            yield {"role": HARNESS, "content": before}
        yield {"role": "user", "content": words[2]}
        position = words.end()
    if rest := text[position:].strip():
        yield {"role": HARNESS if position else "user", "content": rest}


def answers(content: Any, waiting: list[Block]) -> Iterator[dict[str, Any]]:
    """Yield the answers in a user's message, and the words of user and client in it, as messages.

    An answer extends from its head to the next head or to the client's words. If its head names no pending tool, its
    role is `LOST`.

    Args:
        waiting: Blocks of the calls without an answer; answered ones are removed.
    """
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    tool, shown = "", list[Block]()
    for block in objects_of(blocks):
        text = str_of(block.get("text"))
        head = HEAD.match(text)
        if tool and head is None and not _CLIENT.match(text) and block.get("type") != "tool_result":
            shown.append(block)
            continue
        yield from _read_answer(tool, shown, waiting)
        tool, shown = "", []
        if head is not None:
            tool, shown = head["name"], [{"type": "text", "text": rest}] if (rest := text[head.end() :]) else []
        elif block.get("type") == "tool_result":
            yield from answer(None, block.get("tool_use_id"), block.get("content"), block.get("is_error") is True)
        else:
            yield from split_speakers(text)
    yield from _read_answer(tool, shown, waiting)


def _read_answer(tool: str, shown: list[Block], waiting: list[Block]) -> Iterator[dict[str, Any]]:
    """Yield the answer under a head that names a tool; nothing without a tool."""
    names = (MCP_PREFIX,) if tool == "use_mcp_tool" else (tool, f"use_{tool}")
    call = next((call for call in waiting if call["name"].startswith(names)), None) if tool else None
    if tool in SPEAKING:
        yield from split_speakers("\n".join(text for block in shown if (text := str_of(block.get("text")))))
    elif call is not None:
        waiting.remove(call)
        yield from answer(call["name"], call["id"], shown)
    elif tool:
        yield {"role": LOST, "name": tool}
