r"""Text that clients of agents write into what their agents are shown, as one table that every parser reads.

A line of `harness_text.tsv` names the client, the versions that write the form, the tools whose answers it stands in,
whether these failed, its meaning, and the form as a pattern. `[result-id: r7]` at the end of an answer of Claude Code
2.1.92 is a line, and so is what Codex 0.118 writes before the output of a command. Where a log does not tell client,
version or tool, lines of all of them count; lines of failed answers count only where it says that an answer failed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from importlib.resources import files
from itertools import chain, islice
from typing import Any, Final, Literal, NamedTuple, cast, get_args

from trajmill.connectors.conversation.wrapped_output import Output, limit_of, output_object, unwrap
from trajmill.connectors.reading.fields import INT32, whole_number_of
from trajmill.schemas import Observation, Step, Steps, Trajectory
from trajmill.schemas.record import record

Meaning = Literal[
    "before", "status", "after", "behind", "empty", "user", "harness", "agent", "cut", "lost", "said", "tag"
]
r"""The meaning of a form, and its place.

- `before`, `after`: at the beginning of an answer, or its last lines. The groups of the pattern tell how its command
  ended: `code` (exit status), `success` (0), `seconds` (that it took), `folder` (where its shell stands) and, of one
  that was killed, `killed`, `limit_minutes`, `limit_seconds` or `limit_ms`. Groups `output`, `stderr` and `error` are
  what it put out; `cut` stands where a part of that is left out, `unknown` where it is not told. Groups `note` and
  `note2` are the words that the agent read, of a form that has them; of others all of it is.
- `status`: as `before`, but no more than the groups say.
- `behind`: the last line of an answer, which the client added.
- `empty`: the whole of an answer that had no output.
- `user`, `harness`, `agent`: at the beginning of an answer, who gave it: the person, the client, or a language model;
  `\A` is in any answer, and says who answers these tools.
- `cut`, `lost`: anywhere, that the agent saw the answer cut, or that the log has lost what it saw.
- `said`: at the beginning of a text in a user's message, that the client put it there; a group `user` is what the user
  said behind it, a group `note` what the client said.
- `tag`: the names of tags in which the client puts what it adds to the ends of an answer or to a user's message.
"""

CLAUDE_CODE: Final = "claude-code"
CODEX: Final = "codex"
GEMINI_CLI: Final = "gemini-cli"
PYDANTIC_AI: Final = "pydantic-ai"

ANY: Final = "*"

_ANSWERS: Final = {"any": None, "failed": True, "good": False}


@record
class Form:
    """Line of the table.

    Attributes:
        agent: Client; `*` means any.
        versions: Versions that write the form, inclusive, such as `2.1.90-` or `0.2-0.40`; empty for all.
        tools: Tools whose answers contain the form; empty for all.
        failed: True if only failed answers contain the form; False: only successful ones; null: any.
        meaning: Meaning of the form.
        pattern: Pattern of the form.
    """

    agent: str
    versions: str
    tools: frozenset[str]
    failed: bool | None
    meaning: Meaning
    pattern: re.Pattern[str]


def read_forms(text: str) -> tuple[Form, ...]:
    """Return the lines of a table in their order; a column of `-` is empty."""
    rows = []
    for line in text.splitlines():
        if line and not line.startswith("#"):
            agent, versions, tools, answers, meaning, pattern = line.split("\t")
            if meaning not in get_args(Meaning):
                raise ValueError(f"harness_text.tsv has a meaning '{meaning}'")
            named = frozenset() if tools == "-" else frozenset(tools.split())
            cells = (agent, versions.strip("-") and versions, named, _ANSWERS[answers], cast("Meaning", meaning))
            rows.append(Form(*cells, re.compile(pattern)))
    return tuple(rows)


FORMS: Final = read_forms((files(__package__) / "harness_text.tsv").read_text("utf-8"))

_MISSING: Final = (
    "truncated",
    "Truncated at",
    "omitted",
    "</persisted-output>",
    "cleared]",
    "cold storage]",
    "clipped>",
    " elided",
    "[trimmed",
    "_masked>",
    " capped at",
    "[Showing lines",
)
"""Words, as they stand in the patterns, of which every form for missing text contains at least one.

