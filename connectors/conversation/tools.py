"""Domain and working folder of a session, derived from the tools that its agent used, in any client."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from trajmill.connectors.conversation.search_tools import searches
from trajmill.schemas import COMPLETE, MESSAGE

MCP_PREFIX: Final = "mcp__"
"""Prefix that clients give to the names of tools of Model Context Protocol servers."""


def domain_of(
    names: Iterable[str],
    usual: str = "mcp",
    own: frozenset[str] = frozenset(),
    is_mcp: Callable[[str], bool] = lambda name: name.startswith(MCP_PREFIX),
) -> str:
    """Return the domain of a trajectory by its tools: `search` if it only searched and read pages, in any format.

    Args:
        names: Names of the called tools.
        usual: Domain of unknown tools.
        own: Tools that harness, user or sub-agents answer, which do not affect the domain.
        is_mcp: Checks whether a tool belongs to a Model Context Protocol server.
    """
    used = set(names) - own - {MESSAGE, COMPLETE}
    if searches(name.rpartition("__")[2] if is_mcp(name) else name for name in used):
        return "search"
    return "mcp" if used and all(is_mcp(name) for name in used) else usual


def checkout(cwd: str | None) -> str | None:
    r"""The working folder as the instance of the environment, None where it identifies nothing.

    A folder of fewer than three levels (`/workspace`, `/app`, `C:\src`) is what any container may call its own.
    """
    levels = [level for level in (cwd or "").replace("\\", "/").split("/") if level and not level.endswith(":")]
    return cwd if len(levels) >= 3 else None
