"""Domain and working folder of a session, by the tools that its agent used, whichever client it ran in."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from trajmill.connectors.conversation.search_tools import searches
from trajmill.schemas import COMPLETE, MESSAGE

MCP_PREFIX: Final = "mcp__"
"""Beginning that clients give the name of a tool of a server of the Model Context Protocol."""


def domain_of(
    names: Iterable[str],
    usual: str = "mcp",
    own: frozenset[str] = frozenset(),
    is_mcp: Callable[[str], bool] = lambda name: name.startswith(MCP_PREFIX),
) -> str:
    """The domain of a trajectory by the tools it used: `search` if it only searched and read pages, in any format.

    Args:
        names: of the tools that were called.
        usual: the domain of tools of which nothing is known.
        own: tools that harness, user or sub-agents answer; they say nothing of the domain.
        is_mcp: tells a tool of a server of the Model Context Protocol.
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