Most answers contain none.
"""

_RARE: Final = "T_<>[]"
"""Characters of these words, from the most frequent to the rarest in answers."""

_LONGEST_SECONDS: Final = 1e9

_SPEAKERS: Final[tuple[Meaning, ...]] = ("user", "harness", "agent")
_OUT_OF_TIME: Final = 124
"""Exit status that clients report for a command that they killed."""

_TAGGED: Final = re.compile(r"(?:Output too large\. Showing first [^\n]{1,5000}\n)?<untrusted_context>\n")
"""Beginning of a text between the tags of Gemini CLI, which escapes the closing ones in what it puts between them."""

_MOST_LINES: Final = 10
"""Largest number of lines of a form after an answer, and of forms that are looked for there."""


class Source(NamedTuple):
    """Writer of a text: the client, its version and the tool that answered; null where the log does not name them.

    `failed` is True if the log marks the answer as failed.
    """

    agent: str | None = None
    version: str | None = None
    tool: str | None = None
    failed: bool = False


ANYONE: Final = Source()

_ALWAYS: Final = r"\A"
CLAUDE_CODE_TOOLS: Final = frozenset().union(
    *(form.tools for form in FORMS if form.agent == CLAUDE_CODE and form.pattern.pattern != _ALWAYS)
)
"""Tools of Claude Code in the table, which identify its answers in logs that do not name the client."""


@lru_cache(4096)
def forms(source: Source, *meanings: Meaning) -> tuple[Form, ...]:
    """Return the rows of these meanings that may apply to a text of that source."""
    return tuple(
        form
        for form in FORMS
        if form.meaning in meanings
        and (source.agent in (None, form.agent) or form.agent == ANY)
        and (not form.tools or source.tool is None or source.tool in form.tools)
        and form.failed in (None, source.failed)
        and _is_within(source.version, form.versions)
    )


def _is_within(version: str | None, versions: str) -> bool:
    """Check whether a version is in a range; an unknown version, or one that is no number, counts as in it."""
    known = _numbers(version or "")
    first, _, last = versions.partition("-")
    low, high = _numbers(first), _numbers(last)
    return not known or (low <= known and (not high or known[: len(high)] <= high))


def _numbers(version: str) -> tuple[int, ...]:
    match = re.match(r"\d{1,9}(?:\.\d{1,9}){0,3}", version, re.ASCII)
    return tuple(map(int, match[0].split("."))) if match is not None else ()


def read_output(text: str | None, source: Source) -> Output:
    """Return an answer without the client's words before and after it, and the outcome of its command in these
    words.
    """
    if not text:
        return Output(text)
    is_object = source.agent == CODEX or (source.agent is None and '"exit_code"' in text)
    output = unwrap(text) if source.agent is None else None
    output = output or (output_object(text) if is_object else None) or Output(without_tags(text, source.agent))
    rest, patterns = output.text, _patterns(source)
    heads: list[str] = []
    tails: list[str] = []
    ending: dict[str, Any] = {}
    if rest is not None and patterns.before is not None and patterns.before.match(rest) is not None:
        rest, heads, ending = _without_heads(rest, source)
    if rest and patterns.after is not None:
        rest, tails, late = _without_tails(rest, source)
        ending |= late
    has_none = bool(rest) and is_empty(rest or "", source)
    if not ending and rest == output.text and not has_none:
        return output
    rest = "" if has_none else rest
    code = ending.pop("exit_code", output.exit_code)
    killed = "killed" in ending and code == _OUT_OF_TIME
    return replace(
        output, text=rest, exit_code=None if killed else code, notes=(*output.notes, *heads, *tails), **ending
    )


def without_tags(text: str, agent: str | None) -> str:
    """Return an answer of Gemini CLI without the tags around what each tool put out."""
    if agent not in (None, GEMINI_CLI) or _TAGGED.match(text) is None:
        return text
    *tagged, rest = text.split("\n</untrusted_context>")
    shown = "".join(piece.replace("<untrusted_context>\n", "", 1) for piece in tagged)
    return shown.replace("&lt;/untrusted_context&gt;", "</untrusted_context>") + rest


def _without_heads(text: str | None, source: Source) -> tuple[str | None, list[str], dict[str, Any]]:
    """Return an answer without the forms before it, the words of these forms, and the output members in them.

    Each form is removed once.
    """
    notes: list[str] = []
    ending: dict[str, Any] = {}
    met: set[Form] = set()
    screen = _patterns(source).before
    while text is not None and screen is not None and screen.match(text):
        unmet = ((form, match) for form, match in _matches(text, source, "before", "status") if form not in met)
        form, match = next(unmet, (None, None))
        if form is None or match is None:
            break
        met.add(form)
        ending |= _ending(match)
        notes += _notes(match) if form.meaning == "before" else ()
        text = None if "unknown" in match.re.groupindex else _put_out(match) + text[match.end() :]
    return text, notes, ending


def _without_tails(text: str | None, source: Source) -> tuple[str | None, list[str], dict[str, Any]]:
    """Return an answer without the forms after it, as in `_without_heads`; the last form takes precedence."""
    notes: list[str] = []
    ending: dict[str, Any] = {}
    while text and len(notes) < _MOST_LINES and (match := _last(text, source)) is not None:
        notes[:0] = _notes(match)
        ending = _ending(match) | ending
        before = text[: match.start()]
        text = before + _put_out(match) if "output" in match.re.groupindex else before.rstrip("\n")
    return text, notes, ending


def _last(text: str, source: Source) -> re.Match[str] | None:
    """Return the match of a form that begins in one of the last lines of a text and ends with the text."""
    patterns = _patterns(source)
    screen = patterns.after
    start = end = len(text.rstrip()) if screen is not None else 0
    for _ in range(_MOST_LINES):
        if screen is None:
            break
        start = text.rfind("\n", 0, start) + 1
        if screen.fullmatch(text, start, end):
            matches = (form.pattern.fullmatch(text, start, end) for form in forms(source, "after"))
            return next(match for match in matches if match is not None)
        if not start:
            break
        start, screen = start - 1, patterns.after_in_lines
    return None


@record
class _Patterns:
    """Forms of a source by their place, each as one pattern, since most answers contain none; null without forms.

    Attributes:
        after_in_lines: Forms after an answer that have several lines.
    """

    speakers: re.Pattern[str] | None
    before: re.Pattern[str] | None
    after: re.Pattern[str] | None
    after_in_lines: re.Pattern[str] | None
    behind: re.Pattern[str] | None
    empty: re.Pattern[str] | None


@lru_cache(4096)
def _patterns(source: Source) -> _Patterns:
    return _Patterns(
        _any_of(source, *_SPEAKERS),
        _any_of(source, "before", "status"),
        _any_of(source, "after"),
        _any_of(source, "after", lines=True),
        _any_of(source, "behind"),
        _any_of(source, "empty"),
    )


def _any_of(source: Source, *meanings: Meaning, lines: bool = False) -> re.Pattern[str] | None:
    """Return the forms as one pattern; null without forms.

    With `lines`, only forms of several lines count.
    """
    texts = [form.pattern.pattern for form in forms(source, *meanings)]
    chosen = [re.sub(r"\?P<\w+>", "?:", text) for text in texts if not lines or r"\n" in text]
    return re.compile("|".join(chosen)) if chosen else None


def _notes(match: re.Match[str]) -> list[str]:
    """Return the client's words in a form: its groups `note` and `note2`, or the whole form without these groups."""
    named = [name for name in match.re.groupindex if name.startswith("note")]
    return [match[name] for name in named if match[name]] if named else [match[0].strip("\n")]


