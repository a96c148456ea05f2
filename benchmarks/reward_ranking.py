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

    def __init__(self, trajectories: Sequence[Sequence[Answered]]) -> None:
        self.turns = [turn for turns in trajectories for turn in turns]
        self.owner = {turn.key: number for number, turns in enumerate(trajectories) for turn in turns}
        self.histories: dict[str, list[Answered]] = {}
        self.known: dict[str, Known] = {}
        self.others = Distractors()
        for turns in trajectories:
            known = Known()
            for number, turn in enumerate(turns):
                known.saw(turn.previous)
                self.known[turn.key], self.histories[turn.key] = known.now(), list(turns[:number])
                known.add(turn)
                self.others.add(turn.head, turn.observation)
        self._next: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
        for turn in self.turns:
            self._learn(self._next, turn.observation)

    @staticmethod
    def _learn(table: dict[tuple[str, ...], Counter[str]], text: str, times: int = 1) -> None:
        tokens = ["", "", *_TOKEN.findall(text)[:2000]]
        for index in range(2, len(tokens)):
            for order in range(3):
                table[tuple(tokens[index - order : index])][tokens[index]] += times

    def neighbor(self, turn: Answered) -> Answered | None:
        """The turn of another trajectory whose action has the most words in common."""
        mine = words(turn.action)

        def nearness(candidate_turn: Answered) -> tuple[float, str]:
            theirs = words(candidate_turn.action)
            return len(mine & theirs) / max(1, len(mine | theirs)) + (
                candidate_turn.tool == turn.tool
            ), candidate_turn.key

        rest = [candidate for candidate in self.turns if self.owner[candidate.key] != self.owner[turn.key]]
        return max(rest, key=nearness, default=None)

    def generated(self, turn: Answered, draw: random.Random) -> str:
        """Write an answer with a trigram model of the other trajectories and, ten times over, of this one's history."""
        cache: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
        for earlier in self.histories[turn.key][-6:]:
            self._learn(cache, earlier.observation, 10)
        self._learn(cache, turn.action, 3)
        words_so_far, length = ["", ""], len(_TOKEN.findall(turn.observation))
        while len(words_so_far) - 2 < length:
            counts = Counter[str]()
            for order in (2, 1, 0):
                context = tuple(words_so_far[len(words_so_far) - order :])
                counts = self._next.get(context, Counter()) + cache.get(context, Counter())
                if counts:
                    break
            names = sorted(counts)
            words_so_far.append(draw.choices(names, [counts[name] for name in names])[0])
        return "".join(words_so_far)


def _adapt(turn: Answered, neighbor: Answered) -> str:
    """The answer of another turn with that turn's arguments replaced by those of this one."""
    text = neighbor.observation
    for theirs, mine in zip(neighbor.values, turn.values, strict=False):
        if len(theirs) > 1 and theirs != mine:
            text = text.replace(theirs, mine)
    return text


def _edit(turn: Answered, foreign_answer: str, draw: random.Random) -> str:
    """The truth with some of its lines, or words of a single line, replaced by those of another answer."""
    lines = turn.observation.split("\n")
    pieces, foreign = (
        (lines, foreign_answer.split("\n"))
        if len(lines) > 2
        else (_TOKEN.findall(turn.observation), _TOKEN.findall(foreign_answer))
    )
    share = draw.choice((0.2, 0.5, 0.8))
    edited = [draw.choice(foreign or [""]) if piece.strip() and draw.random() < share else piece for piece in pieces]
    return ("\n" if len(lines) > 2 else "").join(edited)


