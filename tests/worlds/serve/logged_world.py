"""A world model that knows what was logged, and what clients of it would live through."""

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from trajmill.pipelines.judge.judging import Unit
from trajmill.pipelines.mix.mixture import read_draws
from trajmill.pipelines.recipe.recipe import Mix
from trajmill.pipelines.render.fixed_texts import ASKING, CLOSING, MARKER, OPENING
from trajmill.pipelines.render.pieces import View
from trajmill.pipelines.render.turns import Rows
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_table, read_transitions
from trajmill.pipelines.storage.units import MANIFEST, read_manifest
from trajmill.quality.tokens import TokenCounter
from trajmill.worlds.serve.scenarios import Scenario, scenarios_in
from trajmill.worlds.serve.served_model import Pinned


class Logged(NamedTuple):
    """A drawn trajectory: its scenario, the steps that a client takes, and the messages of its sample."""

    scenario: Scenario
    steps: list[dict[str, Any]]
    messages: list[dict[str, str]]


def logged(out: Path, mix: Mix, pool: str) -> list[Logged]:
    """The trajectories of a pool, as clients of a served world would live through them."""
    samples = {}
    for shard in sorted((out / "shards" / pool).rglob("*.parquet")):
        for sample in pq.read_table(shard).to_pylist():
            key = sample["trajectory_id"] if pool == "sft" else sample["extra_info"]["trajectory_id"]
            samples[key] = sample
    begun = {one.id: one for one in scenarios_in(Folder(str(out)), mix, TokenCounter(), (pool,))}
    found, view = [], View.of(mix)
    for rows in rows_of(out, mix, (pool,)):
        key = rows[0]["trajectory_id"]
        if key in samples:
            found.append(Logged(begun[key], steps_of(rows, view), whole(samples[key])))
    return found


def rows_of(out: Path, mix: Mix, pools: tuple[str, ...], domain: str | None = None) -> Iterator[Rows]:
    """The rows of the drawn trajectories of pools, or of their first segments."""
    folder = Folder(str(out))
    manifest = read_manifest(folder / "transitions", MANIFEST)
    assert manifest is not None
    for number, file in enumerate(manifest.files):
        unit = Unit(number, file.name, file.sha256)
        if domain not in (None, unit.domain):
            continue
        judged = read_table(folder / "verdicts", unit.name, ["kept", "use"]).to_pylist()
        rows = [row for batch in read_transitions(folder / "transitions", unit.name) for row in batch.to_pylist()]
        kept = [{**row, "use": one["use"]} for row, one in zip(rows, judged, strict=True) if one["kept"]]
        wanted = {one["trajectory_id"] for one in read_draws(folder / "draws", unit.label) if drawn_for(one, pools)}
        for (key, segment), part in groupby(kept, key=itemgetter("trajectory_id", "segment")):
            if key in wanted and segment == 0:
                yield list(part)


def drawn_for(draw: Mapping[str, Any], pools: tuple[str, ...]) -> bool:
    return draw["pool"] in pools and draw["copies"] > 0


def text_of(observed: Mapping[str, Any], view: View) -> str | None:
    """An observation's text, or the object that it stood in where these are shown."""
    content: str | None = observed["content"]
    return (observed["envelope"] if view.mcp == "envelope" and content is not None else None) or content


def steps_of(rows: Rows, view: View) -> list[dict[str, Any]]:
    """What a client says at each step of a trajectory; a state only where it is not what the step before led to."""
    made: list[dict[str, Any]] = []
    last = None
    for row in rows:
        if row["use"] == "omit":
            continue
        before = row["observation"]
        state = text_of(before, view) if before and before["origin"] == "environment" else None
        told = last is None or state is None or state == text_of(last["next_observation"], view)
        call = {"text": row["action"]["text"], "name": row["action"]["name"]}
        if row["action"]["arguments"] is not None:
            call["arguments"] = json.loads(row["action"]["arguments"])
        step = {"action": call, "step": len(made), "time_limit_s": row["time_limit_s"]}
        step["together"] = last is not None and last["turn"] == row["turn"]
        if not step["together"]:
            step["said"] = said_in([other for other in rows if other["turn"] == row["turn"]])
        made.append(step if told or step["together"] else {**step, "state": state})
        last = row
    return made


def said_in(calls: Rows) -> list[dict[str, str]]:
    """What the harness and the user said before a turn."""
    told = [one for row in calls for one in json.loads(row["interleaved"] or "[]")]
    return [{"role": one["role"], "content": one["content"]} for one in told if one["role"] in ("harness", "user")]


def whole(sample: Mapping[str, Any]) -> list[dict[str, str]]:
    """All messages of a sample, the answer of one of RL too."""
    if "messages" in sample:
        return [{name: one[name] for name in ("role", "content")} for one in sample["messages"]]
    truth = json.loads(sample["reward_model"]["ground_truth"])["observation"]
    last = {**sample["prompt"][-1], "content": sample["prompt"][-1]["content"].removesuffix(ASKING)}
    return [*sample["prompt"][:-1], last, {"role": "assistant", "content": MARKER + truth}]


class FromLogs:
    """A world model that knows what was logged: it answers the messages of samples, and no others.

    Logs of one task may begin alike and go on otherwise, so the seed of a session says which of them it lives through.

    Args:
        known: the messages of samples, each of the session whose seed is its number.
        tagged: whether it is asked for tags.
    """

    def __init__(self, known: list[list[dict[str, str]]], tagged: bool) -> None:
        self.tagged = tagged
        pinned = Pinned("lwm", "r1")
        self._answers = {
            (pinned.seed_of(number, place // 2 - 1, 0), self._key(messages[:place])): messages[place]["content"]
            for number, messages in enumerate(known)
            for place in range(2, len(messages), 2)
        }

    def _key(self, messages: list[dict[str, str]]) -> str:
        return json.dumps([[one["role"], one["content"]] for one in messages])

    def __call__(self, body: dict[str, Any]) -> Any:
        said = [dict(one) for one in body["messages"]]
        if self.tagged:
            if not said[-1]["content"].endswith(ASKING):
                return 400
            said[-1]["content"] = said[-1]["content"].removesuffix(ASKING)
        answer = self._answers.get((body["seed"], self._key(said)))
        if answer is None:
            return 404
        return f"{OPENING}\n{answer.removeprefix(MARKER)}\n{CLOSING}" if self.tagged else answer


class Stub:
    """A world model that answers each step of a log, whatever it is sent, with what was logged, or with a lie.

    Args:
        known: the messages of samples, each of the session whose seed is its number.
        lies: what is answered, of the number of the step among all and the logged answer.
    """

    def __init__(self, known: list[list[dict[str, str]]], lies: Callable[[int, str], str]) -> None:
        pinned = Pinned("lwm", "r1")
        steps = [(number, place) for number, messages in enumerate(known) for place in range(2, len(messages), 2)]
        self._answers = {
            pinned.seed_of(number, place // 2 - 1, 0): MARKER
            + lies(order, known[number][place]["content"].removeprefix(MARKER))
            for order, (number, place) in enumerate(steps)
        }

    def __call__(self, body: dict[str, Any]) -> str:
        return self._answers[body["seed"]]