def _put_out(match: re.Match[str]) -> str:
    """Return the output of a command within a form, with each stream on lines of its own."""
    groups, text = match.groupdict(), ""
    for stream in (groups.get("output"), groups.get("stderr"), groups.get("error")):
        text += f"\n{stream}" if stream and text and not text.endswith("\n") else stream or ""
    return text


def _ending(match: re.Match[str]) -> dict[str, Any]:
    """Return the output members in the groups of a form."""
    groups = match.groupdict()
    members: dict[str, Any] = {}
    if (code := groups.get("code")) is not None:
        members["exit_code"] = to_signed(int(code))
    elif groups.get("success") is not None:
        members["exit_code"] = 0
    if (seconds := _number(groups.get("seconds"))) is not None:
        members["seconds"] = seconds
    if (folder := groups.get("folder")) is not None:
        members["folder"] = folder
    if groups.get("cut") is not None:
        members["cut"] = True
    limits = [_number(groups.get(f"limit_{unit}")) for unit in ("minutes", "seconds", "ms")]
    if any(number is not None for number in limits) or groups.get("killed") is not None:
        minutes, seconds, thousandths = (number or 0.0 for number in limits)
        members |= {"killed": True, "limit": limit_of(60 * minutes + seconds + thousandths / 1000)}
    return members


