"""A small run with shards, and models that answer by rules, for tests of what models are asked for."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.pipelines.render.assembled import message_spans, messages
from tests.pipelines.render.test_turns import row
from tests.synthesis.chat_server import completion
from trajmill.pipelines.mix.sample_columns import SAMPLE_SCHEMAS
from trajmill.pipelines.render.turns import turns
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import write_parquet
from trajmill.schemas import SCHEMA_VERSION
from trajmill.schemas.manifest import Manifest
from trajmill.synthesis.endpoint import Address
from trajmill.synthesis.replies import Prices
from trajmill.synthesis.session import Models

WRITER, JUDGE = "writer", "judge"
PRICES = Prices(2.0, 10.0)


def truth_of(action: str) -> str:
    """What the world of these tests shows after an action: nothing that can be guessed."""
    return "shown " + hashlib.sha256(action.encode()).hexdigest()


def sample(number: int, turn_count: int = 3, losses: tuple[bool, ...] = ()) -> dict[str, Any]:
    actions = [f"do {number}.{index}" for index in range(turn_count)]
    uses = ["target" if keeps else "context" for keeps in losses or (True,) * turn_count]
    rows = [
        row(index, action, truth_of(action), None, use)
        for index, (action, use) in enumerate(zip(actions, uses, strict=True))
    ]
    shown = turns(rows)
    key = f"{number:032x}"
    common = {"domain": "terminal", "source": "s", "trajectory_id": key, "group": f"g{number}", "num_turns": turn_count}
    counts = {"num_tokens": 9, "num_loss_tokens": 9, "template": "terminal/sft-1@000000000000"}
    return {"id": key, **common, **counts, "messages": messages("A terminal.", shown), "spans": message_spans(shown)}


def run_of(folder: Path, *samples: dict[str, Any]) -> Folder:
    """A run's folder that holds these samples for SFT."""
    shards = Folder(str(folder)) / "shards"
    schema = SAMPLE_SCHEMAS["sft"]
    name = "sft/terminal/train-00000-of-00001.parquet"
    batch = pa.RecordBatch.from_pylist(list(samples), schema=schema)
    entry = write_parquet(shards, name, schema, [batch], shard=True)
    shards.write("manifest.json", Manifest("mix", "", "d" * 64, SCHEMA_VERSION, (entry,)).to_json())
    return Folder(str(folder))


def models(url: str, **more: Any) -> Models:
    address = Address(url, prices=PRICES, retries=4, timeout_s=20)
    return Models(address, address, WRITER, JUDGE, {"temperature": 1.0, "max_tokens": 200}, {"max_tokens": 200}, **more)


class Actors:
    """The writer and the judge.

    Args:
        ways: how the writer answers the same words the first time, the second time, and so on.
    """

    def __init__(self, *ways: str) -> None:
        self.ways = ways
        self.met: Counter[str] = Counter()

    def __call__(self, body: dict[str, Any]) -> Any:
        words = body["messages"][-1]["content"]
        if body["model"] == WRITER:
            self.met[words] += 1
            return WAYS[self.ways[(self.met[words] - 1) % len(self.ways)]](truth_of(action_in(words)))
        tags = dict(re.findall(r"<(\w+)>\n(.*?)\n</\1>", words, re.DOTALL))
        if "prediction_A" in tags:
            best = [name for name in ("A", "B") if tags[f"prediction_{name}"] == tags["real_observation"]]
            return f'One is right. {{"better": "{best[0] if len(best) == 1 else "A"}"}}'
        grade = 5 if tags["prediction"].startswith(tags["real_observation"]) else 2
        return f"Compared. {json.dumps(dict.fromkeys(DIMENSIONS, grade))}"


DIMENSIONS = ("format", "factuality", "consistency", "realism", "quality")


def action_in(words: str) -> str:
    matches = re.findall(r"do \d+\.\d+", words)
    return matches[-1]


def tagged(thought: str, observation: str) -> str:
    return f"<think>\n{thought}\n</think>\n\n<predicted_observation>\n{observation}\n</predicted_observation>"


WAYS: dict[str, Callable[[str], Any]] = {
    "right": lambda truth: tagged("It shows what it always shows.", truth),
    "near": lambda truth: tagged("It shows about that.", truth + "\nand more"),
    "apart": lambda truth: completion(f"<predicted_observation>\n{truth}\n</predicted_observation>", "Told apart."),
    "wrong": lambda _: tagged("A guess.", "something else"),
    "untagged": lambda truth: f"<think>\nyes\n</think>\n{truth}",
    "unclosed": lambda truth: f"<think>\nyes\n</think>\n<predicted_observation>\n{truth}",
    "thoughtless": lambda truth: f"<predicted_observation>\n{truth}\n</predicted_observation>",
    "cut": lambda truth: completion(tagged("long", truth), finish="length"),
}
