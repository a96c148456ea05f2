r"""Text that clients of agents write into what their agents are shown, as one table that every parser reads.

A row of `FORMS` names the client, the versions that write the form, the tools whose answers it stands in, the form as a
pattern, and its meaning. `[result-id: r7]` at the end of an answer of Claude Code 2.1.92 is a row, and so is what Codex
0.118 writes before the output of a command. Where a log does not tell client, version or tool, rows of all of them
count; rows of failed answers count only where the log says that an answer failed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, Literal

from trajmill.connectors.conversation.wrapped_output import Output, limit_of
from trajmill.connectors.reading.fields import INT32, whole_number_of
from trajmill.schemas.record import record

Meaning = Literal["before", "status", "behind", "empty", "user", "harness", "agent", "cut", "lost", "said"]
"""What a form says, and where it stands.

- `before`, `status`: at the beginning of an answer, how its command ended, by the groups `code` (exit status),
  `seconds` (that it took) and, of one that was killed, `limit_minutes`, `limit_seconds` or `limit_ms`; a `status` says
  no more.
- `behind`: the last line of an answer, which the client added.
- `empty`: the whole of an answer that had no output.
- `user`, `harness`, `agent`: at the beginning of an answer, who gave it: the person, the client, or a language model.
- `cut`, `lost`: anywhere, that the agent saw the answer cut, or that the log has lost what it saw.
- `said`: at the beginning of a text in a user's message, that the client put it there.
"""

CLAUDE_CODE: Final = "claude-code"
CODEX: Final = "codex"
GEMINI_CLI: Final = "gemini-cli"


@record
class Form:
    """A row of the table.

    Attributes:
        agent: the client.
        versions: that write it, both included, such as `2.1.90-` or `0.2-0.40`; empty for all.
        tools: whose answers it stands in; empty for all.
        pattern: the form.
        meaning: what it says.
        failed: whether it stands in failed answers alone; False: in none of them; null: in any.
    """

    agent: str
    versions: str
    tools: frozenset[str]
    pattern: re.Pattern[str]
    meaning: Meaning
    failed: bool | None = None


def _form(
    agent: str, versions: str, tools: str, pattern: str, meaning: Meaning, *, failed: bool | None = None, flags: int = 0
) -> Form:
    return Form(agent, versions, frozenset(tools.split()), re.compile(pattern, flags), meaning, failed)


_ANY: Final = ""
_CODEX_CUT: Final = (
    r"^\[\.\.\. (?:omitted \d+ of \d+ lines|output truncated to fit \d+ bytes) \.\.\.\]$"
    r"|…\d+ (?:tokens|chars|bytes) truncated…"
)
_UNIFIED: Final = (
    r"(?:Chunk ID: [^\n]{0,80}\n)?Wall time: (?P<seconds>[\d.]{1,20}) seconds\n"
    r"(?:Process exited with code (?P<code>-?\d{1,10})\n)?(?:Process running with session ID [^\n]{1,80}\n)?"
    r"(?:Original token count: \d+\n)?(?:Total output lines: \d+\n)?Output:(?:\n|\Z)"
)
_SHELLS: Final = "Bash PowerShell"

FORMS: Final = (
    # Claude Code: what it adds to answers.
    _form(CLAUDE_CODE, "2.1.90-", _ANY, r"\[result-id: r\d+\]", "behind"),
    _form(CLAUDE_CODE, "2.1.90-", _SHELLS, r"\[rerun: b\d+\]", "behind"),
    _form(CLAUDE_CODE, _ANY, _SHELLS, r"Shell cwd was reset to [^\n]{1,4096}", "behind"),
    _form(CLAUDE_CODE, _ANY, _SHELLS, r"\((?:Bash|PowerShell) completed with no output\)", "empty"),
    _form(
        CLAUDE_CODE, _ANY, _SHELLS, r"(?:Error: )?Exit code (?P<code>\d{1,10})(?!\d)(?:\n|\Z)", "status", failed=True
    ),
    _form(
        CLAUDE_CODE,
        _ANY,
        _SHELLS,
        r"Command timed out after (?:(?P<limit_minutes>\d{1,4})m )?(?P<limit_seconds>\d{1,6}(?:\.\d{1,3})?)s(?:\n|\Z)",
        "status",
        failed=True,
    ),
    # Claude Code: answers that are not the tool's own.
    _form(
        CLAUDE_CODE,
        _ANY,
        _ANY,
        r"(?:<tool_use_error>)?(?:The user doesn't want to (?:proceed with this tool use|take this action right now)"
        r"|\[Request interrupted by user)",
        "user",
        failed=True,
    ),
    _form(
        CLAUDE_CODE,
        _ANY,
        _ANY,
        r"(?:<tool_use_error>)?(?:InputValidationError|Error: No such tool available|Sibling tool call errored"
        r"|Cancelled: parallel tool call|File has not been read yet|Claude requested permissions to |Permission to "
        r"|This command requires approval|PreToolUse:|\[Tool result missing due to internal error\])",
        "harness",
        failed=True,
    ),
    _form(CLAUDE_CODE, _ANY, "Read", r"File unchanged since last read\. The content from the earlier ", "harness"),
    _form(CLAUDE_CODE, "2.1.90-", _ANY, r"<identical to result \[r\d+\] from your [^\n]{1,200}>\Z", "harness"),
    _form(CLAUDE_CODE, _ANY, "WebFetch", r"REDIRECT DETECTED: ", "harness"),
    _form(CLAUDE_CODE, _ANY, "WebFetch", r"(?!REDIRECT DETECTED: )", "agent", failed=False),
    # Claude Code: answers of which a part is missing.
    _form(CLAUDE_CODE, _ANY, _ANY, r"\.\.\. \[\d+ (?:lines|characters) truncated\] \.\.\.", "cut"),
    _form(
        CLAUDE_CODE,
        _ANY,
        _ANY,
        r"(?:\(Results are truncated\. Consider using a more specific path or pattern\.\)|</persisted-output>)\Z",
        "cut",
    ),
    _form(CLAUDE_CODE, _ANY, _ANY, r"\A\[Old tool result content cleared\]\Z", "lost"),
    # Claude Code: what it puts into a user's message.
    _form(
        CLAUDE_CODE,
        _ANY,
        _ANY,
        r"<(?:command-name|command-message|command-args|bash-input|bash-stdout|bash-stderr|task-notification"
        r"|user-prompt-submit-hook|user-memory-input|new-diagnostics)>|<local-command-|<teammate-message|<agent-message"
        r"|\[Request interrupted by user|\[SYSTEM NOTIFICATION|Stop hook feedback:"
        r"|Caveat: The messages below were generated by the user while running local commands"
        r"|This session is being continued from a previous conversation",
        "said",
    ),
    # Codex: what it writes before the output of a command (codex-rs/core/src/tools).
    _form(
        CODEX,
        _ANY,
        _ANY,
        r"Exit code: (?P<code>-?\d{1,10})\nWall time: (?P<seconds>[\d.]{1,20}) seconds\n(?:Total output lines: \d+\n)?"
        r"Output:(?:\n|\Z)",
        "before",
    ),
    _form(CODEX, _ANY, _ANY, _UNIFIED, "before"),
    _form(CODEX, "0.118-", _ANY, r"Command: (?s:.{1,65536}?)\n(?=Chunk ID: |Wall time: )" + _UNIFIED, "before"),
    _form(CODEX, _ANY, _ANY, rf"Total output lines: \d+\n\n(?=(?s:.*?)(?:{_CODEX_CUT}))", "before", flags=re.M),
    _form(CODEX, _ANY, _ANY, r"command timed out after (?P<limit_ms>[0-9]{1,10}) milliseconds(?:\n|\Z)", "before"),
    # Codex: answers that are not the tool's own, or of which a part is missing.
    _form(
        CODEX,
        _ANY,
        _ANY,
        r"exec command rejected by user|patch rejected by user|rejected by user|aborted(?: |\Z)"
        r"|user rejected MCP tool call",
        "user",
    ),
    _form(
        CODEX,
        _ANY,
        _ANY,
        r"unsupported call: |unsupported custom tool call|failed to parse (?:function|tool) arguments"
        r"|approval policy is |approval required by policy|(?:exec command|patch|command) rejected: |tool call error: "
        r"|This action was rejected due to unacceptable risk",
        "harness",
    ),
    _form(CODEX, _ANY, _ANY, _CODEX_CUT, "cut", flags=re.M),
    # Codex: what it puts into a user's message.
    _form(
        CODEX,
        _ANY,
        _ANY,
        r"<(?:user_instructions|environments?_context|permissions instructions|collaboration_mode|turn_aborted"
        r"|user_shell_command|subagent_notification|skill|INSTRUCTIONS)>|<hook_prompt|# AGENTS\.md instructions for "
        r"|Warning: The maximum number of unified exec processes",
        "said",
    ),
    # Gemini CLI.
    _form(GEMINI_CLI, _ANY, "web_fetch", r"", "agent", failed=False),
    _form(
        GEMINI_CLI,
        _ANY,
        _ANY,
        r"\[Operation Cancelled\]|User did not allow tool call|Operation cancelled by user",
        "user",
        failed=True,
    ),
    _form(
        GEMINI_CLI,
        _ANY,
        _ANY,
        r"params must |params/|Invalid parameters|Tool execution denied by policy|Tool execution for "
        r'|Tool "[^"\n]{1,200}" not found',
        "harness",
        failed=True,
    ),
    _form(
        GEMINI_CLI,
        _ANY,
        _ANY,
        r"^(?:IMPORTANT: The file content has been truncated|Tool output was too large and has been truncated)"
        r"|\.\.\. ?\[?\d* ?(?:lines|characters)? ?(?:truncated|omitted)\]? ?\.\.\.",
        "cut",
        flags=re.M,
    ),
    _form(
        GEMINI_CLI,
        _ANY,
        _ANY,
        r"<session_context>|<state_snapshot>|<hook_context>|<compression"
        r"|This is the Gemini CLI\. We are setting up the context for our chat\.",
        "said",
    ),
)

_MISSING: Final = ("truncated", "omitted", "</persisted-output>", "cleared]")
"""Words of which each form that says that something is missing has one: most answers have none."""

_LONGEST_SECONDS: Final = 1e9


@record
class Source:
    """Who wrote a text: client, its version and the tool that answered; null where the log does not tell.

    `failed` says whether the log marks the answer as failed.
    """

    agent: str | None = None
    version: str | None = None
    tool: str | None = None
    failed: bool = False


ANYONE: Final = Source()

CLAUDE_CODE_TOOLS: Final = frozenset().union(*(form.tools for form in FORMS if form.agent == CLAUDE_CODE))
"""Tools that the table names of Claude Code, by which its answers are known in logs that do not name the client."""


@lru_cache(4096)
def forms(source: Source, *meanings: Meaning) -> tuple[Form, ...]:
    """The rows of these meanings that may count for a text of that source."""
    return tuple(
        form
        for form in FORMS
        if form.meaning in meanings
        and source.agent in (None, form.agent)
        and (not form.tools or source.tool is None or source.tool in form.tools)
        and form.failed in (None, source.failed)
        and _is_within(source.version, form.versions)
    )


def _is_within(version: str | None, versions: str) -> bool:
    """Whether a version is one of a range; of one that is not told, or is no number, it may be."""
    known = _numbers(version or "")
    first, _, last = versions.partition("-")
    low, high = _numbers(first), _numbers(last)
    return not known or (low <= known and (not high or known[: len(high)] <= high))


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"\d{1,9}(?:\.\d{1,9}){0,3}", version, re.ASCII)
    return tuple(map(int, found[0].split("."))) if found is not None else ()


def headed(text: str, source: Source) -> Output:
    """What an answer holds without the client's words before it, each form once, and how its command ended by these."""
    told, met = Output(text), set[Form]()
    while True:
        found = ((form, match) for form, match in _matches(text, source, "before", "status") if form not in met)
        form, match = next(found, (None, None))
        if form is None or match is None:
            return told
        met.add(form)
        text = text[match.end() :]
        told = replace(told, text=text, **_ending(match.groupdict()))
        if form.meaning == "before":
            told = replace(told, notes=(*told.notes, match[0].rstrip("\n")))