def _number(digits: str | None) -> float | None:
    if not digits:
        return None
    try:
        number = float(digits)
    except ValueError:
        return None
    return number if number < _LONGEST_SECONDS else None


def to_signed(code: int | None) -> int | None:
    """Convert an exit status to signed 32 bits, the form of Windows; None if it does not fit."""
    return whole_number_of(code - 2**32 if code is not None and 2**31 <= code < 2**32 else code, INT32)


def _matches(text: str, source: Source, *meanings: Meaning) -> Iterator[tuple[Form, re.Match[str]]]:
    return ((form, match) for form in forms(source, *meanings) if (match := form.pattern.match(text)) is not None)


def line_behind(text: str, end: int, source: Source) -> int:
    """Return the start of the last line before `end` if the client added it to the answer; otherwise -1."""
    line = _patterns(source).behind
    start = text.rfind("\n", 0, end) + 1 if line is not None else -1
    return start if line is not None and line.fullmatch(text, start, end) else -1


def asks_to_retry(text: str) -> bool:
    """Check if a text is what Pydantic AI writes two lines behind an answer, so that the agent tries again."""
    forms_behind = (form for form in FORMS if form.agent == PYDANTIC_AI and form.meaning == "after")
    return any(form.pattern.fullmatch(text) for form in forms_behind)


def is_empty(text: str, source: Source) -> bool:
    """Check whether an answer consists of the client's words for an empty output."""
    words = _patterns(source).empty
    return words is not None and words.fullmatch(text) is not None


def speaker(text: str, source: Source) -> str | None:
    """Return who gave an answer other than the tool: `user`, `harness` or `agent`; None for the tool."""
    screen = _patterns(source).speakers
    if screen is None or screen.match(text) is None:
        return None
    return next(form.meaning for form, _ in _matches(text, source, *_SPEAKERS))


def truncation(text: str, source: Source) -> str:
    """Return `harness` if the agent saw a cut answer, `recorder` if the log lost a part of it, otherwise `none`."""
    for mark, word in _words_for_missing(source):
        if mark in text and word in text:
            break
    else:
        return "none"
    meanings = {form.meaning for form in forms(source, "cut", "lost") if form.pattern.search(text)}
    return "recorder" if "lost" in meanings else "harness" if meanings else "none"


@lru_cache(4096)
def _words_for_missing(source: Source) -> tuple[tuple[str, str], ...]:
    """Return the words of `_MISSING` in the forms for missing text that may apply to a text of that source.

    Each follows one of its characters, which is found much faster and missing from most texts.
    """
    texts = [re.sub(r"\\(\W)", r"\1", form.pattern.pattern) for form in forms(source, "cut", "lost")]
    words = (word for word in _MISSING if any(word in text for text in texts))
    return tuple((max(word, key=_RARE.find), word) for word in words)


def is_clients(text: str, agent: str) -> bool:
    """Check whether a text in a user's message begins with the client's words."""
    return next(_matches(text.lstrip(), Source(agent), "said"), None) is not None


