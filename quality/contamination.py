"""Contamination: the benchmark items that a trajectory shows, found by runs of words, ids and canaries.

An item is found by
- its *texts*: the runs of `RUN` words of a text, of which a uniform sample of at most `SAMPLED` is kept; a shorter text
  is one run, which counts only if it stands alone (a whole text, line, quoted string, cell or value), or if its answer
  follows;
- its *names*: id, repository at base commit, and a text of fewer than `FEWEST` words, which is compared only with the
  instruction, by equality; and *patterns* of ids, for benchmarks whose ids have a form of their own;
- its *canaries*: strings that trainers are asked to search for, in one linear scan (RE2) of all texts.

A run that occurs in many tasks of the corpus, or in many items of the benchmark, is boilerplate and counts less:

    w(run) = clip(2 - ln(n) / ln(common), 0, 1),    n = the larger of: tasks that show it, items that hold it
    score  = sum of w over the runs that the trajectory shows / max(1, sum of w over the text's runs)

A run in up to `common` tasks has full weight; from `common`² tasks on it has none. GPT-3 dropped 13-grams found in more
than 10 documents (arXiv 2005.14165, appendix C); the logarithm between the two bounds is that of idf-weighted overlap,
as in the scores of allenai/decon. Tasks are counted instead of trajectories, because all rollouts of a leaked task show
it.

Words are those of `quality.shingle`: case, white space and punctuation do not matter. Paraphrases and translations are
not found. This module reads no file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.quality.fingerprint import mixed
from trajmill.quality.lines import Flags, Numbers
from trajmill.quality.sets import expand_lists
from trajmill.quality.shingle import Offsets, blocks, mixed64, runs, word_hashes, word_places

RUN: Final = 13
"""Words of a run, as in GPT-3."""

SAMPLED: Final = 256
"""Runs kept of a text, those with the smallest hashes. They give a share of 0.5 with a standard deviation of 0.03."""

FEWEST: Final = 4
"""Fewest words of a text that is searched everywhere. Shorter texts are too common."""

Shares = npt.NDArray[np.float64]

_ODD: Final = 0x9E3779B97F4A7C15
_ALL: Final = (1 << 64) - 1
_LENGTH: Final = np.uint64(15)
_BOUNDS: Final = np.zeros(256, np.bool_)
_BOUNDS[[ord(char) for char in "\n\r\t\"'`|<>[]:"]] = True
"""Bytes that delimit a piece of text that stands alone: `Question: …`, `search[…]`, `search('…')`."""
_LETTERS: Final = np.zeros(256, np.bool_)
_LETTERS[[ord(char) for char in "nrt"]] = True


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs of words of one text: their hashes, ascending, and whether they are the whole text."""

    hashes: Numbers
    whole: bool

    @classmethod
    def of(cls, strings: Sequence[str], fewest: int = FEWEST) -> Runs:
        """Return the runs of a text that consists of several strings: the runs of `RUN` words of each string.

        Shorter strings count only if all strings are shorter; each is one run then.

        Args:
            strings: Strings of the text.
            fewest: Fewest words of a string that counts.
        """
        long, short = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)]
        for _, data, starts in _fold_blocks(pa.array([*strings], pa.string())):
            begin, end = word_places(data, starts)
            words = word_hashes(data, begin, end)
            first = np.searchsorted(begin, starts)
            left = np.repeat(first[1:], np.diff(first)) - np.arange(len(words))
            for length, sums in runs(words, RUN):
                if length == RUN:
                    long.append(_add_length(sums[left >= RUN], RUN))
                elif length >= fewest:
                    short.append(_add_length(sums[first[:-1][np.diff(first) == length]], length))
        whole = not any(len(some) for some in long)
        return cls(np.unique(np.concatenate(short if whole else long))[:SAMPLED], whole)


_SIGNS: Final = (("[‘’ʼ′]", "'"), ("[“”„″]", '"'), ("[‐-―−]", "-"))
"""Typographic signs and their typed equivalents."""


_CODES: Final = re.compile(r"(?:\\u[0-9a-fA-F]{4})+")
"""Escaped characters of JSON in ASCII."""


def _character(codes: re.Match[str]) -> str:
    units = bytes.fromhex(codes[0].replace("\\u", ""))
    return units.decode("utf-16-be", "replace")


