"""What a trainer was meant to train, by the bytes of texts, and how what it trains compares.

This does not trust how spans became tokens: each token that a trainer reads is turned back into bytes, and they are
held against the spans. A token is meant if all of its bytes are.
"""

import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from trajmill.pipelines.publish.forms.stored_samples import Conversation, Document, Message, Span
from trajmill.pipelines.publish.forms.tokenizing import Tokenizing, has_loss_at_end, join_spans
from trajmill.schemas import ConfigError

Mask = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Compared:
    """What a consumer trains, of the samples that it gave.

    Attributes:
        samples: whose text is one of ours.
        turns: of these that bear loss; of documents the documents.
        meant: tokens that lie wholly in what bears the loss.
        trained: tokens trained.
        not_meant: tokens trained of which not all was meant.
        not_trained: tokens meant and not trained.
        others: samples whose text is none of ours.
        left_out: samples of ours that it did not give.
    """

    samples: int = 0
    turns: int = 0
    meant: int = 0
    trained: int = 0
    not_meant: int = 0
    not_trained: int = 0
    others: int = 0
    left_out: int = 0

    @property
    def is_good(self) -> bool:
        """Whether it gave samples of ours alone, and trained nothing that was not meant."""
        return self.is_read and not self.not_meant

    @property
    def is_read(self) -> bool:
        """Whether it gave samples of ours alone."""
        return bool(self.samples) and not self.others


@dataclass
class Meaning:
    """Texts of samples with the bytes of them that bear the loss.

    Args:
        tokenizing: the tokenizer that the consumer was given.
    """

    tokenizing: Tokenizing
    _texts: dict[bytes, list[tuple[Mask, int]]] = field(default_factory=dict)
    _domains: dict[bytes, str] = field(default_factory=dict)
    _ordered: list[bytes] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    """Samples by domain."""

    def __post_init__(self) -> None:
        self._bytes = self.tokenizing.bytes_of_tokens()
        if self._bytes is None:
            raise ConfigError(
                "Only a byte-level tokenizer tells which bytes a token is of; give --tokenizer such a one."
            )
        self._sides = trimmed_sides(self.tokenizing) if self.tokenizing.template else (False, False)

    def add_documents(self, samples: Iterable[Document]) -> None:
        """Takes in documents, each with the token that ends it."""
        end = self.tokenizing.decoded([self.tokenizing.end_of_document])
        for sample in samples:
            parts = [(sample.text, sample.spans), (end, _whole(end, has_loss_at_end(sample.text, sample.spans)))]
            self._add(sample.domain, parts, 1)
            self.counts[sample.domain] += 1

    def add_conversations(self, samples: Iterable[Conversation]) -> None:
        """Takes in conversations as the chat template shows them, and as it does if it trims contents."""
        for sample in samples:
            self.counts[sample.domain] += 1
            self._add_conversation(sample.domain, sample.messages)
            if any(self._sides):
                shown = [trimmed(message, self._sides) for message in sample.messages]
                self._add_conversation(sample.domain, shown)

    def _add_conversation(self, domain: str, messages: Sequence[Message]) -> None:
        first, *pieces = self.tokenizing.frame_texts(tuple(message.role for message in messages))
        parts: list[tuple[str, Sequence[Span]]] = [(first[1], ())]
        for message, (closing, rest) in zip(messages, pieces, strict=True):
            ends = _whole(closing, has_loss_at_end(message.content, message.spans))
            parts += [(message.content, message.spans), (closing, ends), (rest, ())]
        self._add(domain, parts, sum(1 for message in messages if message.spans))

    def _add(self, domain: str, parts: Iterable[tuple[str, Sequence[Span]]], turns: int) -> None:
        whole, masks = [], []
        for text, spans in parts:
            shown, mask = _normalized(text, spans)
            whole.append(shown)
            masks.append(mask)
        data = b"".join(whole).rstrip()
        self._texts.setdefault(data, []).append((np.concatenate(masks), turns))
        self._domains.setdefault(data, domain)

    def domain(self, ids: Sequence[int]) -> str:
        """Of the sample whose text these are; `unknown` of none of ours."""
        return self._domains.get(self._bytes_of(ids).rstrip(), "unknown")

    def _bytes_of(self, ids: Sequence[int]) -> bytes:
        return b"".join(self._bytes[token] if self._bytes else b"" for token in ids)

    def compare(self, ids: Sequence[int], trained: Sequence[int], counts: Compared) -> None:
        """Adds to `found` what a consumer trains of one sample: its ids, and which of them it trains.

        Samples of one text can differ in what was meant; then it is held against the one that it is most like.
        """
        pieces = [self._bytes[token] if self._bytes else b"" for token in ids]
        data = b"".join(pieces)
        edges = np.cumsum([0, *map(len, pieces)])
        bears = np.array(trained, np.bool_)
        same = self._texts.get(data.rstrip()) or self._cropped(data)
        if not same:
            counts.others += 1
            return
        wholly, turns = min(
            ((_wholly(mask, edges), turns) for mask, turns in same), key=lambda pair: int((pair[0] != bears).sum())
        )
        counts.samples += 1
        counts.turns += turns
        counts.meant += int(wholly.sum())
        counts.trained += int(bears.sum())
        counts.not_meant += int((bears & ~wholly).sum())
        counts.not_trained += int((wholly & ~bears).sum())

    def _cropped(self, data: bytes) -> list[tuple[Mask, int]]:
        """What is meant of a text that lacks nothing but an end without loss, which datatrove does not write.

        Tokens of that end may be meant in part, but none wholly.
        """
        if len(self._ordered) != len(self._texts):
            self._ordered = sorted(self._texts)
        matches = []
        index = bisect_left(self._ordered, data) if data else len(self._ordered)
        while index < len(self._ordered) and self._ordered[index].startswith(data):  # one may begin as another does
            whole = self._ordered[index]
            rest = self.tokenizing.plain(whole[len(data) :].decode("utf-8", "replace")).ids.tolist()
            edges = len(data) + np.cumsum([0, *(len(self._bytes[token]) for token in rest)] if self._bytes else [0])
            same = self._texts[whole]
            matches += [(mask[: len(data)], turns) for mask, turns in same if not _wholly(mask, edges).any()]
            index += 1
        return matches


