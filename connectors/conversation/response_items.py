"""Items of OpenAI's Responses API other than messages, as parts: calls, their results, and reasoning.

A call that the API made itself contains its answer (`mcp_call`), or omits it (`web_search_call`). Lists of tools and
approvals become no parts. `shapes` reads messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from trajmill.connectors.conversation.answers import answer
from trajmill.connectors.conversation.calls import MessageError, call
from trajmill.connectors.conversation.content import Shown, result_of, shown
from trajmill.connectors.conversation.failures import exit_code, is_failure
from trajmill.connectors.conversation.opaque import attachment
from trajmill.connectors.conversation.turns import Part, Thought, Unlogged
from trajmill.connectors.reading.fields import brief, key_of, objects_of, plain_text

Message = Mapping[str, Any]

_HOSTED: Final = (
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "computer_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
)
"""Items of the Responses API that are calls of tools defined by the API."""

_SERVED: Final = frozenset({"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call"})
"""Calls that the API runs itself: the model continues after the answer, even if the item lacks it."""


def item_parts(item: Message, offset: int, at: datetime | None) -> Iterator[Part]:
    """Yield the parts of an item.

    Raises:
        MessageError: The item has an unknown type.
    """
    reader = _ITEMS.get(plain_text(item.get("type")))
    if reader is None:
        raise MessageError(
            "unknown_item", f"wanted a message with a role, met an item of type {brief(item.get('type'))}"
        )
    yield from reader(item, offset, at)


def _item_call(item: Message, offset: int, at: datetime | None) -> Iterator[Part]:
    arguments = {"input": item.get("input")} if item["type"] == "custom_tool_call" else item.get("arguments")
    yield call(item.get("name"), arguments, item.get("call_id"), offset, at)


def _item_output(item: Message, offset: int, at: datetime | None) -> Iterator[Part]:
    output = item.get("output")
    if isinstance(output, dict) and isinstance(output.get("image_url"), str):  # a computer's screen
        output = [{**output, "type": "input_image"}]
    name = str(item["type"]).removesuffix("_output").removesuffix("_call")
    tool = name if f"{name}_call" in _HOSTED else None
    message = {
        "content": output,
        "id": item.get("call_id") or item.get("id"),
        "name": tool,
        "status": item.get("status"),
    }
    yield answer({**message, "exit_code": _exit_code(output)}, offset, at, "id")


def _exit_code(output: Any) -> int | None:
    """Return the exit code of the last command in a shell's output; None if it has none or did not finish."""
    ended = [command["outcome"] for command in objects_of(output) if isinstance(command.get("outcome"), dict)]
    return exit_code(ended[-1]) if ended else None


def _item_hosted(item: Message, offset: int, at: datetime | None) -> Iterator[Part]:
    """Yield a call that the API made itself, or of a tool it defines, with its result if the item contains it."""
    name, call_id = str(item["type"]).removesuffix("_call"), item.get("call_id") or item.get("id")
    arguments = next((item[key] for key in ("action", "operation") if isinstance(item.get(key), dict)), None)
    if arguments is None:
        arguments = {key: item[key] for key in ("queries", "code", "query", "input", "arguments") if item.get(key)}
    hosted = item["type"] in _SERVED
    item_call = call(name, arguments or None, call_id, offset, at)
    item_call.hosted = hosted
    yield item_call
    results = next((item[key] for key in ("outputs", "results", "result") if item.get(key) is not None), None)
    if results is not None:
        picture = attachment(results, "image/png", "image") if name == "image_generation" else None
        seen = Shown(None, (picture,)) if picture is not None else shown(results)
        yield result_of(seen, key_of(call_id), offset, is_error=is_failure(item), at=at, hosted=hosted)
    elif hosted:
        yield Unlogged(offset)


def _item_search(item: Message, offset: int, at: datetime | None) -> Iterator[Part]:
    """Yield a search for tools, by the API or by the client."""
    search_call = call("tool_search", item.get("arguments"), item.get("call_id") or item.get("id"), offset, at)
    search_call.hosted = _is_servers(item)
    yield search_call


def _item_reasoning(item: Message, offset: int, at: datetime | None) -> Iterator[Part]:
    for key in ("content", "summary"):
        blocks = item.get(key)
        texts = [block.get("text") for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []
        thought = "\n\n".join(text for text in texts if isinstance(text, str))
        if thought:
            yield Thought(thought, offset, at)
            return


def _item_mcp(item: Message, offset: int, at: datetime | None) -> Iterator[Part]:
    """Yield a call that the API made itself, and its answer; a failed call has an error instead of an output."""
    server_call = call(item.get("name"), item.get("arguments"), item.get("id"), offset, at)
    server_call.server, server_call.hosted = key_of(item.get("server_label")), True
    yield server_call
    output, error = item.get("output"), item.get("error")
    if output is not None or error is not None:
        seen = shown(output if output is not None else error)
        failed = error is not None or item.get("status") == "failed"
        yield result_of(seen, key_of(item.get("id")), offset, is_error=failed, at=at, hosted=True)


def _item_nothing(item: Message, offset: int, at: datetime | None) -> Iterator[Part]:  # noqa: ARG001
    """Yield nothing: lists of tools are read as tools, and an approval adds nothing to the call."""
    return iter(())


def _item_tools(item: Message, offset: int, at: datetime | None) -> Iterator[Part]:
    """Yield the tools found by a search for tools; a search by the API has no call id."""
    message = {"content": item.get("tools"), "id": item.get("call_id"), "name": "tool_search"}
    yield replace(answer(message, offset, at, "id"), hosted=_is_servers(item))


def _is_servers(item: Message) -> bool:
    """Check whether the API itself searched for tools."""
    return item.get("execution") == "server"


_ITEMS: Final[Mapping[str, Callable[[Message, int, datetime | None], Iterator[Part]]]] = {
    "function_call": _item_call,
    "custom_tool_call": _item_call,
    "function_call_output": _item_output,
    "custom_tool_call_output": _item_output,
    **dict.fromkeys(_HOSTED, _item_hosted),
    **dict.fromkeys((f"{kind}_output" for kind in _HOSTED), _item_output),
    "tool_search_call": _item_search,
    "tool_search_output": _item_tools,
    "item_reference": _item_nothing,
    "compaction": _item_nothing,
    "reasoning": _item_reasoning,
    "mcp_call": _item_mcp,
    "mcp_list_tools": _item_nothing,
    "mcp_approval_request": _item_nothing,
    "mcp_approval_response": _item_nothing,
}
ITEMS: Final = frozenset(_ITEMS)