def _decode(texts: pa.StringArray) -> pa.StringArray:
    """The texts with `\\u` and four digits as the character that they mean."""
    coded = pc.fill_null(pc.match_substring(texts, "\\u"), False)
    if not pc.any(coded, min_count=0).as_py():
        return texts
    plain = [_CODES.sub(_character, text) for text in texts.filter(coded).to_pylist()]
    return pc.replace_with_mask(texts, coded, pa.array(plain, pa.string()))


def _fold(texts: pa.StringArray) -> pa.StringArray:
    """Fold the texts to one spelling of similar characters (Unicode's NFKC, lower case, typed quotes and dashes)."""
    texts = _decode(texts)
    foreign = pc.fill_null(pc.invert(pc.string_is_ascii(texts)), False)
    if not pc.any(foreign, min_count=0).as_py():
        return texts
    folded = pc.utf8_lower(pc.utf8_normalize(texts.filter(foreign), "NFKC"))
    for looks, sign in _SIGNS:
        folded = pc.replace_substring_regex(folded, looks, sign)
    return pc.replace_with_mask(texts, foreign, folded)


def _fold_blocks(texts: pa.StringArray) -> Iterator[tuple[int, npt.NDArray[np.uint8], Offsets]]:
    """`shingle.blocks` of folded texts, with `\\n`, `\\r`, `\\t` as line feeds: so words of JSON within begin right."""
    for first, data, starts in blocks(_fold(texts)):
        at = np.flatnonzero(data[:-1] == ord("\\"))
        at = at[_LETTERS[data[at + 1]]]
        plain = data
        if len(at):
            plain = data.copy()
            plain[at] = plain[at + 1] = ord("\n")
        yield first, plain, starts


def _add_length(sums: Numbers, length: int) -> Numbers:
    """Return the hashes of runs of one length; their last four bits hold the length."""
    hashes = mixed64(sums ^ np.uint64(length * _ODD & _ALL))
    hashes &= ~_LENGTH
    hashes |= np.uint64(length)
    return hashes


class Keys:
    """Lookup table of the runs of many texts.

    Args:
        hashes: Hashes of all runs, ascending and distinct.

    Attributes:
        hashes: Hashes as given.
        lengths: Lengths of the runs, in words.
    """

    def __init__(self, hashes: Numbers) -> None:
        self.hashes = hashes
        length = (hashes & _LENGTH).astype(np.int64)
        self.lengths = tuple(np.unique(length).tolist())
        self._seen: dict[int, tuple[np.uint64, Flags]] = {}
        for run_length in self.lengths:
            some = hashes[length == run_length]
            bits = max(12, len(some).bit_length() + 5)
            seen = np.zeros(1 << bits, np.bool_)
            seen[some >> np.uint64(64 - bits)] = True
            self._seen[run_length] = np.uint64(64 - bits), seen

    def places(self, hashes: Numbers, length: int) -> tuple[Offsets, Offsets]:
        """Return (position in `hashes`, number of the run) of the hashes of that length that are among the runs."""
        shift, seen = self._seen[length]
        maybe = np.flatnonzero(seen[hashes >> shift])
        if not len(maybe):
            return maybe, maybe
        number = np.searchsorted(self.hashes, hashes[maybe])
        number[number == len(self.hashes)] = 0
        sure = self.hashes[number] == hashes[maybe]
        return maybe[sure], number[sure]


@dataclass(frozen=True, slots=True)
class Hits:
    """Runs found: the text, the number of the run, and whether a run of fewer words than `RUN` stands alone there."""

    text: Offsets
    run: Offsets
    alone: Flags

    @classmethod
    def of(cls, texts: pa.StringArray, keys: Keys) -> Hits:
        """Find every position of the texts at which one of the runs begins. A run does not cross texts."""
        columns_of_hits: list[tuple[Offsets, Offsets, Flags]] = []
        for number, data, starts in _fold_blocks(texts) if len(keys.hashes) else ():
            begin, end = word_places(data, starts)
            words = word_hashes(data, begin, end)
            first = np.searchsorted(begin, starts)
            bounds = np.flatnonzero(_BOUNDS[data])
            for length, sums in runs(words, max(keys.lengths)):
                if length not in keys.lengths:
                    continue
                at, run = keys.places(_add_length(sums, length), length)
                text = np.searchsorted(first, at, "right") - 1
                inside = at + length <= first[text + 1]
                at, run, text = at[inside], run[inside], text[inside]
                if length == RUN or not len(at):
                    alone = np.zeros(len(at), np.bool_)
                else:
                    alone = _alone(bounds, starts, begin, end, text, at, at + length)
                columns_of_hits.append((text + number, run, alone))
        none = np.zeros(0, np.int64)
        columns = (
            zip(*columns_of_hits, strict=True) if columns_of_hits else ((none,), (none,), (none.astype(np.bool_),))
        )
        text, run, alone = (np.concatenate(column) for column in columns)
        return cls(text, run, alone)


