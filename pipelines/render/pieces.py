"""Pieces: the texts that turns are written of, by columns of transitions, each distinct one made once.

Judge counts their tokens, and samples are written by joining them, so that what a sample costs is a sum over what it
shows. The view is that of Qwen-AgentWorld (arXiv 2606.24597, §2), in the form of its benchmark.

A long observation is capped by one function for all that a model reads or predicts: head and tail stay, and a stated
marker says what is left out between them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.pipelines.render.edits import Edits, edit_of
from trajmill.pipelines.render.fences import block, put_in_fence
from trajmill.pipelines.render.fixed_texts import ACTION, COMMANDS, ending, format_words, time_limit
from trajmill.pipelines.render.native_actions import native_action
from trajmill.quality.control_strings import ESCAPABLE, escape
from trajmill.quality.fingerprint import struct_text
from trajmill.quality.texts import Texts

MARK: Final = "[... {:,} characters are left out here ...]"


def cap(text: str, most: int) -> str:
    """Cut the text to at most `most` characters beside the marker, half of them at either end.

    Args:
        text: what was observed.
        most: characters that stay, at least 2. A text that is shorter, or not longer than with a marker, stays whole.
    """
    left_out = len(text) - most
    if left_out <= 0:
        return text
    mark = f"\n{MARK.format(left_out)}\n"
    if left_out <= len(mark):
        return text
    head = most - most // 2
    return f"{text[:head]}{mark}{text[len(text) - most // 2 :]}"


Grammar: TypeAlias = Literal["call", "native"]

_LANGUAGES: Final[Mapping[str, str]] = {"os": "python"}
"""Domain → what its actions are written in where they are no calls."""


def shown_action(domain: str, text: str, edits: Edits = "call", grammar: Grammar = "call") -> str:
    """An action in its fences.

    Args:
        domain: of the transition.
        text: of the action.
        edits: `diff` shows an edit of a file as the call without what the diff below it says.
        grammar: `native` shows what the agents of the domain write, where the action can be said in it.
    """
    edit = edit_of(text) if edits == "diff" else None
    if edit is not None:
        return f"{block(edit.call)}\n{put_in_fence(edit.diff.removesuffix(chr(10)), 'diff')}"
    native = native_action(domain, text) if grammar == "native" else None
    if native is not None:
        return block(native.text) if native.language == "json" else put_in_fence(native.text, native.language)
    return block(text, _LANGUAGES.get(domain, "text"))


if TYPE_CHECKING:
    from trajmill.pipelines.recipe.recipe import Mix

Harness: TypeAlias = Literal["strip", "keep"]
Answers: TypeAlias = Literal["text", "envelope"]
Flags: TypeAlias = "npt.NDArray[np.bool_]"
Numbers: TypeAlias = "npt.NDArray[np.int64]"

USER_LEAVES: Final = ("domain", "action.text", "time_limit_s")
ANSWER_LEAVES: Final = ("domain", "next_observation.content", "exit_code", "timed_out")
"""Leaves of transitions that the two messages of a turn are made of, besides states, envelopes and words of others."""


@dataclass(frozen=True, slots=True)
class View:
    """Settings of how a recipe's samples show trajectories; see `recipe.Mix` for what each value means."""

    harness: Harness = "strip"
    edits: Edits = "call"
    actions: Grammar = "call"
    observation_chars: int | None = None
    mcp: Answers = "text"
    escapes: bool = False

    @classmethod
    def of(cls, mix: Mix) -> View:
        """That of a recipe."""
        escapes = mix.control_tokens == "escape"
        return cls(mix.harness, mix.edits, mix.actions, mix.observation_chars, mix.mcp, escapes)

    def capped(self, text: str) -> str:
        """A text of an observation, which is not too long."""
        return text if self.observation_chars is None else cap(text, self.observation_chars)

    def plain(self, text: str) -> str:
        """A text that is shown, without what tokenizers take for control tokens where these are escaped."""
        return escape(text) if self.escapes else text


