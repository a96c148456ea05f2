"""Domain of an ATIF document. The format has no field for it, so it is derived from the agent and the tools it called.

The rules agree with the connector of the agent's own log, so that a session kept in both forms has one domain. An agent
that works on repositories has the domain swe, and a command line client the domain terminal, whatever else either of
them calls. For other agents the tools decide: search and visits to pages, actions on a web page, a phone or a desktop,
files and shells. If no tool is known, the tools are an interface of their own, as over MCP.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from trajmill.connectors.conversation.search_tools import searches
from trajmill.connectors.conversation.tools import MCP_PREFIX
from trajmill.schemas import COMPLETE, KEYSTROKES, MESSAGE

OWN_TOOLS: Final = frozenset(
    {COMPLETE, MESSAGE, "mark_task_complete", "TodoWrite", "update_plan", "write_todos", "think", "finish", "submit"}
    | {"Task", "Agent", "task_tracker"}
)
"""Tools that are answered by an agent's harness, its user or its sub-agents."""

_REPOSITORIES: Final = re.compile(r"swe-?agent|open-?hands|\b(?:aider|moatless|agentless)\b", re.I)
_CLIENTS: Final = re.compile(
    r"\b(?:terminus|claude-?code|codex|gemini-?cli|qwen-?code|goose|opencode|cursor|cline|warp|droid|copilot)", re.I
)
_TYPED: Final = frozenset({KEYSTROKES, "raw_response", "bash_command"})
_FILES: Final = frozenset(
    {"bash", "sh", "shell", "zsh", "powershell", "terminal", "exec", "exec_command", "execute_bash", "execute_command"}
    | {"local_shell", "run_command", "run_shell_command", "run_terminal_cmd", "write_stdin", "bashoutput", "killshell"}
    | {"python", "ipython", "execute_ipython_cell", "apply_patch", "read", "write", "edit", "multiedit", "notebookedit"}
    | {"read_file", "write_file", "edit_file", "list_directory", "list_dir", "glob", "grep", "ls", "replace", "view"}
    | {"search_file_content", "grep_search", "read_many_files", "text_editor", "file_editor"}
)
_EDITORS: Final = frozenset({"str_replace_editor", "str_replace_based_edit_tool", "edit_anthropic"})
_PAGE: Final = frozenset(
    {"fill", "goto", "navigate", "tab_focus", "new_tab", "switch_tab", "go_back", "go_forward", "select_option"}
    | {"open_tab", "go_to_url", "click_element", "input_text_into_element"}
)
_PHONE: Final = frozenset(
    {"open_app", "long_press", "press_back", "press_home", "navigate_back", "navigate_home", "swipe", "tap", "touch"}
)
_DESKTOP: Final = frozenset({"computer", "computer_use", "pyautogui", "double_click", "right_click", "hotkey", "drag"})
_SCREEN: Final = frozenset(
    {"click", "type", "press", "scroll", "hover", "wait", "screenshot", "key", "input_text", "left_click", "mouse_move"}
    | {"dblclick", "drag_and_drop", "focus", "clear", "noop", "keyboard_press", "keyboard_type", "mouse_click"}
)
_BROWSER: Final = ("browser_", "web_browser", "playwright_")


def domain(agent: str | None, actions: Iterable[str]) -> str:
    """Derive the domain of a document from the agent's name (None if not stated) and the names of the actions."""
    used = set(actions) - OWN_TOOLS
    words = {name.lower() for name in used}
    if searches(used):
        return "search"
    if used and all(name.startswith(MCP_PREFIX) for name in used):
        return "mcp"
    if _REPOSITORIES.search(agent or ""):
        return "swe"
    if not used or words & _TYPED or _CLIENTS.search(agent or ""):
        return "terminal"
    if words & _EDITORS:
        return "swe"
    return _by_screen(words) or ("terminal" if words & _FILES else "mcp")


def _by_screen(words: set[str]) -> str | None:
    """Derive the domain of actions on a screen; None if other actions occur or no action identifies the screen."""
    paged = {word for word in words if word.startswith(_BROWSER)}
    if not words - paged - _SCREEN - _PAGE and (paged or words & _PAGE):
        return "web"
    if not words - _SCREEN - _PHONE and words & _PHONE:
        return "android"
    if not words - _SCREEN - _DESKTOP and words & _DESKTOP:
        return "os"
    return None
