"""Common vocabulary for the actions of search agents, whatever the names in their logs.

Three kinds of action are distinguished. `action.name` is the common word. `action.text`, the form that a model reads,
names the tool as in the table of Qwen-AgentWorld (arXiv 2606.24597, table 1). `action.arguments` are the log's own:

    common word   tool in the text   what it does
    search        web_search         queries to a search engine, or an entity to an encyclopedia
    visit         web_extractor      pages by address, often with a goal, as text
    memory        dict_memory        key-value operations on the agent's notes

Every other tool keeps its own name in all three. Arguments are not renamed (`query`, `queries`, `entity` are kept),
since the log's tool definitions describe them. In those definitions the tools are renamed as in the text, so that a
declared tool and its calls have the same name. An answer that ends the episode is `task_complete` with an `answer`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from trajmill.connectors.conversation.turns import Call
from trajmill.connectors.reading.json_text import is_shallow
from trajmill.schemas import COMPLETE, Context, call_text_of, json_text

SEARCH: Final = "search"
VISIT: Final = "visit"
MEMORY: Final = "memory"

_WORDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "search",
            "web_search",
            "websearch",
            "google_search",
            "google_web_search",
            "bing_search",
            "brave_search",
            "brave_web_search",
            "tavily_search",
            "search_web",
            "searchweb",
            "duckduckgo_search",
            "firecrawl_search",
            "web_search_exa",
            "wikipedia_search",
            "wiki_search",
            "browser.search",
        ),
        SEARCH,
    ),
    **dict.fromkeys(
        (
            "visit",
            "web_visit",
            "visit_page",
            "visit_webpage",
            "web_extractor",
            "web_fetch",
            "webfetch",
            "fetch",
            "fetch_content",
            "fetch_url",
            "fetchurl",
            "firecrawl_scrape",
            "read_url_content",
            "read_web_page",
            "tavily_extract",
            "open_url",
            "browser.open",
            "browser.find",
        ),
        VISIT,
    ),
    **dict.fromkeys(("memory", "dict_memory"), MEMORY),
}
_TOOLS: Final[Mapping[str, str]] = {SEARCH: "web_search", VISIT: "web_extractor", MEMORY: "dict_memory"}


def common_word(name: str) -> str:
    """Return the common word for a log's tool; its own name if there is none."""
    return _WORDS.get(name.lower().replace("-", "_"), name)


def tool_name(name: str) -> str:
    """Return the name of a log's tool in the text of an action and in the tool definitions."""
    return _TOOLS.get(common_word(name), name)


def searches(names: Iterable[str]) -> bool:
    """Check whether the tools only search and read pages, apart from notes."""
    words = {common_word(name) for name in names}
    return bool(words) and words <= _TOOLS.keys() and words != {MEMORY}


def call(name: str, arguments: Any, call_id: str | None = None, reasoning: str | None = None) -> Call:
    """Return the call of a log's tool; arguments that are no object are wrapped under `arguments`."""
    call_arguments = (
        arguments if isinstance(arguments, dict) else {"arguments": arguments} if arguments is not None else None
    )
    text = json_text(call_arguments) if call_arguments else None
    return Call(common_word(name), text, call_id, 0, text=call_text_of(tool_name(name), text), reasoning=reasoning)


def answer(text: str, reasoning: str | None = None) -> Call:
    """Return the call by which the agent submits its answer and ends the episode."""
    return call(COMPLETE, {"answer": text}, reasoning=reasoning)


def context(tools: Iterable[Mapping[str, Any]], agent_system: str | None) -> Context:
    """Return the context of a log that declares its tools, each an object of name, description and parameters.

    The origin is `derived` if a tool is renamed, otherwise `logged`.
    """
    declared = [tool for tool in tools if isinstance(tool.get("name"), str)]
    spaces = [
        {
            "name": tool_name(tool["name"]),
            **{key: tool[key] for key in ("description", "parameters") if tool.get(key) is not None},
        }
        for tool in declared
    ]
    renamed = any(tool_name(tool["name"]) != tool["name"] for tool in declared)
    return Context(
        action_space=json_text(spaces) if spaces and is_shallow(spaces) else None,
        agent_system=agent_system or None,
        origin="derived" if renamed else "logged",
    )