def shown_actions(batch: pa.RecordBatch, view: View) -> Texts:
    """Format actions in their fences below the heading of actions."""
    domains, actions = Texts.of(batch["domain"]), Texts.of(struct_text(batch, "action", "text"))
    pairs, inverse = np.unique(domains.index * len(actions.texts) + actions.index, return_inverse=True)
    names, texts = domains.texts.to_pylist(), actions.texts.to_pylist()
    distinct = [(names[pair // len(texts)], texts[pair % len(texts)]) for pair in pairs.tolist()]
    return _texts(
        [ACTION + shown_action(*domain_and_text, view.edits, view.actions) for domain_and_text in distinct], inverse
    )


def time_limits(batch: pa.RecordBatch) -> Texts:
    """Format the time after which the harness kills what an action starts."""
    limits, inverse = np.unique(batch["time_limit_s"].to_numpy(zero_copy_only=False).astype(float), return_inverse=True)
    return _texts([time_limit(None if np.isnan(limit) else float(limit)) for limit in limits], inverse)


def interleaved_texts(batch: pa.RecordBatch, view: View) -> Texts:
    """Return the words of harness and user before an action; null where the view strips them or there are none."""
    if view.harness == "strip":
        return _texts([], np.full(batch.num_rows, -1))
    texts = Texts.of(batch["interleaved"])
    return texts.mapped(pa.array([format_words(text) for text in texts.texts.to_pylist()], pa.string()))


def endings(batch: pa.RecordBatch) -> Texts:
    """Format the line that tells how a command ended; empty in the domains whose actions are none."""
    codes = pc.fill_null(batch["exit_code"].cast(pa.int64()), _NO_CODE).to_numpy(zero_copy_only=False)
    late = pc.fill_null(batch["timed_out"], False).to_numpy(zero_copy_only=False)
    told_here = pc.is_in(batch["domain"].cast(pa.string()), pa.array(sorted(COMMANDS))).to_numpy(zero_copy_only=False)
    known, inverse = np.unique(np.where(told_here, np.where(late, _LATE, codes), _NO_CODE), return_inverse=True)
    return _texts([ending(None if code == _NO_CODE else code, code == _LATE) for code in known.tolist()], inverse)


_NO_CODE: Final = 1 << 40
_LATE: Final = _NO_CODE + 1
"""No exit codes: those of 32 bits are smaller."""


def _texts(texts: list[str], index: npt.NDArray[Any]) -> Texts:
    return Texts(pa.array(texts, pa.string()), index)


def observed_texts(batch: pa.RecordBatch, side: str, view: View) -> tuple[pa.Array, Flags]:
    """Return the text of each observation, or the object of MCP that it stood in, and whether it is the latter."""
    content = struct_text(batch, side, "content")
    envelope = struct_text(batch, side, "envelope") if view.mcp == "envelope" else None
    if envelope is None or envelope.null_count == len(envelope):
        return content, np.zeros(len(content), np.bool_)
    is_enveloped = pc.and_(envelope.is_valid(), content.is_valid())
    shown = pc.if_else(is_enveloped, envelope.cast(pa.string()), content.cast(pa.string()))
    return shown, is_enveloped.to_numpy(zero_copy_only=False)


def has_origin(batch: pa.RecordBatch, side: str, origin: str) -> Flags:
    """Flag the observations that are of an origin."""
    is_equal = pc.equal(struct_text(batch, side, "origin").cast(pa.string()), origin)
    flags: Flags = pc.fill_null(is_equal, False).to_numpy(zero_copy_only=False)
    return flags


def cap_texts(texts: pa.StringArray, view: View) -> pa.StringArray:
    """Cap texts of observations as they are shown; none is null."""
    most = view.observation_chars
    if most is None or not len(texts) or pc.max(pc.binary_length(texts)).as_py() <= most:  # none has more characters
        return texts
    long = pc.greater(pc.utf8_length(texts), most)
    cut = [view.capped(text) for text in texts.filter(long).to_pylist()]
    return pc.replace_with_mask(texts, long, pa.array(cut, pa.string())) if cut else texts


def plain_texts(texts: pa.StringArray, view: View, some: Flags | None = None) -> pa.StringArray:
    """Escape the control strings of texts where the view says so; `some` are those that may change, if known."""
    if not view.escapes:
        return texts
    escapable = pc.match_substring_regex(texts, ESCAPABLE) if some is None else pa.array(some)
    fresh = [view.plain(text) for text in texts.filter(escapable).to_pylist()]
    return pc.replace_with_mask(texts, escapable, pa.array(fresh, pa.string())) if fresh else texts


def spoken(texts: Texts, turn: Numbers, turns: Numbers) -> Mapping[int, str]:
    """Join the words of others before some turns, by the position of a turn among them.

    Args:
        texts: of rows, those of calls that are not shown too.
        turn: the turn of each row.
        turns: those that are asked for.
    """
    words_of_turn: dict[int, str] = {}
    words = texts.texts.to_pylist()
    for number, index in zip(turn.tolist(), texts.index.tolist(), strict=True):
        if index >= 0:
            words_of_turn[number] = words_of_turn.get(number, "") + words[index]
    return {
        position: words_of_turn[number] for position, number in enumerate(turns.tolist()) if words_of_turn.get(number)
    }
