"""Agreement of the reward with answers that were ranked by reading, which a language model did, blind to any score.

    python -m benchmarks.reward_ranking make OUT SETS [--sets 200]
    python -m benchmarks.reward_ranking SETS

`make` draws target turns of a run by hash and writes for each, in random order, the answers of six predictors that
need no GPU: the state or answer before (`copy`), the answer of the nearest action in another trajectory (`neighbor`),
the same with the arguments of the neighbor's action replaced by the turn's own (`adapted`), a trigram model of words
with the history as its cache (`ngram`), the truth with pieces of another tool's answer (`edited`), and the truth with
one to three words changed (`slip`). A line of SETS holds the ground truth, the answers, and ranks by hand: `first`
and `second` are two passes, in each of which 1 is the best answer and equal ranks are ties.

Without `make`, Kendall's tau-b of the reward and the mean of both passes is printed by domain, beside those of other
rewards: similarity by edits, cosine, F1 of lines, and exact match. `cosine` stands in for RWML (arXiv 2602.05842),
which takes the cosine of embeddings and a threshold: no embedding model is at hand, so it is that of character
trigrams, and without the threshold, which would make most answers equal. Scores are compared to two decimals, as a
hand ties what is worthless.
"""

from __future__ import annotations

import argparse
import difflib
import json
import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import xxhash

from benchmarks.rewards import trajectories
from trajmill.pipelines.mix import reward
from trajmill.pipelines.mix.answerable import mark_random_values
from trajmill.pipelines.mix.checks import checks_of, ground_truth
from trajmill.pipelines.render.answered import Answered, Distractors, Known, words
from trajmill.schemas import DOMAINS

_LONGEST: Final = 1500
"""Characters of an answer up to which a turn is taken, so that a person can read it."""

_TOKEN: Final = re.compile(r"\s+|\w+|[^\w\s]")


class Corpus:
    """The turns of a domain, with what was shown before each."""

    def __init__(self, found: Sequence[Sequence[Answered]]) -> None:
        self.turns = [turn for turns in found for turn in turns]
        self.owner = {turn.key: number for number, turns in enumerate(found) for turn in turns}
        self.histories: dict[str, list[Answered]] = {}
        self.known: dict[str, Known] = {}
        self.others = Distractors()
        for turns in found:
            known = Known()
            for number, turn in enumerate(turns):
                known.saw(turn.previous)
                self.known[turn.key], self.histories[turn.key] = known.now(), list(turns[:number])
                known.add(turn)
                self.others.add(turn)
        self._next: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
        for turn in self.turns:
            self._learn(self._next, turn.observation)

    @staticmethod
    def _learn(table: dict[tuple[str, ...], Counter[str]], text: str, times: int = 1) -> None:
        tokens = ["", "", *_TOKEN.findall(text)[:2000]]
        for place in range(2, len(tokens)):
            for order in range(3):
                table[tuple(tokens[place - order : place])][tokens[place]] += times

    def neighbor(self, turn: Answered) -> Answered | None:
        """The turn of another trajectory whose action has the most words in common."""
        mine = words(turn.action)

        def nearness(other: Answered) -> tuple[float, str]:
            theirs = words(other.action)
            return len(mine & theirs) / max(1, len(mine | theirs)) + (other.tool == turn.tool), other.key

        rest = [one for one in self.turns if self.owner[one.key] != self.owner[turn.key]]
        return max(rest, key=nearness, default=None)

    def generated(self, turn: Answered, draw: random.Random) -> str:
        """What a trigram model tells that knows the other trajectories, and the history of this one ten times over."""
        cache: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
        for one in self.histories[turn.key][-6:]:
            self._learn(cache, one.observation, 10)
        self._learn(cache, turn.action, 3)
        told, length = ["", ""], len(_TOKEN.findall(turn.observation))
        while len(told) - 2 < length:
            counts = Counter[str]()
            for order in (2, 1, 0):
                context = tuple(told[len(told) - order :])
                counts = self._next.get(context, Counter()) + cache.get(context, Counter())
                if counts:
                    break
            names = sorted(counts)
            told.append(draw.choices(names, [counts[name] for name in names])[0])
        return "".join(told)


