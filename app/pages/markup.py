"""HTML parts of pages: templates, escaping filters, and the style sheet.

All content of a log is escaped, and control and invisible characters appear as their escapes: `{{ value }}` is safe for
any value, `{{ value | visible }}` keeps the lines of a text and marks its escapes. No value of a log may be used in a
style, a script, an attribute without quotes, or an address without `urlencode`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from trajmill.app.console import shown

TEMPLATES: Final = Path(__file__).with_name("templates")
STYLE: Final = TEMPLATES / "looking.css"

_CALL: Final = re.compile(r'\{"name": "[^"]*", "arguments": \{|\[\{"keystrokes": ')
_END: Final = re.compile(r'(?:, "duration": [0-9.]+)?[\]}]+$')


def environment(*folders: Path) -> Environment:
    """Return the Jinja environment of pages, with templates of the given folders before those of this package.
    Everything is escaped.

    Filters: `visible` (a text of several lines), `inline` (a text as one line), `count` (1,234), `signal` (a number of
    a signal), `cut(most)` (a line of at most so many characters), `middle(most)` (the same for a path, cut in its
    middle), `truncated` (a text cut to a displayable size), `brief` (an action without its name), `named` (a name for a
    trajectory of the index).
    """
    templates = Environment(
        loader=ChoiceLoader([FileSystemLoader([*folders, TEMPLATES])]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.finalize = _finalize
    filters = (visible, inline, count, signal, cut, middle, truncated, brief, named)
    templates.filters |= {function.__name__: function for function in filters}
    return templates


def stylesheet() -> str:
    """Return the style sheet of the parts. It follows the reader's light or dark setting, and is legible without
    color.
    """
    return STYLE.read_text()


def _finalize(value: Any) -> Any:
    """Convert every value of a template: None becomes empty, and text without markup is escaped too."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return shown(value, lines=True)
    return "" if value is None else value


def visible(text: str) -> Markup:
    """Escape a text of a log as HTML, with control and invisible characters shown as marked escapes."""
    pieces = []
    for line in str(text).splitlines(keepends=True):
        content = line.rstrip("\n")
        if shown(content, lines=True) == content:
            pieces.append(str(escape(line)))
        else:
            pieces.append("".join(map(_mark_character, content)) + line[len(content) :])
    return Markup("".join(pieces))  # noqa: S704 - each piece is escaped above


def _mark_character(character: str) -> str:
    seen = shown(character, lines=True)
    return str(escape(character)) if seen == character else f'<span class="unseen">{escape(seen)}</span>'


def inline(text: Any) -> str:
    """Return a text as one line, for titles and attributes; templates escape it on insertion."""
    return shown(str(text))


def cut(text: Any, most: int) -> str:
    """Cut a text to one line of at most so many characters."""
    line = inline(" ".join(str(text).split()))
    return line if len(line) <= most else line[: most - 1] + "…"


def middle(text: Any, most: int) -> str:
    """Cut a path or address in the middle to one line of at most so many characters, since its end identifies it."""
    line = inline(text)
    return line if len(line) <= most else f"{line[: most // 3]}…{line[len(line) - most + most // 3 + 1 :]}"


def truncated(text: str, most: int = 100_000) -> str:
    """Cut a text to at most so many characters, with a note about the rest."""
    return text if len(text) <= most else f"{text[:most]}\n… {len(text) - most:,} more characters"


def count(number: int) -> str:
    """Format a number with thousands separators."""
    return f"{number:,}"


def signal(number: float) -> str:
    """Format a number of a signal with at most six significant digits."""
    return f"{number:.6g}"


def brief(text: str | None) -> str:
    """Return an action's text without its name: the arguments of a call, or the text typed."""
    whole = text or ""
    called = _CALL.match(whole)
    return _END.sub("", whole[called.end() :]) if called else whole


def named(trajectory: Mapping[str, Any]) -> str:
    """Return a readable name for a trajectory of the index: its task, or else its log and native id."""
    if trajectory["instruction"] or trajectory["task"]:
        return str(trajectory["instruction"] or trajectory["task"])
    return (
        f"{trajectory['uri']} · {trajectory['native_id']}"
        if trajectory["native_id"] not in trajectory["uri"]
        else str(trajectory["uri"])
    )