def _alone(
    bounds: Offsets,
    starts: Offsets,
    begin: Offsets,
    end: Offsets,
    text: Offsets,
    first: Offsets,
    last: Offsets,
) -> Flags:
    """Flag the words `first` to `last` (excluded) that have a delimiter on both sides before the next word of their
    text.
    """
    low, high = starts[text], starts[text + 1]
    before = np.maximum(end[np.maximum(first - 1, 0)] * (first > 0), low)
    after = np.minimum(begin[np.minimum(last, len(begin) - 1)], high)
    after[last == len(begin)] = high[last == len(begin)]
    sides = [(before, begin[first], before == low), (end[last - 1], after, after == high)]
    opened, closed = (
        np.searchsorted(bounds, side_begin) < np.searchsorted(bounds, side_end) for side_begin, side_end, _ in sides
    )
    return (opened | sides[0][2]) & (closed | sides[1][2])


@dataclass(frozen=True)
class Index:
    """Index of benchmark items: hashes, names and canaries, but none of the benchmark's text.

    Attributes:
        items: Names, `benchmark:id`.
        owner: Item of each text, shape (texts,).
        whole: Flags of the texts whose runs count only if they stand alone or the answer follows.
        run_text, run_hash: Every run of every text.
        answer_item, answer_hash: Every run of every answer; an item has one answer.
        names: Hashes of names, ascending.
        name_item: Item of each name.
        canaries: Pairs of a string in lower case and its item.
        patterns: Pairs of a pattern of whole ids and its item.
    """

    items: tuple[str, ...]
    owner: Offsets
    whole: Flags
    run_text: Offsets
    run_hash: Numbers
    answer_item: Offsets
    answer_hash: Numbers
    names: Numbers
    name_item: Offsets
    canaries: tuple[tuple[str, int], ...]
    patterns: tuple[tuple[str, int], ...] = ()

    @cached_property
    def runs(self) -> Keys:
        """Lookup table of the runs of texts."""
        return Keys(np.unique(self.run_hash))

    @cached_property
    def answers(self) -> Keys:
        """Lookup table of the runs of answers."""
        return Keys(np.unique(self.answer_hash))

    @cached_property
    def texts_of(self) -> tuple[Offsets, Offsets]:
        """Texts that hold each run, by the number of the run: (offsets, texts)."""
        return _group_values(np.searchsorted(self.runs.hashes, self.run_hash), self.run_text, len(self.runs.hashes))

    @cached_property
    def items_of(self) -> tuple[Offsets, Offsets]:
        """Items whose answers hold each run of an answer, by the number of the run: (offsets, items)."""
        number = np.searchsorted(self.answers.hashes, self.answer_hash)
        return _group_values(number, self.answer_item, len(self.answers.hashes))

    @cached_property
    def pattern(self) -> str | None:
        """Pattern that matches any canary; None if there are no canaries."""
        return "(?i)" + "|".join(_escape(text) for text, _ in self.canaries) if self.canaries else None

    def weights(self, common: int, numbers: Numbers, tasks: Numbers) -> Shares:
        """Return the weight of each run, shape (runs,).

        Args:
            common: Largest number of tasks or items at which a run has full weight; at least 2.
            numbers: Hashes of runs that the corpus shows.
            tasks: Number of tasks that show each of them.
        """
        offsets, texts = self.texts_of
        run = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        run_of_owner = np.unique(np.stack([run, self.owner[texts]], axis=1), axis=0)[:, 0]
        many = np.bincount(run_of_owner, minlength=len(offsets) - 1).astype(np.float64)
        position = np.searchsorted(self.runs.hashes, numbers)
        many[position] = np.maximum(many[position], tasks)
        return np.clip(2 - np.log(np.maximum(many, 1)) / np.log(common), 0, 1)

    def scores(self, weights: Shares, trajectory: Offsets, run: Offsets) -> tuple[Offsets, Offsets, Shares]:
        """Return (trajectory, text, score) of every text with a run that a trajectory shows.

        Args:
            weights: Weights of the runs.
            trajectory, run: Pairs of a trajectory and a run that it shows; distinct.
        """
        offsets, texts = self.texts_of
        total = np.bincount(self.run_text, weights[np.searchsorted(self.runs.hashes, self.run_hash)], len(self.owner))
        use, text = expand_lists(texts, offsets, run)
        pair, pair_number = np.unique(np.stack([trajectory[use], text], axis=1), axis=0, return_inverse=True)
        shown = np.bincount(pair_number.ravel(), weights[run[use]], len(pair))
        return pair[:, 0], pair[:, 1], shown / np.maximum(total[pair[:, 1]], 1)


