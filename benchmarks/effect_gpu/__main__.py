"""`python -m benchmarks.effect_gpu OUT --job JOB`: measure on one GPU if what a recipe keeps teaches a model more.

OUT is the folder of a judged run with spans. The arms are all rows, all without exact copies, a random subset of the
size that the recipe keeps, and what the recipe keeps. Each teaches a model as many tokens. Models are asked for next
observations of groups that no arm saw: bits per byte by class of span, and rule rewards of what they answer.

A step whose files are there is left out: `JOB/*.jsonl` is made here, `train.py JOB` runs where PyTorch is (here in an
environment of its own, or of `--torch`), and `JOB/effect.md` is made of what it found. Other words go to `train.py`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import numpy as np
import xxhash

from benchmarks.effect.arms import EVERYTHING, EXACT, RAW, arms_of, judge_arm
from benchmarks.effect.corpus import CUT, Shown, decide_rows, rows_of, shown, units_in
from benchmarks.effect.significance import difference
from benchmarks.environment import environment, run_checked
from trajmill.pipelines.generations.compatibility import recipe_of_record
from trajmill.pipelines.mix.reward import rules
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.render.fixed_texts import MARKER
from trajmill.pipelines.render.loss_spans import answer_spans
from trajmill.pipelines.render.pieces import View
from trajmill.pipelines.render.turns import Turn
from trajmill.pipelines.storage.folders import Folder
from trajmill.schemas import ConfigError

PACKAGES: Final = ("torch==2.13.0", "numpy")
RANDOM: Final = "random subset"
ARMS: Final = (RAW, EXACT, RANDOM, EVERYTHING)
END: Final = "<|end|>"
"""End mark of an answer; `train.py` has it too, since it imports nothing of this package."""

FOLDS: Final = 5
"""One group of so many is held out."""

HELD: Final = 150_000
"""Characters that are scored of a domain, at most."""

EACH: Final = 20_000
"""Of them those of one document at most, so that many groups are asked about."""

QUESTIONS: Final = 24
"""Answers of a domain that models are asked to say."""

LONGEST: Final = 240
"""Characters of such an answer, at most."""


def draw_number(name: str) -> int:
    """A number that a name has for ever."""
    return xxhash.xxh3_64_intdigest(f"gpu:{name}".encode())


def parts_of(trajectory: Shown) -> Iterator[tuple[str, str]]:
    """The texts of a trajectory, each with the class of its span; empty where no loss stands."""
    for turn in trajectory.turns:
        yield f"\n<|action|>{turn.user.partition(chr(10))[2]}\n<|answer|>", ""
        yield from _answer(turn)
        yield END, "new" if turn.loss else ""


def _answer(turn: Turn) -> Iterator[tuple[str, str]]:
    text, at, head = turn.observation, 0, len(MARKER)
    is_of_world = turn.row["next_observation"]["origin"] == "environment" and not turn.row.get(CUT)
    for span in answer_spans(turn.answer) if turn.loss and is_of_world else ():
        begin, end = max(span.begin - head, 0), max(span.end - head, 0)
        if begin > at:
            yield text[at:begin], ""
        if end > begin:
            yield text[begin:end], span.label or "new"
        at = max(at, end)
    if text[at:]:
        yield text[at:], ""


def prepare(source: Folder, job: Path) -> None:
    """Write what each arm teaches and what is asked.

    Raises:
        ConfigError: the run is not judged, or by a recipe without spans.
    """
    recipe = recipe_of_record(source.found("run.json") or b"{}", load_recipe("all"))
    if recipe is None or not recipe.judge.spans:
        raise ConfigError(f"{source.path()} is no run with `judge: {{spans: true}}`.")
    units = units_in(source)
    rows = [rows_of(source, unit, spans=True) for unit in units]
    groups = {group for unit_rows in rows for group in unit_rows.groups.tolist()}
    view, documents = View.of(recipe.mix), dict[str, list[dict[str, Any]]]()
    with tempfile.TemporaryDirectory(prefix="trajmill-effect-") as scratch:
        for arm in (arm for arm in arms_of(recipe, has_spans=False) if arm.name in ARMS):
            verdicts = judge_arm(recipe, arm, source / "transitions", units, Folder(scratch)) if arm.judge else None
            documents[arm.name] = [
                {
                    "domain": of.unit.domain,
                    "group": trajectory.group,
                    "key": f"{trajectory.unit}:{trajectory.ordinal}",
                    "parts": parts,
                }
                for of in rows
                for trajectory in shown(source, of, decide_rows(arm, of, verdicts), groups, view)
                for parts in [list(parts_of(trajectory))]
                if any(kind for _, kind in parts)
            ]
    learnt = {name: [document for document in some if not _is_held(document)] for name, some in documents.items()}
    learnt[RANDOM] = _as_much(learnt[RAW], _size(learnt[EVERYTHING]))
    held_out = list(_bound(document for document in documents[RAW] if _is_held(document)))
    job.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(ARMS):
        _write(job / f"{number}.jsonl", learnt[name])
    _write(job / "held.jsonl", held_out)
    _write(job / "questions.jsonl", list(questions_of(held_out)))


def _is_held(document: Mapping[str, Any]) -> bool:
    return draw_number(document["group"]) % FOLDS == 0


def _size(documents: Sequence[Mapping[str, Any]]) -> int:
    return sum(len(text) for document in documents for text, _ in document["parts"])


def _as_much(documents: Sequence[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """Documents in the order of their hashes, up to so many characters."""
    chosen, total = list[dict[str, Any]](), 0
    for document in sorted(documents, key=lambda document: draw_number(document["key"])):
        if total < most:
            chosen.append(document)
            total += _size([document])
    return chosen


def _bound(documents: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    totals: dict[str, int] = {}
    for document in sorted(documents, key=lambda document: draw_number(document["key"])):
        parts, size = list[tuple[str, str]](), 0
        for text, kind in document["parts"]:
            size += len(text)
            if size <= EACH:
                parts.append((text, kind))
        if totals.get(document["domain"], 0) < HELD and any(kind for _, kind in parts):
            totals[document["domain"]] = totals.get(document["domain"], 0) + min(size, EACH)
            yield {**document, "parts": parts}


def questions_of(held_out: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Answers that models are asked to say, one of a document: what stands before it, and the answer."""
    counts: dict[str, int] = {}
    for document in held_out:
        parts = document["parts"]
        ends = [at for at, (text, kind) in enumerate(parts) if text == END and kind]
        for end in ends[-1:]:
            begin = max(at for at in range(end) if parts[at][0].endswith("<|answer|>"))
            answer = "".join(text for text, _ in parts[begin + 1 : end])
            if 0 < len(answer) <= LONGEST and counts.get(document["domain"], 0) < QUESTIONS:
                counts[document["domain"]] = counts.get(document["domain"], 0) + 1
                before = "".join(text for text, _ in parts[: begin + 1])
                yield {"domain": document["domain"], "group": document["group"], "before": before, "answer": answer}


