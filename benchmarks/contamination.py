"""`python -m benchmarks.contamination --raw FOLDER_OF_LOGS`: whether trajectories that a benchmark holds are found.

Some trajectories of the logs, drawn by hash, are written as samples of AgentWorldBench, and all logs are judged against
them. Each item must take its own trajectory; what else goes is told apart by what it shares with the items that took
it: their instruction, or no more than words.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from benchmarks.drops import order
from benchmarks.labels import Place
from samples.writing.json_text import lines
from trajmill.pipelines.judge.reasons import CONTAMINATED
from trajmill.pipelines.recipe.judgement import Benchmark
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.storage.folders import Folder

NAME: Final = "planted"
SHORTEST: Final = 2
FEWEST: Final = 13
"""Steps, and words of observations, that an item has at least: what says less could be anybody's."""

Rows = Sequence[Mapping[str, Any]]


def sample(number: int, rows: Rows) -> dict[str, Any]:
    """A trajectory as AgentWorldBench has one, whose last turn is evaluated."""
    prompts = [
        f"### Turn {turn}\n**Action:**\n```json\n{row['action']['text']}\n```" for turn, row in enumerate(rows, 1)
    ]
    answers = [f"**Environment Observation:**\n{(row['next_observation'] or {}).get('content') or ''}" for row in rows]
    return {
        "task": rows[0]["domain"],
        "id": number,
        "prompt": prompts,
        "response": answers,
        "current_prompt": prompts[-1],
        "system_str": "You simulate an environment.",
        "turn_idx": len(rows),
        "total_turns": len(rows),
    }


def trajectories(run: Run) -> dict[str, list[dict[str, Any]]]:
    """The rows of each trajectory of a run; exact copies, which share its id, count once."""
    by_id: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for name in run.transitions.names(".parquet"):
        for row in pq.read_table(run.transitions.path(name)).to_pylist():
            rows = by_id[row["trajectory_id"]]
            if len(rows) == row["step"]:  # else a copy, of which all rows stand together
                rows.append(row)
    return by_id


def draw_trajectories(of: Mapping[str, Rows], number: int) -> list[str]:
    """So many of the trajectories that are long enough, by hash: the same whatever the order of the logs."""
    long = (name for name, rows in of.items() if len(rows) >= SHORTEST and _words(rows) >= FEWEST)
    return sorted(long, key=lambda name: order(Place(NAME, name, -1, "")))[:number]


def read_contaminated(out: str) -> dict[str, list[str]]:
    """Trajectory → ids of the items that it shows, of a run that was judged."""
    rejects = Folder(out) / "rejects" / "judge"
    rows = (row for name in rejects.names(".parquet") for row in pq.read_table(rejects.path(name)).to_pylist())
    items: dict[str, list[str]] = {}
    for row in rows:
        if row["reason"] == CONTAMINATED:
            items[row["trajectory_id"]] = [item.rpartition("/")[2] for item in row["detail"].split(", ")]
    return items


def table(of: Mapping[str, Rows], items: Sequence[str], shown: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Tabulate what became of items and other trajectories, as Markdown."""
    own = [number for number, name in enumerate(items) if name in shown]
    others = [name for name in shown if name not in items]
    asked = {str(number): _instruction(of[name]) for number, name in enumerate(items)}
    alike = [name for name in others if _instruction(of[name]) in [asked.get(item) for item in shown[name]]]
    by = Counter(item for name in others if name not in alike for item in shown[name])
    yield "| trajectories | items | found | others that went | of the same instruction | else |"
    yield "|---:|---:|---:|---:|---:|---:|"
    counts = (len(of), len(items), len(own), len(others), len(alike), len(others) - len(alike))
    yield "| " + " | ".join(map(str, counts)) + " |"
    yield ""
    for number in range(len(items)):
        if number not in own:
            rows = of[items[number]]
            size = f"{len(rows)} steps, {_words(rows)} words of observations"
            yield f"not found: item {number}, {rows[0]['domain']}, {size}"
    took = ", ".join(f"{item} took {count}" for item, count in by.most_common())
    yield f"of those that went else, by item: {took or 'none'}"


def _words(rows: Rows) -> int:
    return sum(len(((row["next_observation"] or {}).get("content") or "").split()) for row in rows)


def _instruction(rows: Rows) -> str | None:
    text = (rows[0]["task"] or {}).get("instruction")
    return text if isinstance(text, str) and text else None


def main() -> None:
    """Entry point."""
    asked = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    asked.add_argument("--raw", nargs="+", required=True, help="logs to judge")
    asked.add_argument("--items", type=int, default=100, help="trajectories that are made items of")
    options = asked.parse_args()
    plain = Recipe(name="contamination", source="corpora")
    plain = plain.model_copy(update={"normalize": plain.normalize.model_copy(update={"max_reject_ratio": 1.0})})
    with tempfile.TemporaryDirectory(prefix="trajmill-contamination-") as temporary:
        out, file = f"{temporary}/out", Path(temporary) / "items.jsonl"
        run = Run(plain, options.raw, out)
        run.run("normalize")
        of = trajectories(run)
        items = draw_trajectories(of, options.items)
        file.write_bytes(lines(sample(n, of[name]) for n, name in enumerate(items)))
        judge = plain.judge.model_copy(
            update={"benchmarks": (Benchmark(name=NAME, path=str(file)),), "near_duplicates": None}
        )
        Run(plain.model_copy(update={"judge": judge}), options.raw, out).run("judge")
        print(*table(of, items, read_contaminated(out)), sep="\n")


if __name__ == "__main__":
    main()