def _group_values(number: Offsets, value: Offsets, count: int) -> tuple[Offsets, Offsets]:
    order = np.lexsort([value, number])
    return np.concatenate([[0], np.cumsum(np.bincount(number, minlength=count))]), value[order]


def _escape(text: str) -> str:
    return "".join(char if char.isalnum() or not char.isascii() else f"\\x{ord(char):02x}" for char in text)


def canary_hits(texts: pa.StringArray, index: Index) -> tuple[Offsets, Offsets]:
    """Return (text, item) for each canary in a text. One scan covers all texts, a second one only the texts with
    hits.
    """
    none = np.zeros(0, np.int64)
    if index.pattern is None or not len(texts):
        return none, none
    some = pc.fill_null(pc.match_substring_regex(texts, index.pattern), False).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(some)
    candidates = texts.take(pa.array(rows))
    hits_by_canary = [
        (rows[pc.match_substring(candidates, text, ignore_case=True).to_numpy(zero_copy_only=False)], item)
        for text, item in (index.canaries if len(rows) else ())
    ]
    at = np.concatenate([none, *(hits for hits, _ in hits_by_canary)])
    return at, np.repeat([item for _, item in hits_by_canary], [len(hits) for hits, _ in hits_by_canary]).astype(
        np.int64
    )


def pattern_hits(ids: pa.StringArray, index: Index) -> tuple[Offsets, Offsets]:
    """Return (id, item) for each pattern of the index that matches a whole id."""
    some = [
        np.flatnonzero(pc.fill_null(pc.match_substring_regex(ids, _whole(pattern)), False))
        for pattern, _ in index.patterns
    ]
    item = np.repeat([item for _, item in index.patterns], [len(hits) for hits in some]).astype(np.int64)
    return np.concatenate([np.zeros(0, np.int64), *some]), item


def pattern_fault(pattern: str) -> str | None:
    """Explain why a pattern cannot be used for ids; return None if it can."""
    try:
        pc.match_substring_regex(pa.array([""]), _whole(pattern))
    except pa.ArrowInvalid as error:
        return str(error)
    return None


def _whole(pattern: str) -> str:
    return f"(?i)\\A(?:{pattern})\\z"


def name_hash(hashes: Numbers, kind: str) -> Numbers:
    """Return hashes of names of a kind: `id`, `checkout` or `task`."""
    salt = {"id": 1, "checkout": 2, "task": 3}[kind]
    return mixed(hashes + np.uint64(salt * _ODD & _ALL))


def few_words(texts: pa.StringArray) -> Numbers:
    """Hash each text of 1 to `FEWEST` - 1 words, as for `task` names; return 0 for all others."""
    hashes = np.zeros(len(texts), np.uint64)
    for number, data, starts in _fold_blocks(texts):
        begin, end = word_places(data, starts)
        first = np.searchsorted(begin, starts)
        count = np.diff(first)
        for length, sums in runs(word_hashes(data, begin, end), FEWEST - 1):
            some = np.flatnonzero(count == length)
            hashes[number + some] = _add_length(sums[first[some]], length)
    return hashes


def checkout_name(repository: str, commit: str) -> str | None:
    """Return the canonical name of a checkout: owner, repository and 7 digits of the commit; None for anything else.

    SWE-smith's ids hold 8 digits of a commit, SWE-bench's rows all 40.
    """
    name = repository.strip().lower().removesuffix("/").removesuffix(".git")
    owner = "/".join(name.split("/")[-2:])
    digits = commit.strip().lower()
    known = owner.count("/") == 1 and len(digits) >= 7 and not set(digits) - set("0123456789abcdef")
    return f"{owner}@{digits[:7]}" if known else None