def _adapted(turn: Answered, other: Answered) -> str:
    """The answer of another turn with that turn's arguments replaced by those of this one."""
    text = other.observation
    for theirs, mine in zip(other.values, turn.values, strict=False):
        if len(theirs) > 1 and theirs != mine:
            text = text.replace(theirs, mine)
    return text


def _edited(turn: Answered, other: str, draw: random.Random) -> str:
    """The truth with some of its lines, or words of a single line, replaced by those of another answer."""
    lines = turn.observation.split("\n")
    pieces, foreign = (
        (lines, other.split("\n")) if len(lines) > 2 else (_TOKEN.findall(turn.observation), _TOKEN.findall(other))
    )
    share = draw.choice((0.2, 0.5, 0.8))
    made = [draw.choice(foreign or [""]) if piece.strip() and draw.random() < share else piece for piece in pieces]
    return ("\n" if len(lines) > 2 else "").join(made)


def _slipped(turn: Answered, draw: random.Random) -> str:
    """The truth with one to three words or numbers changed."""
    tokens = _TOKEN.findall(turn.observation)
    places = [place for place, token in enumerate(tokens) if token[0].isalnum()]
    for place in draw.sample(places, min(len(places), draw.randint(1, 3))):
        token = tokens[place]
        tokens[place] = (
            str(int(token[:9]) + draw.randint(1, 9))
            if token.isdecimal()
            else draw.choice(tokens[:: max(1, len(tokens) // 40)])
        )
    return "".join(tokens)


def answers_of(turn: Answered, corpus: Corpus, foreign: Sequence[Answered]) -> dict[str, str]:
    """The different answers of the predictors to a turn, by their names."""
    draw = random.Random(xxhash.xxh3_64_intdigest(turn.key.encode(), 17))
    neighbor = corpus.neighbor(turn)
    told = {"copy": turn.previous or "", "ngram": corpus.generated(turn, draw)}
    if neighbor is not None:
        told |= {"neighbor": neighbor.observation, "adapted": _adapted(turn, neighbor)}
    told |= {"edited": _edited(turn, draw.choice(foreign).observation, draw), "slip": _slipped(turn, draw)}
    kept: dict[str, str] = {}
    for name, text in told.items():
        if text.strip() and len(text) <= 2 * _LONGEST and text not in kept.values() and text != turn.observation:
            kept[name] = text
    return kept


def drawn_sets(out: Path, most: int) -> Iterator[dict[str, Any]]:
    """Draw turns by hash, as many of each domain, and make their answers."""
    corpora = {domain: Corpus(list(trajectories(out, domain))) for domain in DOMAINS}
    for number, (domain, corpus) in enumerate(corpora.items()):
        foreign = [
            turn
            for other in corpora
            if other != domain
            for turn in corpora[other].turns
            if len(turn.observation) <= _LONGEST
        ]
        turns = [turn for turn in corpus.turns if turn.spans and 1 < len(turn.observation.strip()) <= _LONGEST]
        turns = [turn for turn in turns if not reward.same(turn.observation, turn.previous or "", turn.form)]
        by_tool = Counter[str]()
        wanted = most * (number + 1) // len(DOMAINS) - most * number // len(DOMAINS)
        turns.sort(key=lambda turn: xxhash.xxh3_64_intdigest(turn.key.encode(), 5))
        for turn in turns:
            if not wanted or by_tool[turn.tool] * 2 > most // len(DOMAINS) + 8:
                continue
            marked = mark_random_values(turn, corpus.known[turn.key])
            told = answers_of(marked, corpus, foreign)
            if len(told) < 4:
                continue
            by_tool[turn.tool] += 1
            wanted -= 1
            checks = checks_of(marked, corpus.known[turn.key], corpus.others.of(marked))
            names = sorted(told, key=lambda name: xxhash.xxh3_64_intdigest(f"{turn.key}{name}".encode()))
            yield {
                "key": turn.key,
                "action": turn.action[:1500],
                "ground_truth": ground_truth(marked, checks),
                "answers": [{"by": name, "text": told[name]} for name in names],
            }


def tau_b(ranks: Sequence[float], scores: Sequence[float]) -> float | None:
    """Kendall's tau-b of ranks (1 is best) and scores (more is better); None where either has only ties."""
    agree = total_ranks = total_scores = 0
    for one in range(len(ranks)):
        for other in range(one):
            by_hand = (ranks[other] > ranks[one]) - (ranks[other] < ranks[one])
            by_score = (scores[one] > scores[other]) - (scores[one] < scores[other])
            agree += by_hand * by_score
            total_ranks += by_hand != 0
            total_scores += by_score != 0
    product = float(total_ranks * total_scores) ** 0.5
    return agree / product if product else None


def _edit_similarity(answer: str, truth: Mapping[str, Any]) -> float:
    return difflib.SequenceMatcher(None, answer, truth["observation"], autojunk=False).ratio()


def _cosine(answer: str, truth: Mapping[str, Any]) -> float:
    told, true = (
        Counter(text[place : place + 3] for place in range(max(1, len(text) - 2)))
        for text in (answer, truth["observation"])
    )
    product = sum(number * true[part] for part, number in told.items())
    return product / math.hypot(*told.values()) / math.hypot(*true.values())


def _line_f1(answer: str, truth: Mapping[str, Any]) -> float:
    told, true = (Counter(reward.lines_of(text, truth["form"])) for text in (answer, truth["observation"]))
    return 2 * (told & true).total() / max(1, told.total() + true.total())


REWARDS: Final[Mapping[str, Callable[[str, Mapping[str, Any]], float]]] = {
    "reward": lambda answer, truth: reward.scored(answer, json.dumps(truth))["score"],
    "edits": _edit_similarity,
    "cosine": _cosine,
    "lines": _line_f1,
    "exact": lambda answer, truth: float(reward.same(answer, truth["observation"], truth["form"])),
}


def _mean(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else float("nan")


def print_agreement(sets: Sequence[Mapping[str, Any]]) -> None:
    """Print Kendall's tau-b by domain: between both passes by hand, and of each reward with their mean."""
    found: dict[str, dict[str, list[float | None]]] = defaultdict(lambda: defaultdict(list))
    for one in sets:
        truth = json.loads(one["ground_truth"])
        first, second = ([answer[name] for answer in one["answers"]] for name in ("first", "second"))
        ranks = [a + b for a, b in zip(first, second, strict=True)]
        told = {"by hand": tau_b(first, [-rank for rank in second])}
        for name, score in REWARDS.items():
            told[name] = tau_b(ranks, [round(score(answer["text"], truth), 2) for answer in one["answers"]])
        for domain in (truth["domain"], "all"):
            for name, value in told.items():
                found[domain][name].append(0.0 if value is None and name != "by hand" else value)
    names = ("by hand", *REWARDS)
    print(f"| domain | sets | {' | '.join(names)} |\n|---|" + "---:|" * (1 + len(names)))
    for domain in (*DOMAINS, "all"):
        if domain in found:
            means = " | ".join(f"{_mean(found[domain][name]):.3f}" for name in names)
            print(f"| {domain} | {len(found[domain]['reward'])} | {means} |")


def main() -> None:
    """Makes sets, or prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("arguments", nargs="+", help="make OUT SETS, or SETS")
    parser.add_argument("--sets", type=int, default=200, help="how many are made")
    asked = parser.parse_args()
    if asked.arguments[0] == "make":
        out, path = map(Path, asked.arguments[1:])
        made = [json.dumps(one, ensure_ascii=False) + "\n" for one in drawn_sets(out, asked.sets)]
        path.write_text("".join(made), encoding="utf-8")
        print(f"{len(made)} sets")
    else:
        lines = Path(asked.arguments[0]).read_text(encoding="utf-8").splitlines()
        print_agreement([json.loads(line) for line in lines])


if __name__ == "__main__":
    main()
