"""`python -m benchmarks.agent_requests FOLDER`: requests to Anthropic and OpenAI that the agent view restores.

A cassette holds the requests themselves. Those of cassettes with an answered call are read here by code of its own, and
looked for in the conversations that `agent_sft` makes of the transitions. A request is restored if a conversation
begins with its messages: who spoke, and each text, thought, call and answer with ids, names and arguments, members of
JSON in any order. Boundaries of blocks, blanks at the ends of a message, signatures, sealed reasoning and marks for
caching do not count. Declared tools are compared on their own.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.mcp.vcr_cassette import VcrCassette
from trajmill.pipelines.render.agent_view import Conversation, agent_conversations
from trajmill.schemas import Assembler, Origin, ParseError, Trajectory

Item = tuple[str, ...]
"""(role, text), (`call`, id, name, arguments) or (`result`, id, text)."""

_APIS: Final = (
    ("anthropic", re.compile(r"anthropic\.com/v1/messages$")),
    ("openai chat", re.compile(r"/chat/completions$")),
    ("openai responses", re.compile(r"openai\.com/v1/responses$")),
)
_SEALED: Final = frozenset({"cache_control", "encrypted_content", "encrypted_index", "signature"})
_TEXTS: Final = frozenset({"text", "input_text", "output_text", "refusal"})
_PAIRS: Final = 2


class _Loader(yaml.CSafeLoader):
    """Reads the tag by which VCR for Ruby marks bytes."""


_Loader.add_constructor("!binary", yaml.CSafeLoader.construct_yaml_binary)


class Comparison(NamedTuple):
    """A logged request beside the conversation that comes closest to it."""

    api: str
    is_restored: bool
    has_tools: bool
    difference: tuple[Item | None, Item | None] | None


def compare_requests(path: Path) -> Iterator[Comparison]:
    """Compare the requests of a cassette with the conversations of its transitions; nothing if it has none."""
    conversations = list(_conversations(path))
    if not conversations:
        return
    text = path.read_text("utf-8")
    cassette = json.loads(text) if path.suffix == ".json" else yaml.load(text, _Loader)
    for interaction in cassette.get("interactions") or cassette.get("http_interactions") or ():
        request = interaction["request"]
        url = str(request.get("uri") or request.get("url")).partition("?")[0]
        api = next((name for name, form in _APIS if form.search(url)), None)
        body = _body(request)
        if api is not None and ("messages" in body or "input" in body):
            yield _compare(api, body, conversations)


def _body(request: dict[str, Any]) -> dict[str, Any]:
    body = request.get("parsed_body") or request.get("body")
    body = body.get("string") if isinstance(body, dict) and "string" in body else body
    try:
        value = json.loads(body) if isinstance(body, str | bytes) else body
    except ValueError:  # a form, or a file
        value = None
    return value if isinstance(value, dict) else {}


def _conversations(path: Path) -> Iterator[Conversation]:
    connector, blob = VcrCassette(), MemoryBlob(path.name, path.read_bytes())
    if connector.sniff(blob.read()[: 1 << 16], blob.uri) is None:
        return
    assembler, parents = Assembler(), dict[str, str]()
    origin = Origin(blob.uri, "", connector.name, connector.version, blob.digest)
    try:
        for trajectory in connector.parse(blob):
            if isinstance(trajectory, Trajectory):
                assembler.add(trajectory, origin, parents)
    except ParseError:  # it holds no call
        return
    for _, rows in groupby(assembler.take().to_pylist(), key=lambda row: row["trajectory_id"]):
        yield from (made for made in agent_conversations(list(rows)) if isinstance(made, Conversation))


def _compare(api: str, body: dict[str, Any], conversations: Sequence[Conversation]) -> Comparison:
    wanted = _logged_items(body)
    thinks = any(item[0] == "thought" for item in wanted)
    best, difference = -1, None
    for conversation in conversations:
        items = _restored_items(conversation, thinks)
        if body.get("previous_response_id"):  # the request holds what is new alone
            new = [item for item in wanted if item[0] != "system"]
            starts = [start for start in range(len(items)) if items[start : start + len(new)] == new]
            equal = len(wanted) if starts else 0
        else:
            equal = next((n for n, (a, b) in enumerate(zip(wanted, items)) if a != b), min(len(wanted), len(items)))
        if equal == len(wanted):
            declared = json.loads(conversation.tools or "[]")
            return Comparison(api, True, all(tool in declared for tool in body.get("tools") or ()), None)
        if equal > best:
            best, difference = equal, (wanted[equal], items[equal] if equal < len(items) else None)
    return Comparison(api, False, False, difference)


def _logged_items(body: dict[str, Any]) -> list[Item]:
    system = body.get("instructions") or body.get("system")
    messages = body.get("messages", body.get("input"))
    items = [("system", _text(system))] if system else []
    if isinstance(messages, str):
        items.append(("user", messages))
    for message in messages if isinstance(messages, list) else ():
        items += _message_items(message) if "role" in message else _responses_items(message)
    return _joined(items)


def _message_items(message: dict[str, Any]) -> Iterator[Item]:
    role = str(message["role"]).replace("developer", "system")
    content = message.get("content")
    if role == "tool":
        yield "result", message["tool_call_id"], _text(content)
        return
    if isinstance(message.get("reasoning_content"), str):
        yield "thought", message["reasoning_content"]
    for block in content if isinstance(content, list) else [{"type": "text", "text": content or ""}]:
        kind = block["type"]
        if kind.endswith("tool_use"):
            yield "call", block["id"], block["name"], _json(block["input"])
        elif kind.endswith("tool_result"):
            yield "result", block["tool_use_id"], _text(block.get("content"))
        elif kind == "thinking":
            yield "thought", block["thinking"]
        elif kind != "redacted_thinking":
            yield role, _text([block])
    for call in message.get("tool_calls") or ():
        written = call.get("function") or {**call["custom"], "arguments": {"input": call["custom"]["input"]}}
        yield "call", call["id"], written["name"], _arguments(written["arguments"])


def _responses_items(item: dict[str, Any]) -> Iterator[Item]:
    kind, key = item["type"], item.get("call_id") or item.get("id")
    if kind == "reasoning":
        summary = [part["text"] for part in item.get("content") or item.get("summary") or ()]
        yield from [("thought", "\n\n".join(summary))] if summary else []
    elif kind in ("function_call", "mcp_call"):
        yield "call", key, item["name"], _arguments(item["arguments"])
        if kind == "mcp_call":
            yield "result", key, item.get("output") or ""
    elif kind == "tool_search_call":
        yield "call", key, "tool_search", _arguments(item["arguments"])
    elif kind == "code_interpreter_call":
        yield "call", key, "code_interpreter", _json({"code": item["code"]})
        yield from [("result", key, _json(item["outputs"]))] if item.get("outputs") else []
    elif kind.endswith("_output"):
        yield "result", key, _text(item.get("output", item.get("tools")))
    elif kind != "mcp_list_tools":
        yield kind, _json(item)


def _restored_items(conversation: Conversation, thinks: bool) -> list[Item]:
    items: list[Item] = []
    for message in conversation.messages:
        if message["role"] == "tool":
            items.append(("result", message["tool_call_id"], message["content"]))
            continue
        if message["reasoning_content"] and thinks:
            items.append(("thought", message["reasoning_content"]))
        items.append((message["role"], message["content"] or ""))
        for call in json.loads(message["tool_calls"] or "[]"):
            items.append(("call", call["id"], call["function"]["name"], _arguments(call["function"]["arguments"])))
    return _joined(items)


def _joined(items: Sequence[Item]) -> list[Item]:
    """Join texts of one speaker that follow each other, and order answers of parallel calls by their ids."""
    joined: list[Item] = []
    for kind, group in groupby(items, key=lambda item: item[0]):
        if kind == "result":
            joined += sorted(group)
        elif kind == "call":
            joined += group
        elif text := "\n".join(item[1].strip() for item in group if item[1].strip()):
            joined.append((kind, re.sub(r"\n+", "\n", text)))
    return joined


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(
            part["text"] if isinstance(part, dict) and part.get("type") in _TEXTS else _json(part) for part in content
        )
    return content if isinstance(content, str) else "" if content is None else _json(content)


def _arguments(written: Any) -> str:
    try:
        return _json(json.loads(written or "{}") if isinstance(written, str) else written)
    except ValueError:
        return written


def _json(value: Any) -> str:
    return json.dumps(_unsealed(value), sort_keys=True, ensure_ascii=False)


def _unsealed(value: Any) -> Any:
    if isinstance(value, list):
        return [_unsealed(one) for one in value]
    if isinstance(value, dict):
        return {key: _unsealed(one) for key, one in value.items() if key not in _SEALED}
    return value


def main() -> None:
    """Print a row for each API."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--show", action="store_true", help="print where requests differ from what was restored")
    asked = parser.parse_args()
    counts: dict[str, Counter[str]] = {name: Counter() for name, _ in _APIS}
    for path in sorted(path for path in asked.folder.rglob("*.*") if path.suffix in (".yaml", ".yml", ".json")):
        for comparison in compare_requests(path):
            counts[comparison.api] += Counter(requests=1, restored=comparison.is_restored, tools=comparison.has_tools)
            if asked.show and comparison.difference is not None:
                print(path, comparison.api, *comparison.difference, sep="\n  ")
    print("| requests to | requests | restored | with its tools |\n|---|--:|--:|--:|")
    for name, count in [*counts.items(), ("all", sum(counts.values(), Counter()))]:
        print(f"| {name} | {count['requests']} | {count['restored']} | {count['tools']} |")


if __name__ == "__main__":
    main()
