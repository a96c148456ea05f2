"""The graph of judging, drawn from what its rounds declare, of a recipe that asks for every decision.

python -m benchmarks.judge_graph                              # prints it
python -m benchmarks.judge_graph --write docs/architecture.md   # puts it between the marks there
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import apache_beam as beam

from trajmill.pipelines.execution.runner import BeamTransform
from trajmill.pipelines.judge.corpus_rule import final_answers, graph, schedule_rounds
from trajmill.pipelines.judge.judge import UnitsToVerdicts, decisions
from trajmill.pipelines.judge.judging import Judging
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.storage.folders import Folder

RECIPE: Final = """
name: everything
source: made
extends: all
judge: {replicates: {max: 4}, max_share: {task: 0.5}}
"""

_MARKED: Final = re.compile(r"(<!-- graph of judging -->\n).*?(<!-- end of the graph -->)", re.DOTALL)
_COUNTED: Final = {
    "beam:transform:group_by_key:v1": "GroupByKeys",
    "beam:transform:pardo:v1": "ParDos",
    "beam:transform:flatten:v1": "Flattens",
}


def draw_graph() -> str:
    """The graph as a Mermaid block, and how many transforms Beam makes of it."""
    folder = Folder("nowhere")
    recipe = parse_recipe(RECIPE, "everything")
    judging = Judging(recipe, folder, folder, folder, folder, folder, "digest", benchmarks="index")
    rules = decisions(judging)
    levels = schedule_rounds(rules)
    pipeline = beam.Pipeline()
    _ = pipeline | beam.Create([None]) | BeamTransform(UnitsToVerdicts(judging))
    transforms = pipeline.to_runner_api().components.transforms.values()
    counts = Counter(_COUNTED[transform.spec.urn] for transform in transforms if transform.spec.urn in _COUNTED)
    counted = ", ".join(f"{counts[name]} {name}" for name in _COUNTED.values())
    rounds = sum(map(len, levels))
    return (
        f"```mermaid\n{graph(levels, final_answers(rules))}```\n\n{rounds} rounds in {len(levels)} levels: {counted}.\n"
    )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path)
    chosen = parser.parse_args()
    if chosen.write is None:
        sys.stdout.write(draw_graph())
        return
    text = chosen.write.read_text(encoding="utf-8")
    chosen.write.write_text(_MARKED.sub(lambda match: f"{match[1]}{draw_graph()}{match[2]}", text), encoding="utf-8")


if __name__ == "__main__":
    main()
