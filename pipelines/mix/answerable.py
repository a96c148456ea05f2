"""Predictability of an answer from the action, the texts shown so far and the tool's usual answers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import chain
from typing import Final

from trajmill.pipelines.mix import reward
from trajmill.pipelines.render.answered import BOX, PIECE, Answered, Known, bare, pieces, words, words_of
from trajmill.schemas.record import remembering_record

NUMBERED: Final = re.compile(r"^#\d+ ")
"""Pattern of an element's mark, which distinguishes lines of pages from other lines in responses too."""

_DIGITS: Final = re.compile(r"\d+")
_WORD: Final = re.compile(r"\w+")
_SEARCHED: Final = 2000
"""Number of lines of another answer in which words are searched for."""

_SHORT: Final = 64
"""Length below which a text may be the concatenation of two shown texts, in characters."""


@lru_cache(maxsize=1024)
def _frame(answers: tuple[str, ...], least: float) -> frozenset[str]:
    counts = Counter(chain.from_iterable(map(words_of, answers)))
    return frozenset(word for word, count in counts.items() if count >= least and not _DIGITS.search(word))


@lru_cache(maxsize=16)
def _line_counts(answers: tuple[str, ...], form: str) -> Mapping[str, int]:
    return Counter(chain.from_iterable(lines_told(answer, form) for answer in answers))


@lru_cache(maxsize=1024)
def _frame_lines(answers: tuple[str, ...], form: str, least: float) -> frozenset[str]:
    return frozenset(line for line, count in _line_counts(answers, form).items() if count >= least)


@lru_cache(maxsize=1024)
def _frame_pieces(answers: tuple[str, ...], least: float) -> frozenset[str]:
    counts = Counter(chain.from_iterable(map(_pieces_of, answers)))
    return frozenset(piece for piece, count in counts.items() if count >= least)


@lru_cache(maxsize=512)
def lines_told(text: str, form: str) -> frozenset[str]:
    """Return the lines of an answer as they are compared."""
    return frozenset(reward.lines_of(text, form))


@lru_cache(maxsize=512)
def _pieces_of(text: str) -> frozenset[str]:
    return frozenset(pieces(text))


@lru_cache(maxsize=512)
def _lines_by_word(text: str) -> Mapping[str, frozenset[int]]:
    """Map each word to the numbers of the lines that hold it."""
    line_numbers: dict[str, set[int]] = {}
    for number, line in enumerate(text.split("\n")[:_SEARCHED]):
        for word in words(line):
            line_numbers.setdefault(word, set()).add(number)
    return {word: frozenset(numbers) for word, numbers in line_numbers.items()}


def _cuts(piece: str) -> range:
    return range(1, len(piece) if len(piece) < _SHORT else 0)


def _stand_together(word_set: Iterable[str], text: str) -> bool:
    lines_by_word = _lines_by_word(text)
    return bool(frozenset.intersection(*(lines_by_word.get(word, frozenset()) for word in word_set)))


_RANDOM: Final = re.compile(
    r"\b(?=[\da-fA-FJMSOND])(?:"  # the first character rules out most words
    r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"  # UUID
    r"|(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,64}\b|0x[0-9a-fA-F]{6,16}\b"  # hash, address
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"  # point in time
    r"|(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d \d\d:\d\d(?::\d\d)?\b"
    r"|\d\d:\d\d:\d\d(?:[.,]\d+)?\b|1[4-9]\d{8}(?:\d{3})?\b"
    r"|\d+\.\d+ ?(?:s|ms|secs?|seconds)\b)|/tmp/tmp[\w.]+"  # duration, temporary file
)
"""Values that no model can know unless they were shown before: ids, times, durations."""


def mark_random_values(turn: Answered, known: Known) -> Answered:
    """Add the random values of an answer that were not shown before to its volatile spans."""
    action_words = words(turn.action)
    spans = [
        match.span()
        for match in _RANDOM.finditer(turn.observation)
        if not known.has_words(words(match.group()) - action_words)
    ]
    return replace(turn, volatile=tuple(sorted({*turn.volatile, *spans}))) if spans else turn


def _has_plain_word(text: str) -> bool:
    """Return True if a text has a word that belongs to no random value."""
    end = 0
    while (word := _WORD.search(text, end)) is not None:
        begin = word.start()
        value = _RANDOM.match(text, begin) or _RANDOM.match(text, begin - 1)  # `/tmp/tmp` begins before its word
        if value is None:
            return True
        end = value.end()
    return False


_CALL_WORDS: Final = frozenset({"name", "arguments"})
"""Words of a call's JSON that belong neither to its name nor to its arguments."""


