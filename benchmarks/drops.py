"""Audit of the rules on real logs: drops are shown for a person to judge, and counted against committed judgments.

    python -m benchmarks.drops --raw CORPORA --out FOLDER                    the tables, as Markdown
    python -m benchmarks.drops --raw CORPORA --out FOLDER --show RULE        up to 100 drops of a rule, to judge

Every domain's own recipe runs over the whole folder up to its verdicts, with a rule for each further signal that a rule
can be set by (`MORE`), and once more all domains together against benchmarks taken from the same logs (`ITEMS`). A
drop is what a rule alone would drop, whatever other rules say of it: a transition, or a trajectory for rules on whole
ones. A rule with a cap counts as if the cap were 0. Of duplicates, contamination and rows without text a drop is what
the run gives that reason to.

Drops are judged in turn from each format, so that one large log does not hide the others, and within a format by hash
of (rule, file, trajectory, step), which depends on no order of the run. A label names the raw file relative to the
folder, the trajectory, the step (-1 for a trajectory) and the rule, and says whether the drop is right. Nothing of the
logs' text is in a label. A label whose drop no longer occurs is not counted.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow.parquet as pq

from benchmarks.labels import LABELS, Label, Place, read_labels
from trajmill.pipelines.judge.judging import Unit
from trajmill.pipelines.judge.reasons import CONTAMINATED, LOST, LOST_ROWS, NO_TARGET, NO_TEXT
from trajmill.pipelines.judge.replicates import NAME as REPLICATES
from trajmill.pipelines.recipe.judgement import Benchmark, RuleValues
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.storage.folders import Folder
from trajmill.quality.signal import Numbers
from trajmill.schemas import COMPLETE, DOMAINS, KEYSTROKES, MESSAGE, WAIT
from trajmill.schemas.verdict import SIGNAL_PREFIX

MORE: Final[Mapping[str, RuleValues]] = {
    "other_language": RuleValues(signal="language", min=0.3),
    "undeclared_tool": RuleValues(signal="undeclared_tool", max=0, use="context"),
    "loop": RuleValues(signal="loop", max=0.5),
    "control_tokens": RuleValues(signal="control_tokens", max=0, use="omit"),
    "side_request": RuleValues(signal="side_request", max=0, use="context"),
    "unannounced_timeout": RuleValues(signal="unannounced_timeout", max=0, use="context"),
    "harness_answer": RuleValues(signal="harness_answer", max=0, use="omit"),
    "binary_content": RuleValues(signal="binary_content", max=0.05, use="omit"),
    "opaque_content": RuleValues(signal="opaque_content", max=0.1, use="context"),
    "unsettled": RuleValues(signal="unsettled", max=0, use="context"),
    "context_leak": RuleValues(signal="context_leak", max=0.2, use="context"),
    "reasoning_leak": RuleValues(signal="reasoning_leak", max=0.05, use="context"),
    "turn_mask": RuleValues(signal="turn_mask", min=1, use="context"),
    "no_op": RuleValues(signal="no_op", max=0, cap=0.2),
    "empty_answer": RuleValues(signal="empty_answer", max=0, cap=0.2),
    "error_observation": RuleValues(signal="error_observation", max=0, cap=0.3),
}
"""Rules that are added to a recipe that has none of that name, after its own."""

SETTINGS: Final[Mapping[str, Mapping[str, Any]]] = {"language": {"languages": ["en", "zh"]}}
"""Of the signals of these that need some."""

NUMBERS: Final = frozenset(
    {
        "overlap",
        "novelty",
        "error_share",
        "error_streak",
        "length",
        "length_ratio",
        "outcome",
        "turn_category",
        "turn_tokens",
        "history_predictability",
        "step_predictability",
    }
)
"""Signals without a rule here: what they measure is looked at, or decides within another signal."""

ITEMS: Final[Mapping[str, Mapping[str, Any]]] = {
    "predictions": {
        "path": "swe/swebench_predictions/OpenHands__OpenHands/evaluation/benchmarks/swe_bench/examples/"
        "example_model_output.json",
        "id": "instance_id",
    },
    "questions": {
        "path": "search/qa_seed_jsonl/Alibaba-NLP__DeepResearch/WebAgent/WebWeaver/eval_data/sample.jsonl",
        "texts": ("question",),
    },
}
"""Benchmarks, by files of the corpora relative to their folder."""

NUMBER: Final = 100
"""Drops of a rule that are judged."""

KINDS: Final = ("all", "domain", "action", "error", "outcome")
"""By what drop rates are told."""

_TURNS: Final = {MESSAGE: "message", COMPLETE: "complete", WAIT: "wait", KEYSTROKES: "keystrokes"}


@dataclass(frozen=True, slots=True)
class Drop:
    """A transition or trajectory that a rule would drop.

    Attributes:
        place: file, trajectory, step and rule: what a label names.
        measured: the signal's number; 1 where the run itself gives the reason.
        row: the row of the domain's table; of a trajectory its first.
    """

    place: Place
    domain: str
    connector: str
    measured: float
    row: int


@dataclass(frozen=True, slots=True)
class Table:
    """Result of a run of one recipe: payload and verdicts, row by row.

    Attributes:
        recipe: that was run.
        rows: of the payload.
        verdicts: beside them.
        details: (`row_id`, step or -1 for the whole trajectory) → what the run says about a drop.
    """

    recipe: Recipe
    rows: list[dict[str, Any]]
    verdicts: list[dict[str, Any]]
    details: dict[tuple[str, int], str]


Found: TypeAlias = tuple[Table, Drop]
Rows: TypeAlias = Sequence[Mapping[str, Any]]


def whole_recipe(name: str) -> Recipe:
    """The built-in recipe of a domain with every rule on, none of which spares a share, no bound on rejected inputs,
    and no benchmark, which would take the trajectories of published tasks out of every other rule's count.
    """
    recipe = load_recipe(name)
    rules = {rule: values.model_copy(update={"spare": None}) for rule, values in recipe.judge.rules.items()}
    more = {rule: values for rule, values in MORE.items() if rule not in rules}
    judge = {"rules": {**rules, **more}, "benchmarks": (), "signals": {**recipe.judge.signals, **SETTINGS}}
    return recipe.model_copy(
        update={
            "judge": recipe.judge.model_copy(update=judge),
            "normalize": recipe.normalize.model_copy(update={"max_reject_ratio": 1.0}),
        }
    )


def benchmark_recipe(raw: str) -> Recipe:
    """A recipe of all domains that drops nothing but what shows an item of `ITEMS`."""
    recipe = Recipe(name="benchmarks", source="corpora")
    items = [Benchmark(name=name, **{**of, "path": f"{raw}/{of['path']}"}) for name, of in ITEMS.items()]
    judge = recipe.judge.model_copy(update={"benchmarks": tuple(items), "near_duplicates": None})
    return recipe.model_copy(
        update={"judge": judge, "normalize": recipe.normalize.model_copy(update={"max_reject_ratio": 1.0})}
    )


def run_over(recipe: Recipe, raw: str, out: str) -> Table:
    """Runs a recipe up to its verdicts, and reads what it left."""
    run = Run(recipe, [raw], out)
    run.run("judge")
    rows: list[dict[str, Any]] = []
    verdicts: list[dict[str, Any]] = []
    details: dict[tuple[str, int], str] = {}
    rejects = Folder(out) / "rejects" / "judge"
    for number, name in enumerate(run.transitions.names(".parquet")):
        rows += pq.read_table(run.transitions.path(name)).to_pylist()
        judged = pq.read_table(run.verdicts.path(name)).to_pylist()
        reject_rows = pq.read_table(rejects.path(f"{Unit(number, name, '').label}.parquet")).to_pylist()
        verdicts += judged
        details |= details_of(judged, reject_rows)
    return Table(recipe, rows, verdicts, details)


def details_of(verdicts: Rows, rejects: Rows) -> dict[tuple[str, int], str]:
    """(`row_id`, step or -1) → detail of each reject of a unit, which stand in the order of the rows they are about."""
    about = [
        verdict for verdict in verdicts if (verdict["use"] != "target" if verdict["kept"] else verdict["step"] == 0)
    ]
    return {
        (verdict["row_id"], reject["step"]): reject["detail"] for verdict, reject in zip(about, rejects, strict=True)
    }


def order(place_of_drop: Place) -> str:
    """A hash of the rule and the place."""
    return hashlib.sha256("\n".join(map(str, place_of_drop)).encode()).hexdigest()


def in_turn(drops: Iterable[Found]) -> list[Found]:
    """Drops, each with its table, in the order to judge in: in turn one of each format, by hash within a format."""
    seen: Counter[str] = Counter()
    ranked = []
    for pair in sorted(drops, key=lambda pair: order(pair[1].place)):
        ranked.append((seen[pair[1].connector], order(pair[1].place), pair))
        seen[pair[1].connector] += 1
    return [pair for _, _, pair in sorted(ranked, key=lambda of: of[:2])]


def _drop(table: Table, rule: str, row: int, whole: bool, measured: float) -> Drop:
    values = table.rows[row]
    key = Place(values["provenance"]["uri"], values["trajectory_id"], -1 if whole else values["step"], rule)
    return Drop(key, values["domain"], values["provenance"]["connector"], measured, row)


def drops_of(table: Table, only: Iterable[str] | None = None) -> dict[str, list[Drop]]:
    """Rule → what it would drop, in the run's order. Reasons of the run count as rules; `only` names some."""
    firsts = {row for row, values in enumerate(table.rows) if values["step"] == 0}
    drops: dict[str, list[Drop]] = {}
    for rule in table.recipe.judge.ordered_rules():
        numbers: Numbers = np.array([v[SIGNAL_PREFIX + rule.signal] for v in table.verdicts], np.float32)
        whole = rule.scope == "trajectory"
        broken = [row for row in np.flatnonzero(~rule.keep(numbers)).tolist() if not whole or row in firsts]
        drops[rule.name] = [_drop(table, rule.name, row, whole, float(numbers[row])) for row in broken]
    for reason in (*LOST, *LOST_ROWS, NO_TARGET, NO_TEXT):
        whole = reason in LOST or reason == NO_TARGET
        rows = [row for row, verdict in enumerate(table.verdicts) if verdict["reason"] == reason]
        drops[reason] = [_drop(table, reason, row, whole, 1.0) for row in rows if not whole or row in firsts]
    return drops if only is None else {rule: drops[rule] for rule in only}


