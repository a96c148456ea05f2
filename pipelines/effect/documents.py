"""Documents of tokens: trajectories as an arm shows them, cut by one small tokenizer that is of none of the arms."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from pipelines.effect.arms import Loss
from pipelines.effect.corpus import Shown
from quality.spans import LABELS

if TYPE_CHECKING:
    from tokenizers import Tokenizer

VOCABULARY: Final = 4_096
MOST_TOKENS: Final = 8_192
"""Tokens of a document; what comes after is cut."""

ACTION, ANSWER, END = range(3)
"""Tokens that open what stands before an answer, open an answer, and end it."""

_SPECIAL: Final = ("<|action|>", "<|answer|>", "<|end|>")

CLASSES: Final = ("shown", "new", *LABELS)
"""What a token is of: what stands before answers of the world, or of such an answer by its label; `new` has none."""


@dataclass(frozen=True, slots=True)
class Document:
    """A trajectory as tokens.

    Attributes:
        key: of the trajectory.
        group: that it is of.
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


def trained(texts: Iterable[str]) -> Tokenizer:
    """A byte-level BPE tokenizer of some texts; the same texts give the same one."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer: Any = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=[*_SPECIAL], initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(texts, trainer)
    made.encode_special_tokens = True  # what a log spells is text
    return made


def digest_text(tokenizer: Tokenizer) -> str:
    """The tokenizer as text, for its digest."""
    return json.dumps(json.loads(tokenizer.to_str()), sort_keys=True)


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

    def of(self, text: str) -> npt.NDArray[np.int64]:
        """The ids of a text."""
        found = self._known.get(text)
        if found is None:
            plain = self._tokenizer.encode(text, add_special_tokens=False).ids
            found = self._known[text] = np.array(plain, np.int64)
        return found

    def document(self, one: Shown, loss: Loss, *, labelled: bool) -> Document:
        """A trajectory as a document; `labelled` whether its rows bear spans."""
        ids: list[npt.ArrayLike] = []
        kinds: list[npt.ArrayLike] = []
        sizes: list[npt.ArrayLike] = []
        borne: list[npt.ArrayLike] = []
        total = 0
        for turn in one.turns:
            before, answer = self.of(turn.user.partition("\n")[2]), self.of(turn.observation)
            own = self._sizes[answer]
            labels = _labels(turn.row["spans"], own) if labelled else np.ones(len(answer), np.int8)
            is_of_world = turn.row["next_observation"]["origin"] == "environment"
            if not is_of_world:  # what harnesses say can be learnt, but is no answer that a world model is asked for
                labels, own = np.zeros(len(answer), np.int8), np.zeros(len(answer), np.int64)
            ids += [[ACTION], before, [ANSWER], answer, [END]]
            kinds += [np.zeros(len(before) + 2, np.int8), labels, [int(is_of_world)]]
            sizes += [np.zeros(len(before) + 2, np.int64), own, [0]]
            bears = np.full(len(answer) + 1, turn.loss)
            if loss == "spans" and turn.loss:
                bears[:-1] = labels <= 1
            borne += [np.full(len(before) + 2, loss == "all"), bears | (loss == "all")]
            total += len(before) + len(answer) + 3
            if total >= MOST_TOKENS:
                break
        columns = [np.concatenate([np.asarray(part) for part in of])[:MOST_TOKENS] for of in (ids, kinds, sizes, borne)]
        return Document(
            f"{one.unit}:{one.ordinal}",
            one.group,
            columns[0].astype(np.int64),
            columns[1].astype(np.int8),
            columns[2].astype(np.int64),
            columns[3].astype(np.bool_),
        )


def _labels(spans: Iterable[Mapping[str, Any]] | None, sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int8]:
    """The class of each token, by that of its first byte."""
    begins = np.cumsum(sizes) - sizes
    found = np.ones(len(sizes), np.int8)
    for span in spans or ():
        low, high = np.searchsorted(begins, [span["begin"], span["end"]])
        found[low:high] = CLASSES.index(span["label"])
    return found
