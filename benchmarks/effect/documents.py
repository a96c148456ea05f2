"""Documents of tokens: trajectories as an arm shows them, cut by one small tokenizer that is of none of the arms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from benchmarks.effect.arms import Arm
from benchmarks.effect.corpus import CUT, Shown
from trajmill.pipelines.render.fixed_texts import MARKER
from trajmill.pipelines.render.loss_spans import CLASSES as SPAN_CLASSES
from trajmill.pipelines.render.loss_spans import LossSpan, SpanWeights, answer_spans, draw_spans
from trajmill.pipelines.render.turns import Turn

if TYPE_CHECKING:
    from tokenizers import Tokenizer

VOCABULARY: Final = 4_096
MOST_TOKENS: Final = 8_192
"""Tokens of a document; what comes after is cut."""

ACTION, ANSWER, END = range(3)
"""Tokens that open what stands before an answer, open an answer, and end it."""

_SPECIAL: Final = ("<|action|>", "<|answer|>", "<|end|>")

CLASSES: Final = ("shown", *reversed(SPAN_CLASSES))
"""What a token is of: what stands before answers of the world, or of such an answer by the class of its span."""


@dataclass(frozen=True, slots=True)
class Document:
    """A trajectory as tokens.

    Attributes:
        tokens: their ids.
        kinds: of each the number of its class.
        sizes: of each token of an answer its bytes, else 0.
        borne: whether the loss stands on it.
    """

    key: str
    group: str
    tokens: npt.NDArray[np.int64]
    kinds: npt.NDArray[np.int8]
    sizes: npt.NDArray[np.int64]
    borne: npt.NDArray[np.bool_]

    def first(self, most: int) -> Document:
        """Its first tokens."""
        cut = slice(0, most)
        return replace(
            self, tokens=self.tokens[cut], kinds=self.kinds[cut], sizes=self.sizes[cut], borne=self.borne[cut]
        )


def train_tokenizer(texts: Iterable[str]) -> Tokenizer:
    """A byte-level BPE tokenizer of some texts; the same texts give the same one."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer: Any = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=[*_SPECIAL], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.encode_special_tokens = True  # what a log spells is text
    return tokenizer


class Tokens:
    """Texts as tokens; each text is cut once."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        vocabulary = tokenizer.get_vocab()
        self.vocabulary = max(vocabulary.values()) + 1
        sizes = np.zeros(self.vocabulary, np.int64)
        for token, number in vocabulary.items():
            sizes[number] = len(token)  # byte-level tokens have a character a byte
        self._sizes = sizes
        self._known: dict[str, npt.NDArray[np.int64]] = {}
        self._told: dict[str, npt.NDArray[np.int8]] = {}

    def of(self, text: str) -> npt.NDArray[np.int64]:
        """The ids of a text."""
        ids = self._known.get(text)
        if ids is None:
            plain = self._tokenizer.encode(text, add_special_tokens=False).ids
            ids = self._known[text] = np.array(plain, np.int64)
        return ids

    def _classes(self, turn: Turn, sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int8]:
        """The class of each token of an answer; of a turn it is the same in every arm."""
        key = turn.row["row_id"]
        classes = self._told.get(key)
        if classes is None or len(classes) != len(sizes):
            classes = self._told[key] = _token_classes(turn, answer_spans(turn.answer), sizes)
        return classes

    def document(self, trajectory: Shown, arm: Arm, seed: int, *, labelled: bool) -> Document:
        """A trajectory as a document of an arm.

        Args:
            arm: that shows it.
            seed: of the recipe's mixture, by which spans are drawn.
            labelled: whether its rows bear spans.
        """
        weights = SpanWeights({str(name): share for name, share in arm.weights.items()}, seed)
        every = [(turn.answer.key, answer_spans(turn.answer) if turn.loss else []) for turn in trajectory.turns]
        drawn = draw_spans(every, weights) if arm.loss == "spans" else None
        shows_all = arm.loss == "all"
        ids: list[npt.ArrayLike] = []
        kinds: list[npt.ArrayLike] = []
        sizes: list[npt.ArrayLike] = []
        borne: list[npt.ArrayLike] = []
        total = 0
        for number, turn in enumerate(trajectory.turns):
            before, answer = self.of(turn.user.partition("\n")[2]), self.of(turn.observation)
            own = self._sizes[answer]
            classes = self._classes(turn, own) if labelled else np.ones(len(answer), np.int8)
            # what harnesses say, and what is left of what a log lost, can be learnt, but is no answer that is asked for
            is_of_world = turn.row["next_observation"]["origin"] == "environment" and not turn.row.get(CUT)
            if not is_of_world:
                classes, own = np.zeros(len(answer), np.int8), np.zeros(len(answer), np.int64)
            ids += [[ACTION], before, [ANSWER], answer, [END]]
            kinds += [np.zeros(len(before) + 2, np.int8), classes, [int(is_of_world)]]
            sizes += [np.zeros(len(before) + 2, np.int64), own, [0]]
            bears = np.full(len(answer) + 1, turn.loss or shows_all)
            if drawn is not None:
                bears[:-1] = _token_classes(turn, drawn[number], self._sizes[answer]) > 0
            borne += [np.full(len(before) + 2, shows_all), bears]
            total += len(before) + len(answer) + 3
            if total >= MOST_TOKENS:
                break
        columns = [np.concatenate([np.asarray(part) for part in of])[:MOST_TOKENS] for of in (ids, kinds, sizes, borne)]
        return Document(
            f"{trajectory.unit}:{trajectory.ordinal}",
            trajectory.group,
            columns[0].astype(np.int64),
            columns[1].astype(np.int8),
            columns[2].astype(np.int64),
            columns[3].astype(np.bool_),
        )


def _token_classes(turn: Turn, spans: Iterable[LossSpan], sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int8]:
    """The class of each token of an answer, by that of its first byte; 0 where no span stands."""
    begins, text, head = np.cumsum(sizes) - sizes, turn.observation, len(MARKER)
    points = np.frombuffer(b"" if text.isascii() else text.encode("utf-32-le"), np.uint32)
    widths = 1 + (points > 0x7F).astype(np.int64) + (points > 0x7FF) + (points > 0xFFFF)
    places = np.concatenate([[0], np.cumsum(widths)])
    classes = np.zeros(len(sizes), np.int8)
    for span in spans:
        ends = [max(end - head, 0) for end in (span.begin, span.end)]
        low, high = np.searchsorted(begins, ends if text.isascii() else places[ends])
        classes[low:high] = CLASSES.index(span.label or "new")
    return classes