def _write(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), "utf-8")


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def page(job: Path) -> str:
    """Tell what was found as Markdown: each arm against raw, by class of span and by domain, then rewards."""
    results, questions = _read(job / "found.jsonl"), _read(job / "questions.jsonl")
    rows: dict[str, dict[tuple[str, int], dict[str, tuple[float, float]]]] = {}
    for line in results:
        arm, seed = ARMS[int(line["arm"])], line["seed"]
        for domain, group, kind, bits, size in line["scored"]:
            for measure in ("all answers, bits per byte", f"{kind}, bits per byte", f"{domain}, bits per byte"):
                _add(rows, measure, arm, seed, f"{domain}:{group}", bits, size)
        for question, answer in zip(questions, line["said"], strict=True):
            truth = {
                "observation": question["answer"],
                "form": "response",
                "previous": "",
                "checks": [],
                "volatile": [],
            }
            _add(rows, "rule reward", arm, seed, f"{question['domain']}:{question['group']}", rules(answer, truth), 1.0)
    lines = [f"| measured | groups | {' | '.join(ARMS)} |", "|---|---:|" + "---|" * len(ARMS)]
    for measure, sides in rows.items():
        groups = sorted({group for of in sides.values() for group in of})
        seeds = sorted({seed for _, seed in sides})
        sums = {arm: np.array([[sides[arm, seed][g] for g in groups] for seed in seeds]) for arm in ARMS}
        cells = [f"{sums[RAW][..., 0].sum() / sums[RAW][..., 1].sum():.4f}"]
        for arm in ARMS[1:]:
            apart = difference(sums[arm][..., 0], sums[RAW][..., 0], sums[RAW][..., 1])
            cells.append(f"{apart.mean:+.4f} [{apart.low:+.4f}, {apart.high:+.4f}]")
        lines.append(f"| {measure} | {len(groups)} | {' | '.join(cells)} |")
    count = len({line["seed"] for line in results})
    return f"Against {RAW}, which stands as it is, with intervals of 95 %; {count} seeds.\n\n" + "\n".join(lines) + "\n"


def _add(
    rows: dict[str, dict[tuple[str, int], dict[str, tuple[float, float]]]],
    measure: str,
    arm: str,
    seed: int,
    group: str,
    cost: float,
    size: float,
) -> None:
    of = rows.setdefault(measure, {}).setdefault((arm, seed), {})
    before = of.get(group, (0.0, 0.0))
    of[group] = before[0] + cost, before[1] + size


def main() -> None:
    """Do the steps whose files are not there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", metavar="OUT", help="folder of a judged run")
    parser.add_argument("--job", type=Path, required=True, help="folder that is written")
    parser.add_argument("--torch", metavar="PYTHON", default="", help="a Python with PyTorch")
    options, rest = parser.parse_known_args()
    if not (options.job / "questions.jsonl").exists():
        prepare(Folder.named(options.run), options.job)
    if not (options.job / "found.jsonl").exists():
        script = str(Path(__file__).parent / "scripts" / "train.py")
        with nullcontext(options.torch) if options.torch else environment(PACKAGES) as python:
            run_checked([python, script, str(options.job), *rest])
    report = page(options.job)
    (options.job / "effect.md").write_text(report, "utf-8")
    print(report)


if __name__ == "__main__":
    main()
