"""What checks of RL turns are worth: how many turns have one, what they let pass, what lazy answers earn by rules.

    python -m benchmarks.rewards --out OUT [--show N]

Turns are the targets of a run. Answers are halved by hash: by those of one half checks are tried, those of the other
are the unseen negatives. A negative of a turn is another answer of the same tool that is not the turn's own; a false
accept is one that rules give a 1. Sanity is the mean score by rules: of the truth, of the answer before, of nothing, of
the action, and of the answer of another turn of the domain, on turns with a check whose answer differs from the one
before. Of turns that change nothing only those count as checked that may be asked for. The second table is what these
earn on changed states without a check, by the F1 of changed lines. `--show` prints about N turns a domain with their
checks, and every false accept. Volatile spans are those of the run, where it was made with `judge: {spans: true}`.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import xxhash

from trajmill.pipelines.mix import reward
from trajmill.pipelines.mix.checks import checks_of, ground_truth, keeps_no_change
from trajmill.pipelines.render.answered import Answered, Distractors, Known, turn_of
from trajmill.pipelines.render.fixed_texts import COMMANDS, ending
from trajmill.schemas import DOMAINS

_COLUMNS = "row_id trajectory_id segment step domain observation action next_observation exit_code timed_out scrubbed"
_UNSEEN = 16
"""Negatives of a turn that are tried."""

_LAZY = ("truth", "previous", "empty", "echo", "shuffled")


@dataclass(slots=True)
class Told:
    """Of one domain: turns, those with a check, negatives tried and let pass, and what lazy answers earn."""

    turns: int = 0
    checked: int = 0
    states: int = 0
    negatives: int = 0
    accepted: int = 0
    types: Counter[str] = field(default_factory=Counter)
    scores: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))


def trajectories(out: Path, domain: str) -> Iterator[list[Answered]]:
    """The turns of each kept trajectory of a run, with whether it is a target as `spans` of the class `target`."""
    for path in sorted((out / "transitions" / domain).glob("*.parquet")):
        verdict = pq.read_table(out / "verdicts" / domain / path.name, columns=["kept", "use"]).to_pylist()
        rows = pq.read_table(path, columns=_COLUMNS.split()).to_pylist()
        labels = out / "spans" / domain / path.name
        spans = pq.read_table(labels)["spans"].to_pylist() if labels.exists() else [[]] * len(rows)
        held: list[Answered] = []
        last, shown = None, None
        for row, judged, labelled in zip(rows, verdict, spans, strict=True):
            if not judged["kept"]:
                continue
            if (row["trajectory_id"], row["segment"]) != last or row["step"] == 0:
                if held:
                    yield held
                held, shown = [], None
                last = (row["trajectory_id"], row["segment"])
            after, before = row["next_observation"], row["observation"]
            if judged["use"] == "omit" or after is None or after["content"] is None:
                continue
            told = ending(row["exit_code"], row["timed_out"]) if row["domain"] in COMMANDS else ""
            text = "\n".join(part for part in (after["content"], told) if part)
            state = before["content"] if before and before["origin"] == "environment" else None
            label = ((0, 0, "target"),) if judged["use"] == "target" else ()
            volatile = list(_points(text, [one for one in labelled if one["label"] == "volatile"]))
            held.append(turn_of(row, text, state if state is not None else shown, volatile, label))
            shown = text
        if held:
            yield held


def _points(text: str, spans: Sequence[dict[str, Any]]) -> Iterator[tuple[int, int]]:
    """Spans in bytes as spans in code points."""
    encoded = text.encode("utf-8", "replace") if spans else b""
    for span in spans:
        begin, end = (len(encoded[: span[name]].decode("utf-8", "ignore")) for name in ("begin", "end"))
        yield begin, end


def _parity(text: str) -> int:
    return xxhash.xxh3_64_intdigest(text.encode("utf-8", "replace"), 7) & 1


def measured(found: Sequence[Sequence[Answered]], show: int) -> Told:
    """What checks of a domain's trajectories are worth."""
    sides = (Distractors(), Distractors(64))
    everything = [turn for turns in found for turn in turns]
    for turn in everything:
        sides[_parity(turn.observation)].add(turn)
    told = Told()
    for turns in found:
        known = Known()
        for turn in turns:
            known.saw(turn.previous)
            if turn.spans:
                _measure(told, turn, known, sides, everything, show)
            known.add(turn)
    return told