def _head(text: str | None, width: int) -> str:
    """The beginning and end of a text as one line."""
    if text is None:
        return "-"
    line = repr(text)
    return line if len(line) <= width else f"{line[: width * 2 // 3]} … {line[-width // 3 :]}"


def shown(table: Table, drop: Drop, width: int) -> Iterator[str]:
    """Yield what a judge needs of a drop, in lines: its place, the measure, and the text before, in and after it."""
    values, location = table.rows[drop.row], drop.place
    whole = location.step < 0
    origin = values["provenance"]
    member = f" member {origin['member']}" if origin["member"] else ""
    at = f"offset {origin['offset']}{member} ({origin['connector']})"
    yield f"# {location.file} {at}"
    step = f"trajectory of {values['num_steps']} steps" if whole else f"step {location.step} of {values['num_steps']}"
    yield f"  {location.trajectory} {step} {drop.domain} measured {drop.measured:g}"
    detail = table.details.get((values["row_id"], location.step))
    if detail:
        yield f"  detail      {detail}"
    yield f"  instruction {_head(values['task'] and values['task']['instruction'], width // 3)}"
    rows = range(drop.row, drop.row + values["num_steps"]) if whole else [drop.row]
    for row in list(rows)[:8]:
        step_row = table.rows[row]
        before, action, after = step_row["observation"], step_row["action"], step_row["next_observation"]
        facts = {} if after is None else {k: after[k] for k in ("form", "origin", "is_error", "truncation")}
        yield f"  {step_row['step']:3} before {_head(before and before['content'], width // 2)}"
        yield f"      action {action['name']!r} {_head(action['text'], width // 2)} said {_head(action['message'], 60)}"
        yield f"      after  {_head(after and after['content'], width)} {facts} exit {step_row['exit_code']}"


