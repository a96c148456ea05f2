"""Rules that check simulation instructions against the trajectory without a model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "search": ("document", "absence"),
    "terminal": ("content", "format", "failure", "silence"),
    "mcp": ("pagination", "partial_results", "injected_error", "content"),
}
"""Kinds of behavior that an instruction may ask for, by domain."""

_LEAST_CHARS, _MOST_CHARS = 20, 2_000
_COPIED_CHARS: Final = 120
"""Longest run of characters that an instruction may share with an observation."""

_ANSWER_CHARS: Final = 300
_TURN: Final = re.compile(r"\bturns? \d+(?:(?:,| and| to|-) ?\d+)*", re.IGNORECASE)
_QUOTED: Final = re.compile(r"`([^`\n]+)`|\"([^\"\n]+)\"|“([^”\n]+)”")
_LITERAL: Final = re.compile(
    r"\d[\d.,:]*\d"  # numbers of two digits or more
    r"|[\w.~-]*/[\w./~-]+"  # paths
    r"|\b\w[\w-]*\.(?!\d)\w{1,5}\b"  # names of files
    r"|\b\w+_\w+\b"  # identifiers
    r"|\b[a-z]+[A-Z]\w*\b"
)
_WORDS: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Logged:
    """Contents of a trajectory.

    Attributes:
        domain: Domain, a key of `KINDS`.
        task: Task of the agent; empty if the log does not contain it.
        answer: Final answer of the agent; empty if there is none.
        observations: Observation after each action.
    """

    trajectory_id: str
    domain: str
    task: str
    answer: str
    actions: tuple[str, ...]
    observations: tuple[str, ...]


class Draft(NamedTuple):
    """Instruction that a model proposes.

    Attributes:
        instruction: Text of the instruction; in search, the text besides the query, the answer and the clause on leaks.
        kinds: Kinds of behavior that the instruction asks for.
        quotes: (number of a turn from 1, quotation from that turn) for each control.
        query: Search query; empty outside search.
        answer: Answer to the query; empty outside search.
    """

    instruction: str
    kinds: tuple[str, ...]
    quotes: tuple[tuple[int, str], ...]
    query: str = ""
    answer: str = ""


def draft_in(values: Mapping[str, Any] | None) -> Draft | str:
    """Return the draft in a model's JSON; `unreadable`, or `nothing` where the model finds nothing to instruct."""
    if values is None or "instruction" not in values:
        return "unreadable"
    instruction, controls = values["instruction"], values.get("controls", [])
    if instruction is None:
        return "nothing"
    texts = instruction, values.get("query") or "", values.get("answer") or ""
    if not isinstance(controls, list) or not all(isinstance(text, str) for text in texts):
        return "unreadable"
    read = [_control(text) for text in controls]
    if not all(read):
        return "unreadable"
    kinds = tuple(dict.fromkeys(control[0] for control in read if control))
    fields = instruction.strip(), kinds, tuple((control[1], control[2]) for control in read if control)
    return Draft(*fields, *(text.strip() for text in texts[1:]))


def _control(value: Any) -> tuple[str, int, str] | None:
    if not isinstance(value, dict):
        return None
    kind, turn, quote = value.get("kind"), value.get("turn"), value.get("quote")
    if isinstance(kind, str) and type(turn) is int and isinstance(quote, str) and quote.strip():
        return kind, turn, quote.strip()
    return None


def fault_of(draft: Draft, logged: Logged) -> str:
    """Return the reason why a draft is not used; empty if no rule rejects it.

    `length`: The instruction is too short or too long. `kind`: It names no kind, or one that the domain lacks.
    `quote_absent`: A quotation is not in its turn. `mentions_absent`: It names something that the trajectory does not
    contain. `copies`: It repeats an observation.

    In search also `answer_unknown` (the answer is nowhere in the trajectory), `leaks_answer` (the answer is outside its
    own line) and `answer_shown_first` (the first result states the answer, so that no clause on leaks holds).
    """
    is_search = logged.domain == "search"
    if not (0 if is_search else _LEAST_CHARS) <= len(draft.instruction) <= _MOST_CHARS:
        return "length"
    if not set(draft.kinds) <= set(KINDS[logged.domain]) or not (draft.kinds or is_search):
        return "kind"
    if not all(_stands(turn, quote, logged) for turn, quote in draft.quotes):
        return "quote_absent"
    if next(_absent(draft.instruction, logged), None) is not None:
        return "mentions_absent"
    if any(_copies(draft.instruction, observation) for observation in logged.observations):
        return "copies"
    return _answer_fault(draft, logged) if is_search else ""


def _stands(turn: int, quote: str, logged: Logged) -> bool:
    if not 1 <= turn <= len(logged.actions):
        return False
    return _plain(quote) in _plain(logged.observations[turn - 1]) or _plain(quote) in _plain(logged.actions[turn - 1])


def _absent(instruction: str, logged: Logged) -> Iterator[str]:
    """Yield the names in an instruction that the trajectory lacks: quoted words, numbers, paths, identifiers."""
    text = _TURN.sub(" ", instruction)
    named = [next(filter(None, groups)) for groups in _QUOTED.findall(text)]
    named += [word.rstrip(".,:") for word in _LITERAL.findall(_QUOTED.sub(" ", text))]
    known_text = "\n".join(map(_plain, (logged.task, *logged.actions, *logged.observations)))
    yield from (name for name in named if _plain(name) not in known_text)


def _copies(instruction: str, observation: str) -> bool:
    begins = range(len(instruction) - _COPIED_CHARS)
    return any(instruction[begin : begin + _COPIED_CHARS] in observation for begin in begins)


def _answer_fault(draft: Draft, logged: Logged) -> str:
    if not draft.query or not draft.answer or len(draft.answer) > _ANSWER_CHARS or not _words(draft.answer).strip():
        return "answer_unknown"
    if not _holds((*logged.observations, *logged.actions, logged.answer), draft.answer):
        return "answer_unknown"
    if _holds((draft.instruction, draft.query), draft.answer):
        return "leaks_answer"
    return "answer_shown_first" if shown_at(draft.answer, logged) == 1 else ""


def shown_at(answer: str, logged: Logged) -> int | None:
    """Return the number of the first turn, from 1, whose observation states an answer; None if there is none."""
    numbers = (number for number, text in enumerate(logged.observations, 1) if _holds((text,), answer))
    return next(numbers, None)


def _holds(texts: Iterable[str], answer: str) -> bool:
    """Check whether a text contains the words of an answer in a row."""
    wanted = _words(answer)
    return any(wanted in _words(text) for text in texts)


def _words(text: str) -> str:
    return f" {' '.join(_WORDS.findall(text.casefold()))} "


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def compose_instruction(draft: Draft, logged: Logged) -> str:
    """Build the instruction of a draft; in search with query, answer and a clause on leaks that the log meets."""
    if logged.domain != "search":
        return draft.instruction
    turn = shown_at(draft.answer, logged)
    until = "No result" if turn is None else f"No result before turn {turn}"
    lines: Sequence[str] = (
        f"Target query: {draft.query}",
        f"Reference answer: {draft.answer}",
        f"{until} states the reference answer, and none says that it is one.",
        draft.instruction,
    )
    return "\n".join(line for line in lines if line)