def _wholly(mask: Mask, edges: npt.NDArray[np.int64]) -> Mask:
    """Which tokens, of bytes between edges, lie wholly in what bears the loss."""
    sums = np.concatenate([[0], np.cumsum(np.pad(mask, (0, max(0, int(edges[-1]) - len(mask)))))])
    return np.asarray(sums[edges[1:]] - sums[edges[:-1]] == edges[1:] - edges[:-1])


def _whole(text: str, bears: bool) -> tuple[Span, ...]:
    return (Span(0, len(text)),) if bears and text else ()


def _normalized(text: str, spans: Sequence[Span]) -> tuple[bytes, Mask]:
    """The bytes of a text as tokenizers that compose characters have them, and which of them bear the loss."""
    bears = np.zeros(len(text), np.bool_)
    for begin, end in join_spans(spans):
        bears[begin:end] = True
    if not unicodedata.is_normalized("NFC", text):
        return _composed(text, bears)
    return text.encode(), np.repeat(bears, [len(character.encode()) for character in text]) if text else bears


def _composed(text: str, bears: Mask) -> tuple[bytes, Mask]:
    """The same of a text with characters that are composed of several: composed, they bear what all of them bear."""
    shown, masks = [], []
    begin = 0
    for end in range(1, len(text) + 1):
        if end == len(text) or unicodedata.combining(text[end]) == 0:
            data = unicodedata.normalize("NFC", text[begin:end]).encode()
            shown.append(data)
            masks.append(np.full(len(data), bears[begin:end].all()))
            begin = end
    return b"".join(shown), np.concatenate(masks)


def trimmed_sides(tokenizing: Tokenizing) -> tuple[bool, bool]:
    """Tell if the chat template takes whitespace off (the beginning, the end) of an answer."""
    before, after, middle = "\n \n", "\n \n", "@@trajmill@@"
    asked, answered = {"role": "user", "content": "?"}, {"role": "assistant", "content": before + middle + after}
    head, _, tail = tokenizing.shown([asked, answered, asked]).partition(middle)
    bare, _, rest = tokenizing.shown([asked, {**answered, "content": middle}, asked]).partition(middle)
    return head != bare + before, tail != after + rest


def trimmed(message: Message, sides: tuple[bool, bool]) -> Message:
    """Trim the content of a message on those sides, and its spans with it."""
    text = message.content
    begin = len(text) - len(text.lstrip()) if sides[0] else 0
    end = len(text.rstrip()) if sides[1] else len(text)
    end = max(begin, end)
    spans = [Span(max(span.begin, begin) - begin, min(span.end, end) - begin, span.label) for span in message.spans]
    return Message(message.role, text[begin:end], tuple(span for span in spans if span.end > span.begin))