def _ending(groups: Mapping[str, str | None]) -> dict[str, Any]:
    """The members of an output that the groups of a form tell."""
    told: dict[str, Any] = {}
    if (code := groups.get("code")) is not None:
        told["exit_code"] = signed(int(code))
    if (seconds := _number(groups.get("seconds"))) is not None:
        told["seconds"] = seconds
    given = [_number(groups.get(f"limit_{unit}")) for unit in ("minutes", "seconds", "ms")]
    if any(number is not None for number in given):
        minutes, seconds, thousandths = (number or 0.0 for number in given)
        told |= {"killed": True, "limit": limit_of(60 * minutes + seconds + thousandths / 1000)}
    return told


def _number(digits: str | None) -> float | None:
    try:
        number = float(digits or "")
    except ValueError:
        return None
    return number if number < _LONGEST_SECONDS else None


def signed(code: int | None) -> int | None:
    """An exit status as signed 32 bits, as which Windows means it; None of what is none."""
    return whole_number_of(code - 2**32 if code is not None and 2**31 <= code < 2**32 else code, INT32)


def _matches(text: str, source: Source, *meanings: Meaning) -> Iterator[tuple[Form, re.Match[str]]]:
    return ((form, found) for form in forms(source, *meanings) if (found := form.pattern.match(text)) is not None)


