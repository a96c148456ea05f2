"""Contamination: which items of a benchmark a trajectory shows, told by runs of words, ids and canaries.

An item is looked for by

- its *texts*: the runs of `RUN` words of a text, of which a uniform sample of at most `SAMPLED` is kept; a text of
  fewer words is one run, which counts where it stands alone (a whole text, line, quoted string, cell or value), or
  where its answer follows;
- its *names*: id, repository at base commit, and a text of fewer than `FEWEST` words, which is looked for nowhere but
  in the instruction, by equality; and *patterns* of ids, for benchmarks whose ids have a form that no other ids have;
- its *canaries*: strings that whoever trains is asked to search for, by one linear scan (RE2) of all texts.

A run that occurs in many tasks of the corpus, or in many items of the benchmark, is boilerplate and counts less:

    w(run) = clip(2 - ln(n) / ln(common), 0, 1),    n = the larger of: tasks that show it, items that hold it
    score  = sum of w over the runs that the trajectory shows / max(1, sum of w over the text's runs)

Up to `common` tasks a run counts whole, from `common`² on not at all. GPT-3 threw out 13-grams found in more than 10
documents (arXiv 2005.14165, appendix C); the logarithm between the two bounds is that of idf-weighted overlap, as
allenai/decon scores it. Tasks are counted, not trajectories: the rollouts of a leaked task all show it.

Words are those of `quality.shingle`: case, white space and punctuation do not matter. Paraphrases and translations are
not found. Nothing here reads a file.
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
"""Words of a run; GPT-3's."""

SAMPLED: Final = 256
"""Runs kept of a text, the smallest hashes: a share of 0.5 is then known to 0.03 (one standard deviation)."""

FEWEST: Final = 4
"""Words that a text must have to be looked for anywhere: fewer are said by anybody."""

Shares = npt.NDArray[np.float64]

_ODD: Final = 0x9E3779B97F4A7C15
_ALL: Final = (1 << 64) - 1
_LENGTH: Final = np.uint64(15)
_BOUNDS: Final = np.zeros(256, np.bool_)
_BOUNDS[[ord(char) for char in "\n\r\t\"'`|<>[]:"]] = True
"""Bytes at which a piece of text that stands alone begins and ends: `Question: …`, `search[…]`, `search('…')`."""
_LETTERS: Final = np.zeros(256, np.bool_)
_LETTERS[[ord(char) for char in "nrt"]] = True


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of words of one text: their hashes, ascending, and whether they are the text as a whole."""

    hashes: Numbers
    whole: bool

    @classmethod
    def of(cls, strings: Sequence[str], fewest: int = FEWEST) -> Runs:
        """Those of a text that stands in several strings: of each string its runs of `RUN` words.

        Strings of fewer words count only where all are so; they are runs by themselves then.

        Args:
            strings: of the text.
            fewest: words of a string that counts.
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
"""Signs that one writer sets and another types."""


_CODES: Final = re.compile(r"(?:\\u[0-9a-fA-F]{4})+")
"""Characters of JSON that was written in ASCII."""


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
    """Fold the texts to one way of writing what looks alike (Unicode's NFKC, lower case, typed quotes and dashes)."""
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
    """Return the hashes of runs of one length, which is their last four bits."""
    hashes = mixed64(sums ^ np.uint64(length * _ODD & _ALL))
    hashes &= ~_LENGTH
    hashes |= np.uint64(length)
    return hashes