def _measure(
    told: Told,
    turn: Answered,
    known: Known,
    sides: tuple[Distractors, Distractors],
    all_of: Sequence[Answered],
    show: int,
) -> None:
    checks = checks_of(turn, known, sides[0].of(turn))
    if any(check["type"] == "no_change" for check in checks) and not keeps_no_change(turn.key, 0):
        checks = []
    truth = ground_truth(turn, checks)
    changes = not reward.same(turn.previous or "", turn.observation, turn.form)
    told.turns += 1
    told.checked += bool(checks)
    told.states += turn.form in reward.STATES and changes and not checks
    told.types.update({check["type"] for check in checks})
    if checks:
        unseen = [one for one in sides[1].of(turn) if not reward.same(one, turn.observation, turn.form)][:_UNSEEN]
        accepted = [one for one in unseen if reward.scored(one, truth)["rules"] == 1.0]
        told.negatives += len(unseen)
        told.accepted += len(accepted)
        number = xxhash.xxh3_64_intdigest(turn.key.encode(), 3)
        if number % 100_003 / 100_003 < show / max(len(all_of), 1) * 3 or (show and accepted):
            _print(turn, checks, accepted)
    if not changes or not turn.observation.strip() or (not checks and turn.form not in reward.STATES):
        return
    other = all_of[xxhash.xxh3_64_intdigest(turn.key.encode(), 11) % len(all_of)].observation
    answers = (turn.observation, turn.previous or "", "", turn.action, other)
    for name, answer in zip(_LAZY, answers, strict=True):
        if name != "shuffled" or not reward.same(other, turn.observation, turn.form):
            told.scores[name if checks else f"lines {name}"].append(reward.scored(answer, truth)["rules"])


def _print(turn: Answered, checks: Sequence[dict[str, Any]], accepted: Sequence[str]) -> None:
    print(f"\n=== {turn.domain} {turn.head} {turn.form}\n<<< {turn.action[:500]}\n>>> {turn.observation[:700]}")
    for check in checks:
        print("  CHECK", json.dumps(check, ensure_ascii=False)[:300])
    for one in accepted[:1]:
        print("  FALSELY ACCEPTED", repr(one[:400]))


def _mean(scores: Sequence[float]) -> str:
    return f"{sum(scores) / len(scores):.3f}" if scores else ""


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, type=Path, help="folder of a run")
    parser.add_argument("--show", type=int, default=0, help="checks a domain to print, about")
    parser.add_argument("--domain", action="append", choices=DOMAINS)
    told = parser.parse_args()
    rows = {domain: measured(list(trajectories(told.out, domain)), told.show) for domain in told.domain or DOMAINS}
    print("\n| domain | turns | with a check | unseen negatives | let pass | " + " | ".join(_LAZY) + " |")
    print("|---|" + "---:|" * (4 + len(_LAZY)))
    for domain, one in rows.items():
        share = f"{one.checked} ({one.checked / max(one.turns, 1):.0%})"
        passed = f"{one.accepted / max(one.negatives, 1):.2%}"
        means = " | ".join(_mean(one.scores[name]) for name in _LAZY)
        print(f"| {domain} | {one.turns} | {share} | {one.negatives} | {passed} | {means} |")
    print("\n| domain | changed states without a check | " + " | ".join(_LAZY) + " |")
    print("|---|" + "---:|" * (1 + len(_LAZY)))
    for domain, one in rows.items():
        print(f"| {domain} | {one.states} | " + " | ".join(_mean(one.scores[f"lines {name}"]) for name in _LAZY) + " |")
    print("\n| domain | turns by type of check |\n|---|---|")
    for domain, one in rows.items():
        print(f"| {domain} | " + ", ".join(f"{kind} {count}" for kind, count in one.types.most_common()) + " |")


if __name__ == "__main__":
    main()
