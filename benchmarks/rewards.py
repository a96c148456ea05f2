"""Measure how well the reward ranks: adversarial answers within their bounds, and the value of checks of turns.

    python -m benchmarks.rewards --out OUT [--show N]

The first table tells by domain which share of the adversarial answers (`pipelines.mix.adversaries`, drawn with
another seed than the pipeline's) scores within its bounds, over every target turn of the run. The second one is of
checks: answers are halved by hash, by those of one half checks are tried, and those of the other half are unseen;
`let pass` is the share of them that pass all checks of a turn whose answer they are not. `--show` prints about N
turns a domain with their checks, and answers out of bounds. Volatile spans are those of the run, where it was made
with `judge: {spans: true}`, and the random values of answers.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import xxhash

from trajmill.pipelines.mix import reward
from trajmill.pipelines.mix.adversaries import adversaries
from trajmill.pipelines.mix.answerable import is_unknowable, mark_random_values
from trajmill.pipelines.mix.checks import checks_of, ground_truth, keeps_no_change, weight
from trajmill.pipelines.render.answered import Answered, Distractors, Known, turn_of
from trajmill.pipelines.render.fixed_texts import COMMANDS, ending
from trajmill.schemas import DOMAINS

_COLUMNS = "row_id trajectory_id segment step domain observation action next_observation exit_code timed_out scrubbed"
_UNSEEN = 16
"""Answers of other turns that are tried on the checks of one."""

_SEED = 1
_ADVERSARIES = (
    *("truth", "fenced", "other JSON", "empty", "previous", "rubbish", "echo"),
    *("shuffled", "number", "other answer", "half"),
)


@dataclass(slots=True)
class Measured:
    """Of one domain: adversarial answers in all and within bounds by name, and what checks are worth."""

    turns: int = 0
    unknowable: int = 0
    checked: int = 0
    unseen: int = 0
    accepted: int = 0
    types: Counter[str] = field(default_factory=Counter)
    tried: Counter[str] = field(default_factory=Counter)
    held: Counter[str] = field(default_factory=Counter)


def trajectories(out: Path, domain: str) -> Iterator[list[Answered]]:
    """The turns of each kept trajectory of a run, with whether it is a target as `spans` of the class `target`."""
    for path in sorted((out / "transitions" / domain).glob("*.parquet")):
        verdict = pq.read_table(out / "verdicts" / domain / path.name, columns=["kept", "use"]).to_pylist()
        rows = pq.read_table(path, columns=_COLUMNS.split()).to_pylist()
        labels = out / "spans" / domain / path.name
        spans = pq.read_table(labels)["spans"].to_pylist() if labels.exists() else [[]] * len(rows)
        turns: list[Answered] = []
        last, shown = None, None
        for row, judged, labelled in zip(rows, verdict, spans, strict=True):
            if not judged["kept"]:
                continue
            if (row["trajectory_id"], row["segment"]) != last or row["step"] == 0:
                if turns:
                    yield turns
                turns, shown = [], None
                last = (row["trajectory_id"], row["segment"])
            after, before = row["next_observation"], row["observation"]
            if judged["use"] == "omit" or after is None or after["content"] is None:
                continue
            exit_line = ending(row["exit_code"], row["timed_out"]) if row["domain"] in COMMANDS else ""
            text = "\n".join(part for part in (after["content"], exit_line) if part)
            state = before["content"] if before and before["origin"] == "environment" else None
            label = ((0, 0, "target"),) if judged["use"] == "target" else ()
            volatile = list(
                _points(text, [labelled_span for labelled_span in labelled if labelled_span["label"] == "volatile"])
            )
            turns.append(turn_of(row, text, state if state is not None else shown, volatile, label))
            shown = text
        if turns:
            yield turns


def _points(text: str, spans: Sequence[dict[str, Any]]) -> Iterator[tuple[int, int]]:
    """Spans in bytes as spans in code points."""
    encoded = text.encode("utf-8", "replace") if spans else b""
    for span in spans:
        begin, end = (len(encoded[: span[name]].decode("utf-8", "ignore")) for name in ("begin", "end"))
        yield begin, end


def _parity(text: str) -> int:
    return xxhash.xxh3_64_intdigest(text.encode("utf-8", "replace"), 7) & 1


def measure_domain(domain_trajectories: Sequence[Sequence[Answered]], show: int) -> Measured:
    """Measure the targets among the turns of a domain's trajectories."""
    sides = (Distractors(), Distractors(64))
    for turn in (turn for turns in domain_trajectories for turn in turns):
        sides[_parity(turn.observation)].add(turn.head, turn.observation)
    totals = Measured()
    for turns in domain_trajectories:
        known = Known()
        for turn in turns:
            known.saw(turn.previous)
            if turn.spans:
                _measure(totals, mark_random_values(turn, known), known, sides, show)
            known.add(turn)
    return totals