def voices(text: str, agent: str) -> Iterator[tuple[str, str]]:
    """Yield (`user` or `harness`, text) of each piece of a text in a user's message, without blank pieces."""
    _, match = next(_matches(text.lstrip(), Source(agent), "said"), (None, None))
    pieces = [("user" if match is None else "harness", text)]
    if match is not None and "user" in match.re.groupindex:
        pieces = [("harness", match["note"].rstrip()), ("user", match["user"].strip())]
    yield from ((role, piece) for role, piece in pieces if piece and not piece.isspace())


def split_by_twin(text: str, twin: str | None) -> tuple[str, tuple[str, ...]]:
    """Return the output of a command in an answer, and the lines around it in order.

    Args:
        text: Answer.
        twin: Output of the command without the client's words, if the log repeats it; null otherwise. An answer that
            does not contain it exactly once, as whole lines, is not changed.
    """
    put_out = (twin or "").strip("\n")
    at = text.find(put_out) if twin is not None and put_out != text.strip("\n") else -1
    if at < 0 or (put_out and text.find(put_out, at + 1) >= 0):
        return text, ()
    before, behind = (text[:at], text[at + len(put_out) :]) if put_out else (text, "")
    if (before and put_out and not before.endswith("\n")) or (behind and not behind.startswith("\n")):
        return text, ()
    return put_out, tuple(part for side in (before, behind) if (part := side.strip("\n")) and not part.isspace())


def put_out(result: Mapping[str, Any]) -> str | None:
    """Return the output of a shell in Claude Code's `toolUseResult`; null if it is missing or its command was
    stopped.
    """
    streams = [result.get("stdout"), result.get("stderr", "")]
    known = all(isinstance(stream, str) for stream in streams) and result.get("interrupted") is not True
    return "\n".join(filter(None, streams)) if known else None


@cache
def tools_of_others(agent: str = ANY) -> frozenset[str]:
    """Return the tools that the user, the client or a language model answers; by default those of any client."""
    always = (form for form in FORMS if form.agent in (agent, ANY) and form.pattern.pattern == _ALWAYS)
    return frozenset().union(*(form.tools for form in always))


def strip_forms(trajectory: Trajectory, client: str | None = None) -> Trajectory:
    """Return the trajectory without the client's words in the environment's answers, and with the origin of each
    answer.

    Args:
        trajectory: Trajectory whose answers are the environment's unless another origin is known.
        client: Client whose forms apply; by default the trajectory's agent.
    """
    kind = list if isinstance(trajectory.steps, list) else Steps
    source = Source(client or trajectory.agent.name or ANY, trajectory.agent.version)
    stripped = _strip_forms(trajectory.steps, source)
    for position, (before, after) in enumerate(zip(trajectory.steps, stripped, strict=True)):
        if after is not before:
            unchanged = islice(trajectory.steps, position)
            return replace(trajectory, steps=kind(chain(unchanged, [after], stripped)))
    return trajectory


def _strip_forms(steps: Iterable[Step], client: Source) -> Iterator[Step]:
    before: tuple[Observation | None, Observation | None] = (None, None)
    for step in steps:
        after, code = _strip_observation(step.next_observation, client, step.action.name)
        is_changed = before[1] is not before[0] and step.observation == before[0]
        seen = before[1] if is_changed else step.observation
        before = step.next_observation, after
        if after is not step.next_observation or seen is not step.observation:
            code = step.exit_code if step.exit_code is not None else code
            yield replace(step, observation=seen, next_observation=after, exit_code=code)
        else:
            yield step


def _strip_observation(after: Observation | None, client: Source, tool: str) -> tuple[Observation | None, int | None]:
    """Return a tool's observation without the client's words, and the exit status in these words."""
    if after is None or after.origin != "environment":
        return after, None
    text = after.content or ""
    source = Source(client.agent, client.version, tool, after.is_error is True)
    if (who := speaker(text, source)) is not None:
        return replace(after, origin=who), None
    output = read_output(text, source)
    cut = after.truncation
    if cut == "none":
        cut = "harness" if output.cut else truncation(output.text or "", source)
    if output.text == text and cut == after.truncation:
        return after, output.exit_code
    return replace(after, content=output.text, truncation=cut), output.exit_code
