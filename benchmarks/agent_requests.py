"""`python -m benchmarks.agent_requests FOLDER`: requests to Anthropic and OpenAI that the agent view restores.

A cassette holds the requests themselves. Those of cassettes with an answered call are read here by code of its own, and
looked for in the conversations that `agent_sft` makes of the transitions. A request is restored if a conversation
begins with its messages: who spoke, and each text, thought, call and answer with ids, names and arguments, members of
JSON in any order. Boundaries of blocks, blanks, signatures, sealed reasoning and marks for caching do not count.
Declared tools are compared on their own. Pictures and files stand in no text, so requests with one are counted apart,
and so are those that hold no answer and belong to no trajectory.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby, takewhile
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.mcp.vcr_cassette import VcrCassette
from trajmill.pipelines.render.agent_view import Conversation, agent_conversations
from trajmill.schemas import Assembler, Origin, ParseError, Trajectory

Item = tuple[Any, ...]
"""(role, text), (`call`, id, name, arguments) or (`result`, id, text)."""

_APIS: Final = (
    ("anthropic", re.compile(r"anthropic\.com/v1/messages$")),
    ("openai chat", re.compile(r"/chat/completions$")),
    ("openai responses", re.compile(r"openai\.com/v1/responses$")),
)
_SEALED: Final = frozenset({"cache_control", "encrypted_content", "encrypted_index", "signature"})
_HARNESS: Final = "harness"
_TEXTS: Final = frozenset({"text", "input_text", "output_text", "refusal"})
_THOUGHT: Final = re.compile(r"(?s)\A\s*<think>(.*?)</think>")
_FILES: Final = re.compile(
    r'"type": "(?:image|image_url|input_image|document|document_url|file|input_file|input_audio)"|\b(?:See|is) file '
)


class _Loader(yaml.CSafeLoader):
    """Reads the tag by which VCR for Ruby marks bytes."""


_Loader.add_constructor("!binary", yaml.constructor.SafeConstructor.construct_yaml_binary)  # type: ignore[type-var]


class Comparison(NamedTuple):
    """A logged request beside the conversation that comes closest to it.

    Attributes:
        outcome: `restored`, `differs`, `files` (it holds a picture or file) or `unanswered` (no answer, no trajectory).
        has_tools: whether a restored request's tools are declared too.
        difference: the first items that differ, of the request and of the conversation.
    """

    api: str
    outcome: str
    has_tools: bool = False
    difference: tuple[Item, Item | None] | None = None


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
    best = -1
    difference: tuple[Item, Item | None] = wanted[0], None
    for conversation in conversations:
        items = _restored_items(conversation, thinks)
        if body.get("previous_response_id"):  # the request holds what is new alone
            wanted = [item for item in wanted if item[0] != "system"]
            starts = (n for n in range(len(items)) if items[n : n + len(wanted)] == wanted)
            items = items[next(starts, 0) :]
        equal = len(list(takewhile(lambda pair: _is_equal(*pair), zip(wanted, items, strict=False))))
        if equal == len(wanted) - 1 and _begins(items[equal:], wanted[-1]):
            equal = len(wanted)
        if equal == len(wanted):
            declared = json.loads(conversation.tools or "[]")
            return Comparison(api, "restored", all(tool in declared for tool in body.get("tools") or ()))
        if equal > best:
            best, difference = equal, (wanted[equal], items[equal] if equal < len(items) else None)
    if _FILES.search(json.dumps(body.get("messages", body.get("input")))):
        return Comparison(api, "files")
    if not any(item[0] == "result" for item in wanted):
        return Comparison(api, "unanswered")
    return Comparison(api, "differs", False, difference)


def _is_equal(logged: Item, restored: Item) -> bool:
    """Compare two items; words of the harness may be the system's or the user's in the request."""
    return logged == restored or (
        restored[0] == _HARNESS and (logged[0] in ("system", "user")) and logged[1:] == restored[1:]
    )


def _begins(restored: Sequence[Item], logged: Item) -> bool:
    """Check if a message of the agent with which a request ends is the beginning of the restored one."""
    return bool(restored) and logged[0] == restored[0][0] == "assistant" and restored[0][1].startswith(logged[1])


def _logged_items(body: dict[str, Any]) -> list[Item]:
    system = body.get("instructions") or body.get("system")
    messages = body.get("messages", body.get("input"))
    items: list[Item] = [("system", _text(system))] if system else []
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
            text = _text([block])
            if (thought := _THOUGHT.match(text)) is not None:
                yield "thought", thought[1]
                text = text[thought.end() :]
            yield role, text
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
        role = _HARNESS if message["name"] == _HARNESS else message["role"]
        items.append((role, message["content"] or ""))
        items += [
            ("call", call["id"], call["function"]["name"], _arguments(call["function"]["arguments"]))
            for call in json.loads(message["tool_calls"] or "[]")
        ]
    return _joined(items)


def _joined(items: Sequence[Item]) -> list[Item]:
    """Join texts of one speaker that follow each other, and order answers of parallel calls by their ids."""
    joined: list[Item] = []
    for kind, group in groupby(items, key=lambda item: item[0]):
        if kind == "result":
            joined += sorted((kind, key, _plain(text)) for _, key, text in group)
        elif kind == "call":
            joined += group
        elif text := _plain("\n".join(item[1] for item in group)):
            joined.append((kind, text))
    return joined


def _plain(text: str) -> str:
    """A text with single blanks; lines that are JSON with their members in order."""
    return " ".join(" ".join(_canonical(line) for line in text.split("\n")).split())


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(
            part["text"] if isinstance(part, dict) and part.get("type") in _TEXTS else _json(part) for part in content
        )
    return content if isinstance(content, str) else "" if content is None else _json(content)


def _arguments(written: Any) -> str:
    return _canonical(written or "{}") if isinstance(written, str) else _json(written)


def _canonical(text: str) -> str:
    try:
        return _json(json.loads(text))
    except ValueError:
        return text


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
            counts[comparison.api] += Counter({"requests": 1, comparison.outcome: 1, "tools": comparison.has_tools})
            if asked.show and comparison.difference is not None:
                print(path, comparison.api, *comparison.difference, sep="\n  ")
    columns = ("requests", "files", "unanswered", "restored", "tools", "differs")
    print(
        "| requests to | all | with a file | no answer | restored | its tools too | differs |\n|---" + 6 * "|--:" + "|"
    )
    for name, count in [*counts.items(), ("all", sum(counts.values(), Counter[str]()))]:
        print(f"| {name} | " + " | ".join(str(count[column]) for column in columns) + " |")


if __name__ == "__main__":
    main()