class Keys:
    """The runs of many texts, ready to be looked up.

    Args:
        hashes: of all runs, ascending, each once.

    Attributes:
        hashes: as given.
        lengths: of the runs, in words.
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
        """(place in `hashes`, number of the run) of those that are among the runs; all of that length."""
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
    """Runs found: which text, which run by number, and whether a run of fewer words than `RUN` stands alone there."""

    text: Offsets
    run: Offsets
    alone: Flags

    @classmethod
    def of(cls, texts: pa.StringArray, keys: Keys) -> Hits:
        """Find every place of the texts at which one of the runs begins; runs do not go from one text into the next."""
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
    """Flag words `first` to `last` (excluded) with a bound on both sides before the next word of their text."""
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
    """Index of what is looked for: hashes, names of items, and canaries, nothing else of a benchmark.

    Attributes:
        items: names, `benchmark:id`.
        owner: the item of each text, shape (texts,).
        whole: of each text, whether its runs count only where they stand alone or its answer follows.
        run_text, run_hash: every run of every text.
        answer_item, answer_hash: the same of answers, one an item.
        names: hash of a name → by `name_item` its item; ascending.
        canaries: string → item, in lower case.
        patterns: pattern of whole ids → item.
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
        """The runs of texts."""
        return Keys(np.unique(self.run_hash))

    @cached_property
    def answers(self) -> Keys:
        """The runs of answers."""
        return Keys(np.unique(self.answer_hash))

    @cached_property
    def texts_of(self) -> tuple[Offsets, Offsets]:
        """By number of a run the texts that hold it: (offsets, texts)."""
        return _group_values(np.searchsorted(self.runs.hashes, self.run_hash), self.run_text, len(self.runs.hashes))

    @cached_property
    def items_of(self) -> tuple[Offsets, Offsets]:
        """By number of an answer's run the items whose answers hold it: (offsets, items)."""
        number = np.searchsorted(self.answers.hashes, self.answer_hash)
        return _group_values(number, self.answer_item, len(self.answers.hashes))

    @cached_property
    def pattern(self) -> str | None:
        """The pattern that finds any canary, None if there is none."""
        return "(?i)" + "|".join(_escape(text) for text, _ in self.canaries) if self.canaries else None

    def weights(self, common: int, numbers: Numbers, tasks: Numbers) -> Shares:
        """Return the weight of each run, shape (runs,).

        Args:
            common: tasks or items up to which a run counts whole; at least 2.
            numbers: hashes of runs that the corpus shows.
            tasks: how many tasks show each of them.
        """
        offsets, texts = self.texts_of
        run = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        run_of_owner = np.unique(np.stack([run, self.owner[texts]], axis=1), axis=0)[:, 0]
        many = np.bincount(run_of_owner, minlength=len(offsets) - 1).astype(np.float64)
        position = np.searchsorted(self.runs.hashes, numbers)
        many[position] = np.maximum(many[position], tasks)
        return np.clip(2 - np.log(np.maximum(many, 1)) / np.log(common), 0, 1)

    def scores(self, weights: Shares, trajectory: Offsets, run: Offsets) -> tuple[Offsets, Offsets, Shares]:
        """Return (trajectory, text, score) of every text of which a trajectory shows a run.

        Args:
            weights: of runs.
            trajectory, run: which runs each trajectory shows; each pair once.
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
    """Return (text, item) for each canary that a text holds; one scan of all, another of the texts that it finds."""
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
    """(id, item) for each pattern of the index that matches an id as a whole."""
    some = [
        np.flatnonzero(pc.fill_null(pc.match_substring_regex(ids, _whole(pattern)), False))
        for pattern, _ in index.patterns
    ]
    item = np.repeat([item for _, item in index.patterns], [len(hits) for hits in some]).astype(np.int64)
    return np.concatenate([np.zeros(0, np.int64), *some]), item


def pattern_fault(pattern: str) -> str | None:
    """Explain why ids cannot be looked for by a pattern; None if they can."""
    try:
        pc.match_substring_regex(pa.array([""]), _whole(pattern))
    except pa.ArrowInvalid as error:
        return str(error)
    return None


def _whole(pattern: str) -> str:
    return f"(?i)\\A(?:{pattern})\\z"


def name_hash(hashes: Numbers, kind: str) -> Numbers:
    """Hashes of names of a kind: `id`, `checkout` or `task`."""
    salt = {"id": 1, "checkout": 2, "task": 3}[kind]
    return mixed(hashes + np.uint64(salt * _ODD & _ALL))


def few_words(texts: pa.StringArray) -> Numbers:
    """Hash each text that has 1 to `FEWEST` - 1 words, as `task` names are made of; 0 of all others."""
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
    """Name a checkout uniformly: owner, repository and 7 digits of the commit; None if it is no such thing.

    SWE-smith's ids hold 8 digits of a commit, SWE-bench's rows all 40.
    """
    name = repository.strip().lower().removesuffix("/").removesuffix(".git")
    owner = "/".join(name.split("/")[-2:])
    digits = commit.strip().lower()
    known = owner.count("/") == 1 and len(digits) >= 7 and not set(digits) - set("0123456789abcdef")
    return f"{owner}@{digits[:7]}" if known else None