def _slip(turn: Answered, draw: random.Random) -> str:
    """The truth with one to three words or numbers changed."""
    tokens = _TOKEN.findall(turn.observation)
    places = [index for index, token in enumerate(tokens) if token[0].isalnum()]
    for index in draw.sample(places, min(len(places), draw.randint(1, 3))):
        token = tokens[index]
        tokens[index] = (
            str(int(token[:9]) + draw.randint(1, 9))
            if token.isdecimal()
            else draw.choice(tokens[:: max(1, len(tokens) // 40)])
        )
    return "".join(tokens)


def answers_of(turn: Answered, corpus: Corpus, foreign: Sequence[Answered]) -> dict[str, str]:
    """The different answers of the predictors to a turn, by their names."""
    draw = random.Random(xxhash.xxh3_64_intdigest(turn.key.encode(), 17))
    neighbor = corpus.neighbor(turn)
    candidates = {"copy": turn.previous or "", "ngram": corpus.generated(turn, draw)}
    if neighbor is not None:
        candidates |= {"neighbor": neighbor.observation, "adapted": _adapt(turn, neighbor)}
    candidates |= {"edited": _edit(turn, draw.choice(foreign).observation, draw), "slip": _slip(turn, draw)}
    distinct: dict[str, str] = {}
    for name, text in candidates.items():
        if text.strip() and len(text) <= 2 * _LONGEST and text not in distinct.values() and text != turn.observation:
            distinct[name] = text
    return distinct


def draw_sets(out: Path, most: int) -> Iterator[dict[str, Any]]:
    """Draw turns by hash, as many of each domain, and make their answers."""
    corpora = {domain: Corpus(list(trajectories(out, domain))) for domain in DOMAINS}
    for number, (domain, corpus) in enumerate(corpora.items()):
        foreign = [
            turn
            for other_domain in corpora
            if other_domain != domain
            for turn in corpora[other_domain].turns
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
            answers = answers_of(marked, corpus, foreign)
            if len(answers) < 4:
                continue
            by_tool[turn.tool] += 1
            wanted -= 1
            checks = checks_of(marked, corpus.known[turn.key], corpus.others.of(marked))
            names = sorted(answers, key=lambda name: xxhash.xxh3_64_intdigest(f"{turn.key}{name}".encode()))
            yield {
                "key": turn.key,
                "action": turn.action[:1500],
                "ground_truth": ground_truth(marked, checks),
                "answers": [{"by": name, "text": answers[name]} for name in names],
            }


def tau_b(ranks: Sequence[float], scores: Sequence[float]) -> float | None:
    """Kendall's tau-b of ranks (1 is best) and scores (more is better); None where either has only ties."""
    agree = total_ranks = total_scores = 0
    for later in range(len(ranks)):
        for earlier in range(later):
            by_hand = (ranks[earlier] > ranks[later]) - (ranks[earlier] < ranks[later])
            by_score = (scores[later] > scores[earlier]) - (scores[later] < scores[earlier])
            agree += by_hand * by_score
            total_ranks += by_hand != 0
            total_scores += by_score != 0
    product = float(total_ranks * total_scores) ** 0.5
    return agree / product if product else None


def _edit_similarity(answer: str, truth: Mapping[str, Any]) -> float:
    return difflib.SequenceMatcher(None, answer, truth["observation"], autojunk=False).ratio()


def _cosine(answer: str, truth: Mapping[str, Any]) -> float:
    answered, true = (
        Counter(text[begin : begin + 3] for begin in range(max(1, len(text) - 2)))
        for text in (answer, truth["observation"])
    )
    product = sum(number * true[part] for part, number in answered.items())
    return product / math.hypot(*answered.values()) / math.hypot(*true.values())


def _line_f1(answer: str, truth: Mapping[str, Any]) -> float:
    answered, true = (Counter(reward.lines_of(text, truth["form"])) for text in (answer, truth["observation"]))
    return 2 * (answered & true).total() / max(1, answered.total() + true.total())


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
    by_domain: dict[str, dict[str, list[float | None]]] = defaultdict(lambda: defaultdict(list))
    for answer_set in sets:
        truth = json.loads(answer_set["ground_truth"])
        first, second = ([answer[name] for answer in answer_set["answers"]] for name in ("first", "second"))
        ranks = [a + b for a, b in zip(first, second, strict=True)]
        by_score = {"by hand": tau_b(first, [-rank for rank in second])}
        for name, score in REWARDS.items():
            by_score[name] = tau_b(ranks, [round(score(answer["text"], truth), 2) for answer in answer_set["answers"]])
        for domain in (truth["domain"], "all"):
            for name, value in by_score.items():
                by_domain[domain][name].append(0.0 if value is None and name != "by hand" else value)
    names = ("by hand", *REWARDS)
    print(f"| domain | sets | {' | '.join(names)} |\n|---|" + "---:|" * (1 + len(names)))
    for domain in (*DOMAINS, "all"):
        if domain in by_domain:
            means = " | ".join(f"{_mean(by_domain[domain][name]):.3f}" for name in names)
            print(f"| {domain} | {len(by_domain[domain]['reward'])} | {means} |")


def main() -> None:
    """Makes sets, or prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("arguments", nargs="+", help="make OUT SETS, or SETS")
    parser.add_argument("--sets", type=int, default=200, help="how many are made")
    asked = parser.parse_args()
    if asked.arguments[0] == "make":
        out, path = map(Path, asked.arguments[1:])
        set_lines = [json.dumps(answer_set, ensure_ascii=False) + "\n" for answer_set in draw_sets(out, asked.sets)]
        path.write_text("".join(set_lines), encoding="utf-8")
        print(f"{len(set_lines)} sets")
    else:
        lines = Path(asked.arguments[0]).read_text(encoding="utf-8").splitlines()
        print_agreement([json.loads(line) for line in lines])


if __name__ == "__main__":
    main()