def interval(right: int, of: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share; (0, 1) of nothing (Wilson 1927)."""
    if not of:
        return 0.0, 1.0
    z, share = 1.96, right / of
    middle = share + z * z / (2 * of)
    spread = z * sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    scale = 1 + z * z / of
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


def precision_table(drops: Mapping[str, Sequence[Drop]], labels: Mapping[Place, Label]) -> Iterator[str]:
    """Markdown: of each rule how many drops there are, how many of those to judge are labelled, and how many right."""
    yield "| rule | drops | judged | right | precision | 95 % interval | labels of drops that no longer occur |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for rule in sorted(drops, key=lambda rule: (-len(drops[rule]), rule)):
        of = drops[rule]
        judged = [labels[drop.place] for drop in of[:NUMBER] if drop.place in labels]
        right = sum(label.right for label in judged)
        low, high = interval(right, len(judged))
        places = {drop.place for drop in of}
        gone = Counter(
            label.verdict for location, label in labels.items() if location.rule == rule and location not in places
        )
        lost = ", ".join(f"{number} {verdict}" for verdict, number in sorted(gone.items()))
        share = f"{right / len(judged):.2f} | {low:.2f} to {high:.2f}" if judged else " | "
        yield f"| {rule} | {len(of)} | {len(judged)} | {right} | {share} | {lost} |"


def kind_of(action: Mapping[str, Any]) -> str:
    """Classify an action: speaking, typing, waiting, ending, text without a call, or a call."""
    return _TURNS.get(action["name"], "call" if action["name"] else "text")


def facts_of(table: Table, row: int) -> dict[str, str]:
    """By what drop rates are told, of a row."""
    values, verdict = table.rows[row], table.verdicts[row]
    outcome = values["outcome"]
    known = None if outcome is None else outcome["resolved"]
    return {
        "domain": values["domain"],
        "action": kind_of(values["action"]),
        "error": "yes" if verdict[SIGNAL_PREFIX + "error_observation"] else "no",
        "outcome": {None: "not known", True: "resolved", False: "not resolved"}[known],
    }


def rate_table(tables: Sequence[Table]) -> Iterator[str]:
    """Markdown: what became of the transitions, by domain, kind of action, error and outcome."""
    uses: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    reasons: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for table in tables:
        for row, verdict in enumerate(table.verdicts):
            use = verdict["use"] if verdict["kept"] else "dropped"
            for key in (("all", ""), *facts_of(table, row).items()):
                uses[key][use] += 1
                if verdict["reason"] is not None:
                    reasons[key][verdict["reason"]] += 1
    yield "| by | | transitions | target | context | omit | trajectory dropped | most common reasons |"
    yield "|---|---|---:|---:|---:|---:|---:|---|"
    for key in sorted(uses, key=lambda key: (KINDS.index(key[0]), key[1])):
        total = sum(uses[key].values())
        shares = " | ".join(f"{uses[key][use] / total:.1%}" for use in ("target", "context", "omit", "dropped"))
        listed = ", ".join(f"{reason} {number / total:.1%}" for reason, number in reasons[key].most_common(4))
        yield f"| {key[0]} | {key[1]} | {total} | {shares} | {listed} |"


def domain_table(drops: Mapping[str, Sequence[Drop]]) -> Iterator[str]:
    """Markdown: drops of each rule by domain, of each rule alone."""
    yield f"| rule | {' | '.join(DOMAINS)} |"
    yield "|---" * (len(DOMAINS) + 1) + "|"
    for rule, of in sorted(drops.items()):
        counts = Counter(drop.domain for drop in of)
        yield f"| {rule} | {' | '.join(str(counts[domain] or '') for domain in DOMAINS)} |"


def ceiling_table(out: str) -> Iterator[str]:
    """Markdown: what replicates of each domain agree on, of those runs of `all_tables` that the folder has."""
    yield "| domain | histories met twice or more | rows | answered differently | agreement of these | noise ceiling |"
    yield "|---|---:|---:|---:|---:|---:|"
    for folder in (Folder(f"{out}/{name}/measures") for name in DOMAINS):
        ceilings = json.loads(folder.read(REPLICATES)) if REPLICATES in folder.names(".json") else {}
        for domain, of in ceilings.items():
            counts = f"{of['groups']} | {of['rows']} | {of['differing']}"
            yield f"| {domain} | {counts} | {of['agreement_where_differing']:.3f} | {of['noise_ceiling']:.3f} |"


def all_tables(raw: str, out: str) -> tuple[dict[str, Table], Table]:
    """The table of each domain's recipe, and that of the benchmarks."""
    tables = {domain: run_over(whole_recipe(domain), raw, f"{out}/{domain}") for domain in DOMAINS}
    return tables, run_over(benchmark_recipe(raw), raw, f"{out}/benchmarks")


def join_drops(tables: Mapping[str, Table], benchmarks: Table) -> dict[str, list[Found]]:
    """Rule → the drops of all domains with the table that each is of, in the order to judge in."""
    by_rule: dict[str, list[Found]] = defaultdict(list)
    for table in tables.values():
        for rule, drops in drops_of(table).items():
            by_rule[rule] += [(table, drop) for drop in drops]
    by_rule[CONTAMINATED] = [(benchmarks, drop) for drop in drops_of(benchmarks, [CONTAMINATED])[CONTAMINATED]]
    return {rule: in_turn(pairs) for rule, pairs in by_rule.items()}


def main() -> None:
    """Prints the tables, or the drops of one rule."""
    asked = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    asked.add_argument("--raw", required=True, help="the folder of raw logs")
    asked.add_argument("--out", required=True, help="a folder for the runs; they go on where one was left")
    asked.add_argument("--labels", default=str(LABELS), help="the folder of labels")
    asked.add_argument("--show", help="a rule whose drops are printed")
    asked.add_argument("--skip", type=int, default=0, help="drops to leave out at the beginning")
    asked.add_argument("--number", type=int, default=NUMBER, help="drops to print")
    asked.add_argument("--width", type=int, default=600, help="characters of a text to print")
    asked.add_argument("--open", action="store_true", help="print only drops without a label")
    options = asked.parse_args()
    raw = options.raw.rstrip("/")
    by_rule = join_drops(*(runs := all_tables(raw, options.out)))
    labels = read_labels(Path(options.labels))
    if options.show:
        chosen = by_rule[options.show][: NUMBER if options.open else None]
        chosen = [pair for pair in chosen if not (options.open and pair[1].place in labels)]
        for number, (table, drop) in enumerate(chosen[options.skip : options.skip + options.number], options.skip):
            print(f"[{number}]", *shown(table, drop, options.width), sep="\n")
        return
    drops = {rule: [drop for _, drop in pairs] for rule, pairs in by_rule.items()}
    reports: tuple[Iterator[str], ...] = (
        precision_table(drops, labels),
        rate_table(list(runs[0].values())),
        domain_table(drops),
        ceiling_table(options.out),
    )
    for lines in reports:
        print(*lines, "", sep="\n")


if __name__ == "__main__":
    main()