def line_behind(text: str, end: int, source: Source) -> int:
    """Where the line begins that the client added to an answer as its last, before `end`; -1 if it added none."""
    start = text.rfind("\n", 0, end) + 1
    line = any(form.pattern.fullmatch(text, start, end) for form in forms(source, "behind"))
    return start if line else -1


def is_empty(text: str, source: Source) -> bool:
    """Whether an answer is the client's words for one without output."""
    return any(form.pattern.fullmatch(text) for form in forms(source, "empty"))


def speaker(text: str, source: Source) -> str | None:
    """Who gave an answer, if it was not the tool: `user`, `harness` or `agent`."""
    return next((form.meaning for form, _ in _matches(text, source, "user", "harness", "agent")), None)


def truncation(text: str, source: Source) -> str:
    """`harness` where the agent saw an answer cut, `recorder` where the log has lost what it saw, else `none`."""
    if not any(word in text for word in _MISSING):
        return "none"
    found = {form.meaning for form in forms(source, "cut", "lost") if form.pattern.search(text)}
    return "recorder" if "lost" in found else "harness" if found else "none"


def is_clients(text: str, agent: str) -> bool:
    """Whether a text in a user's message is the client's as a whole."""
    return next(_matches(text.lstrip(), Source(agent), "said"), None) is not None
