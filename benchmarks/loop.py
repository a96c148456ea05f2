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

from benchmarks.environment import called, environment
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
            (self._asked(messages[:place]), messages[place]["content"])
            for messages in known
            for place in range(2, len(messages), 2)
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
            (other, state), _ = self._steps[number]
            return _shared(action, other), _shared(before, state)

        return self._steps[max(sorted(near), key=likeness)][1]


def _shared(one: set[str], other: set[str]) -> float:
    return len(one & other) / max(1, len(one | other))


def planned(known: Sequence[Logged]) -> list[dict[str, Any]]:
    """What the agent does in each rollout: what the log did, and in every fifth step what the next log did."""
    by_domain: dict[str, list[Logged]] = defaultdict(list)
    for one in known:
        by_domain[one.scenario.domain].append(one)
    plans = []
    for number in range(ROLLOUTS):
        one = known[number % len(known)]
        others = by_domain[one.scenario.domain]
        other = others[(others.index(one) + 1) % len(others)]
        actions = [step["action"]["text"] for step in one.steps[:STEPS]]
        for place in range((number % 5), len(actions), 5):
            actions[place] = other.steps[place % len(other.steps)]["action"]["text"]
        plans.append({"scenario": one.scenario.id, "seed": number, "actions": actions})
    return plans


def main() -> int:
    """Go through the loop, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--domains", nargs="*", default=list(DOMAINS), help="of the samples")
    raw = [str(ROOT / "samples" / name) for name in parser.parse_args().domains]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        out, log = folder / "out", folder / "served"
        recipe = load_recipe("all").model_copy(update={"mix": Mix(pools={"sft": 0.5, "rl": 0.5}, prompt_share=1)})
        Run(recipe, raw, str(out)).run()
        model = Retrieval([one.messages for one in logged(out, recipe.mix, "sft")])
        plans = planned(logged(out, recipe.mix, "rl"))
        (folder / "plans.json").write_text(json.dumps(plans))
        with environment(LOOPS["gymnasium"]) as python, serving(out, log, model, "sft", "retrieval@1") as url:
            script = ROOT / "tests" / "loops" / "scripts" / "gymnasium_rollouts.py"
            told = folder / "rollouts.jsonl"
            words = [python, "-P", str(script), url, str(folder / "plans.json"), str(told)]
            called(words, **{**os.environ, "PYTHONPATH": str(ROOT)})
        rollouts = [json.loads(line) for line in told.read_text().splitlines()]
        ends, refused = Counter(one["ended"] for one in rollouts), sum(one["refused"] for one in rollouts)
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
            told = {name: one for cell in cells if cell.domain == domain for name, one in cell.figures.items()}
            figures = " ".join(f"{name} {one.real:.3f}→{one.sim:.3f}" for name, one in told.items())
            print(f"  {match:8} {domain:8} {figures}")


def is_apart(raw: Sequence[str], log: Path, both: Path, simulated: pl.DataFrame) -> bool:
    """Tell if no simulated trajectory is in the shards of a run of real logs and simulated ones."""
    Run(load_recipe("all"), [*raw, str(log / "trajectories")], str(both)).run()
    ids = set(simulated["trajectory_id"])
    shards = sorted((both / "shards").rglob("*.parquet"))
    found = sum(one in text for shard in shards for text in _texts(shard) for one in ids)
    samples = sum(len(_texts(shard)) for shard in shards)
    print(f"a run of both: {samples} samples in shards, {found} of {len(ids)} simulated trajectories among them")
    return found == 0 < samples


def _texts(shard: Path) -> list[str]:
    """The samples of a shard, each as one text."""
    return [json.dumps(row, default=str) for row in pl.read_parquet(shard).to_dicts()]


if __name__ == "__main__":
    sys.exit(main())
