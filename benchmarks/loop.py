"""`python -m benchmarks.loop`: a whole loop, of a world model over logs, an agent in it, and the rows that come back.

A run of the samples is parted into two pools. A retrieval model over the logs of `sft` answers each step by the logged
step that is most like it, behind an endpoint of OpenAI's form. `trajmill world serve` serves the logs of `rl` by it. An
agent goes through 200 rollouts by Gymnasium's environment. It does what the log did, and in every fifth step what
another log did. The rows that come back are read, held against the world, and put among the real logs of another run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

from benchmarks.environment import environment, run_checked
from benchmarks.serving import serving
from tests.conftest import ROOT
from tests.loops.__main__ import LOOPS
from tests.worlds.serve.logged_world import Logged, logged
from trajmill.pipelines.recipe.recipe import Mix
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.run import Run
from trajmill.schemas import DOMAINS, scan_transitions
from trajmill.worlds.drift.drift import Settings, drift

ROLLOUTS: Final = 200
STEPS: Final = 6
_WORDS: Final = re.compile(r"\w+")


class Retrieval:
    """A world model that answers by the logged step whose action, and then whose state, share most words.

    Args:
        known: the messages of samples.
    """

    def __init__(self, known: Sequence[Sequence[dict[str, str]]]) -> None:
        self._steps = [
            (self._asked(messages[:index]), messages[index]["content"])
            for messages in known
            for index in range(2, len(messages), 2)
        ]
        self._by_word: dict[str, set[int]] = defaultdict(set)
        for number, ((action, _), _) in enumerate(self._steps):
            for word in action:
                self._by_word[word].add(number)

    def _asked(self, messages: Sequence[dict[str, str]]) -> tuple[set[str], set[str]]:
        action = messages[-1]["content"].rpartition("**Action:**")[2]
        before = messages[-2]["content"] if len(messages) > 2 else ""
        return set(_WORDS.findall(action)), set(_WORDS.findall(before))

    def __call__(self, body: dict[str, Any]) -> str:
        action, before = self._asked(body["messages"])
        near = set().union(*(self._by_word.get(word, ()) for word in action)) or {0}

        def likeness(number: int) -> tuple[float, float]:
            (logged_action, state), _ = self._steps[number]
            return _jaccard(action, logged_action), _jaccard(before, state)

        return self._steps[max(sorted(near), key=likeness)][1]


def _jaccard(left: set[str], right: set[str]) -> float:
    return len(left & right) / max(1, len(left | right))


def plan_rollouts(known: Sequence[Logged]) -> list[dict[str, Any]]:
    """Plan the actions of the agent in each rollout: those of the log, and in every fifth step that of the next log."""
    by_domain: dict[str, list[Logged]] = defaultdict(list)
    for log in known:
        by_domain[log.scenario.domain].append(log)
    plans = []
    for number in range(ROLLOUTS):
        log = known[number % len(known)]
        others = by_domain[log.scenario.domain]
        next_log = others[(others.index(log) + 1) % len(others)]
        actions = [step["action"]["text"] for step in log.steps[:STEPS]]
        for index in range((number % 5), len(actions), 5):
            actions[index] = next_log.steps[index % len(next_log.steps)]["action"]["text"]
        plans.append({"scenario": log.scenario.id, "seed": number, "actions": actions})
    return plans


def main() -> int:
    """Go through the loop, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--domains", nargs="*", default=list(DOMAINS), help="of the samples")
    raw = [str(ROOT / "samples" / name) for name in parser.parse_args().domains]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        out, log = folder / "out", folder / "served"
        recipe = load_recipe("all").model_copy(update={"mix": Mix(pools={"sft": 0.5, "rl": 0.5}, prompt_share=1)})
        Run(recipe, raw, str(out)).run()
        model = Retrieval([sample.messages for sample in logged(out, recipe.mix, "sft")])
        plans = plan_rollouts(logged(out, recipe.mix, "rl"))
        (folder / "plans.json").write_text(json.dumps(plans))
        with environment(LOOPS["gymnasium"]) as python, serving(out, log, model, "sft", "retrieval@1") as url:
            script = ROOT / "tests" / "loops" / "scripts" / "gymnasium_rollouts.py"
            rollouts_file = folder / "rollouts.jsonl"
            words = [python, "-P", str(script), url, str(folder / "plans.json"), str(rollouts_file)]
            run_checked(words, **{**os.environ, "PYTHONPATH": str(ROOT)})
        rollouts = [json.loads(line) for line in rollouts_file.read_text().splitlines()]
        ends, refused = (
            Counter(rollout["ended"] for rollout in rollouts),
            sum(rollout["refused"] for rollout in rollouts),
        )
        print(f"rollouts: {len(rollouts)}, ended by {dict(ends)}; {refused} actions refused for their form")
        simulated = folder / "simulated"
        Run(load_recipe("all"), [str(log / "trajectories")], str(simulated)).run("normalize")
        rows = scan_transitions(simulated).collect()
        kinds = Counter(rows["environment"].struct.field("kind"))
        print(f"rows that came back, by kind: {dict(kinds)}")
        tell_drift(out, simulated)
        return 0 if is_apart(raw, log, folder / "both", rows) and set(kinds) == {"model"} else 1


def tell_drift(out: Path, simulated: Path) -> None:
    """Print how the model's rows differ from the world's."""
    (model,) = drift(str(out), str(simulated), Settings(), {}).models
    print(f"drift of {model.world_model}: {model.rows} rows, {dict(model.pairs)}")
    for match in ("logged", "rollouts"):
        cells = [cell for cell in model.cells if (cell.match, cell.by) == (match, "domain")]
        for domain in sorted({cell.domain for cell in cells}):
            by_name = {name: figure for cell in cells if cell.domain == domain for name, figure in cell.figures.items()}
            figures = " ".join(f"{name} {figure.real:.3f}→{figure.sim:.3f}" for name, figure in by_name.items())
            print(f"  {match:8} {domain:8} {figures}")


def is_apart(raw: Sequence[str], log: Path, both: Path, simulated: pl.DataFrame) -> bool:
    """Tell if no simulated trajectory is in the shards of a run of real logs and simulated ones."""
    Run(load_recipe("all"), [*raw, str(log / "trajectories")], str(both)).run()
    ids = set(simulated["trajectory_id"])
    shards = sorted((both / "shards").rglob("*.parquet"))
    hits = sum(simulated_id in text for shard in shards for text in _texts(shard) for simulated_id in ids)
    samples = sum(len(_texts(shard)) for shard in shards)
    print(f"a run of both: {samples} samples in shards, {hits} of {len(ids)} simulated trajectories among them")
    return hits == 0 < samples


def _texts(shard: Path) -> list[str]:
    """The samples of a shard, each as one text."""
    return [json.dumps(row, default=str) for row in pl.read_parquet(shard).to_dicts()]


if __name__ == "__main__":
    sys.exit(main())