def is_unknowable(turn: Answered, known: Known, other_answers: Sequence[str]) -> bool:
    """Return True if an answer cannot be predicted.

    This holds if all of it is random, or if the action consists only of its name and most words of the answer occur
    neither in the shown texts nor in the tool's other answers.
    """
    if turn.form in reward.STATES:
        return False
    names_itself = not turn.given and words(turn.action) <= words(turn.tool) | _CALL_WORDS
    if not names_itself and not turn.volatile and _has_plain_word(turn.observation):
        return False  # most answers, without reading what was shown before
    turn = mark_random_values(turn, known)
    parts, end = list[str](), 0
    for span_begin, span_end in turn.volatile:
        parts.append(turn.observation[end:span_begin])
        end = max(end, span_end)
    answer_words = words(" ".join([*parts, turn.observation[end:]]))
    if turn.volatile and not answer_words:
        return True
    if not names_itself:
        return False
    context = Context(turn, known, other_answers)
    new = [word for word in answer_words - context.action_words - context.frame if not known.has_words((word,))]
    return 2 * len(new) > len(answer_words)


@remembering_record
class Context:
    """A turn with the facts known before it: `known` of its trajectory, `others` as other answers of its tool."""

    turn: Answered
    known: Known
    others: Sequence[str]

    @cached_property
    def action_words(self) -> set[str]:
        """Words of the action."""
        return words(self.turn.action)

    @cached_property
    def enough(self) -> float:
        """Number of other answers that must share a word of the tool's frame: a quarter, at least two."""
        return max(2, len(self.others) / 4)

    @cached_property
    def frame(self) -> frozenset[str]:
        """Words that enough of the tool's answers contain.

        Words with digits are left out, since they carry information.
        """
        return _frame(tuple(self.others), self.enough)

    @property
    def line_counts(self) -> Mapping[str, int]:
        """Number of other answers that hold each line; 0 for a line that none holds."""
        return _line_counts(tuple(self.others), self.turn.form)

    @cached_property
    def frame_lines(self) -> frozenset[str]:
        """Lines that enough of the tool's answers contain."""
        return _frame_lines(tuple(self.others), self.turn.form, self.enough)

    @cached_property
    def frame_pieces(self) -> frozenset[str]:
        """Whole texts in lines that enough of the tool's answers contain."""
        return _frame_pieces(tuple(self.others), self.enough)

    def knowable(self, text: str) -> bool:
        """Return True if each word of a text was known beforehand."""
        new_words = words(text) - self.action_words
        if new_words:
            new_words -= self.frame
        return self.known.has_words(word for word in new_words if len(word) > 1)

    def knowable_line(self, line: str) -> bool:
        """Return True if a line could be predicted as a whole, and not only word by word.

        Either the line was shown, or enough of the tool's answers hold it. Otherwise its words that the action does not
        hold must occur on one shown line, except words that occur together on one line of enough of the tool's answers.
        """
        if self.known.has_line(bare(line)) or line in self.frame_lines:
            return True
        if not self.knowable(line):
            return False
        line_words = {word for word in words(line) if len(word) > 1} - self.action_words
        own = line_words - self.frame
        if not own and self._is_frame(line_words):
            return True
        return any(self._is_frame(line_words - shown_words) for shown_words in self.known.lines_with(own or line_words))

    def _is_frame(self, word_set: Set[str]) -> bool:
        """Return True if words occur together on one line of enough other answers."""
        return not word_set or sum(_stand_together(word_set, answer) for answer in self.others) >= self.enough

    def knowable_element(self, line: str) -> bool:
        """Return True if the line of an element could be predicted: its words, its whole texts, and its place."""
        plain = PIECE.sub("", NUMBERED.sub("", line))
        return self.knowable(plain) and all(map(self._knowable_piece, pieces(line)))

    def _knowable_piece(self, piece: str) -> bool:
        """Return True if a text was shown or typed as a whole, up to its numbers, or is made of shown texts.

        Shown texts are two texts one after the other, or words of shown texts and of the action.
        """
        known = self.known
        if known.has_piece(piece) or piece in self.frame_pieces or piece in self.turn.values:
            return True
        if BOX.fullmatch(piece):
            return False
        if not piece or known.has_masked_piece(piece):
            return True
        if any(known.has_piece(piece[:cut]) and known.has_piece(piece[cut:]) for cut in _cuts(piece)):
            return True
        piece_words = {word for word in words(piece) if len(word) > 1}
        return any(map(str.isalpha, piece_words)) and known.has_piece_words(piece_words - self.action_words)

    def told(self, text: str) -> bool:
        """Return True if each word of a text occurs in the action or in the texts shown so far."""
        new_words = words(text) - self.action_words
        return not new_words or self.known.has_words(new_words)

    @cached_property
    def lines(self) -> Sequence[str]:
        """Lines of the observation as they are compared."""
        return reward.lines_of(self.turn.observation, self.turn.form)

    @cached_property
    def before(self) -> set[str]:
        """Lines of the previous observation."""
        return set(reward.lines_of(self.turn.previous or "", self.turn.form))
