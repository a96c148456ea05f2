"""Text pieces of turns, computed from columns of transitions. Each distinct piece is made once.

The judge stage counts their tokens, and samples join them, so that the cost of a sample is a sum over its pieces. The
view is that of Qwen-AgentWorld (arXiv 2606.24597, §2), in the form of its benchmark.

One function caps every long observation that a model reads or predicts: head and tail stay, with a marker of the
omitted length between them.
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
    """Cut the text to at most `most` characters besides the marker, half of them at either end.

    Args:
        most: largest number of characters, at least 2. A text stays whole if cutting would not shorten it.
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
"""Domain → language of its actions where they are not calls."""


def shown_action(domain: str, text: str, edits: Edits = "call", grammar: Grammar = "call") -> str:
    """Format an action in its fences.

    Args:
        edits: `diff` shows a file edit as a diff, below the call without the edited texts.
        grammar: `native` shows the grammar of the domain's agents, where it can express the action.
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
"""Leaves of transitions that the two messages of a turn contain, besides states, envelopes and words of others."""


@dataclass(frozen=True, slots=True)
class View:
    """Settings of how samples show trajectories; see `recipe.Mix` for the values."""

    harness: Harness = "strip"
    edits: Edits = "call"
    actions: Grammar = "call"
    observation_chars: int | None = None
    mcp: Answers = "text"
    escapes: bool = False

    @classmethod
    def of(cls, mix: Mix) -> View:
        """Return the view of a recipe."""
        escapes = mix.control_tokens == "escape"
        return cls(mix.harness, mix.edits, mix.actions, mix.observation_chars, mix.mcp, escapes)

    def capped(self, text: str) -> str:
        """Return a text of an observation, capped at the view's length."""
        return text if self.observation_chars is None else cap(text, self.observation_chars)

    def plain(self, text: str) -> str:
        """Return a text as shown: with its control tokens escaped, if the view says so."""
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
    """Format the time after which the harness kills the processes of an action."""
    limits, inverse = np.unique(batch["time_limit_s"].to_numpy(zero_copy_only=False).astype(float), return_inverse=True)
    return _texts([time_limit(None if np.isnan(limit) else float(limit)) for limit in limits], inverse)


def interleaved_texts(batch: pa.RecordBatch, view: View) -> Texts:
    """Return the words of harness and user before an action; null if the view strips them or there are none."""
    if view.harness == "strip":
        return _texts([], np.full(batch.num_rows, -1))
    texts = Texts.of(batch["interleaved"])
    return texts.mapped(pa.array([format_words(text) for text in texts.texts.to_pylist()], pa.string()))


def endings(batch: pa.RecordBatch) -> Texts:
    """Format the line that states how a command ended; empty in domains whose actions are not commands."""
    codes = pc.fill_null(batch["exit_code"].cast(pa.int64()), _NO_CODE).to_numpy(zero_copy_only=False)
    late = pc.fill_null(batch["timed_out"], False).to_numpy(zero_copy_only=False)
    told_here = pc.is_in(batch["domain"].cast(pa.string()), pa.array(sorted(COMMANDS))).to_numpy(zero_copy_only=False)
    known, inverse = np.unique(np.where(told_here, np.where(late, _LATE, codes), _NO_CODE), return_inverse=True)
    return _texts([ending(None if code == _NO_CODE else code, code == _LATE) for code in known.tolist()], inverse)


_NO_CODE: Final = 1 << 40
_LATE: Final = _NO_CODE + 1
"""Values outside the range of 32-bit exit codes: no exit code is known, and the command timed out."""


def _texts(texts: list[str], index: npt.NDArray[Any]) -> Texts:
    return Texts(pa.array(texts, pa.string()), index)


def observed_texts(batch: pa.RecordBatch, side: str, view: View) -> tuple[pa.Array, Flags]:
    """Return the text of each observation, or the MCP object that contained it, and a flag for the objects."""
    content = struct_text(batch, side, "content")
    envelope = struct_text(batch, side, "envelope") if view.mcp == "envelope" else None
    if envelope is None or envelope.null_count == len(envelope):
        return content, np.zeros(len(content), np.bool_)
    is_enveloped = pc.and_(envelope.is_valid(), content.is_valid())
    shown = pc.if_else(is_enveloped, envelope.cast(pa.string()), content.cast(pa.string()))
    return shown, is_enveloped.to_numpy(zero_copy_only=False)


def has_origin(batch: pa.RecordBatch, side: str, origin: str) -> Flags:
    """Flag the observations of an origin."""
    is_equal = pc.equal(struct_text(batch, side, "origin").cast(pa.string()), origin)
    flags: Flags = pc.fill_null(is_equal, False).to_numpy(zero_copy_only=False)
    return flags


def cap_texts(texts: pa.StringArray, view: View) -> pa.StringArray:
    """Cap texts of observations as they are shown. None of them may be null."""
    most = view.observation_chars
    if most is None or not len(texts) or pc.max(pc.binary_length(texts)).as_py() <= most:  # none has more characters
        return texts
    long = pc.greater(pc.utf8_length(texts), most)
    cut = [view.capped(text) for text in texts.filter(long).to_pylist()]
    return pc.replace_with_mask(texts, long, pa.array(cut, pa.string())) if cut else texts


def find_escapable(texts: pa.StringArray | pa.ChunkedArray) -> pa.BooleanArray | pa.ChunkedArray:
    """Flag the texts that escaping changes."""
    return pc.or_(*(pc.match_substring_regex(texts, pattern) for pattern in ESCAPABLE))


def plain_texts(texts: pa.StringArray, view: View, some: Flags | None = None) -> pa.StringArray:
    """Escape the control strings of texts if the view says so. `some` flags the texts that may change, if known."""
    if not view.escapes:
        return texts
    escapable = find_escapable(texts) if some is None else pa.array(some)
    fresh = [view.plain(text) for text in texts.filter(escapable).to_pylist()]
    return pc.replace_with_mask(texts, escapable, pa.array(fresh, pa.string())) if fresh else texts


def spoken(texts: Texts, turn: Numbers, turns: Numbers) -> Mapping[int, str]:
    """Join the words of others before some turns, by the position of a turn among them.

    Args:
        texts: words before each row, including calls that are not shown.
    """
    words_of_turn: dict[int, str] = {}
    words = texts.texts.to_pylist()
    for number, index in zip(turn.tolist(), texts.index.tolist(), strict=True):
        if index >= 0:
            words_of_turn[number] = words_of_turn.get(number, "") + words[index]
    return {
        position: words_of_turn[number] for position, number in enumerate(turns.tolist()) if words_of_turn.get(number)
    }