def _measure(totals: Measured, turn: Answered, known: Known, sides: tuple[Distractors, Distractors], show: int) -> None:
    others = sides[0].of(turn)
    checks = checks_of(turn, known, others)
    if any(check["type"] == "no_change" for check in checks) and not keeps_no_change(turn.key, 0):
        checks = []
    totals.turns += 1
    if is_unknowable(turn, known, others):
        totals.unknowable += 1
        return
    totals.checked += bool(checks)
    totals.types.update({check["type"] for check in checks})
    truth = ground_truth(turn, checks)
    if checks:
        unseen = [answer for answer in sides[1].of(turn) if not reward.same(answer, turn.observation, turn.form)][
            :_UNSEEN
        ]
        loaded = reward.parsed(truth)
        totals.unseen += len(unseen)
        totals.accepted += sum(all(reward.passes(check, answer, loaded) for check in checks) for answer in unseen)
    if not weight(turn, checks):
        return
    shown = show and xxhash.xxh3_64_intdigest(turn.key.encode(), 3) % 1000 < show
    if shown:
        print(f"\n=== {turn.domain} {turn.head} {turn.form}\n<<< {turn.action[:500]}\n>>> {turn.observation[:700]}")
        for check in checks:
            print("  CHECK", json.dumps(check, ensure_ascii=False)[:300])
    for adversary in adversaries(turn, others, _SEED):
        score = reward.scored(adversary.answer, truth)["score"]
        totals.tried[adversary.name] += 1
        totals.held[adversary.name] += adversary.low <= score <= adversary.high
        if show and not adversary.low <= score <= adversary.high:
            print(
                f"  {score:.3f} FOR {adversary.name}: {turn.key} {turn.observation[:200]!r} {adversary.answer[:200]!r}"
            )


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, type=Path, help="folder of a run")
    parser.add_argument("--show", type=int, default=0, help="turns in a thousand to print")
    parser.add_argument("--domain", action="append", choices=DOMAINS)
    asked = parser.parse_args()
    rows = {
        domain: measure_domain(list(trajectories(asked.out, domain)), asked.show) for domain in asked.domain or DOMAINS
    }
    print("\n| domain | turns | " + " | ".join(_ADVERSARIES) + " |\n|---|" + "---:|" * (1 + len(_ADVERSARIES)))
    for domain, totals in [*rows.items(), ("all", _sum(list(rows.values())))]:
        shares = [
            f"{totals.held[name] / totals.tried[name]:.1%}" if totals.tried[name] else "" for name in _ADVERSARIES
        ]
        print(f"| {domain} | {totals.turns - totals.unknowable} | {' | '.join(shares)} |")
    print("\n| domain | turns | unknowable | with a check | unseen answers | let pass | by type of check |")
    print("|---|" + "---:|" * 5 + "---|")
    for domain, totals in rows.items():
        share = f"{totals.checked} ({totals.checked / max(totals.turns, 1):.0%})"
        kinds = ", ".join(f"{kind} {count}" for kind, count in totals.types.most_common())
        print(
            f"| {domain} | {totals.turns} | {totals.unknowable} | {share} | {totals.unseen} | "
            f"{totals.accepted / max(totals.unseen, 1):.2%} | {kinds} |"
        )


def _sum(parts: Sequence[Measured]) -> Measured:
    total = Measured(sum(part.turns for part in parts), sum(part.unknowable for part in parts))
    for part in parts:
        total.tried.update(part.tried)
        total.held.update(part.held)
    return total


if __name__ == "__main__":
    main()
