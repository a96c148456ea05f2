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
    by_id = {scenario.id: scenario for scenario in scenarios_in(Folder(str(out)), mix, TokenCounter(), (pool,))}
    logs, view = [], View.of(mix)
    for rows in rows_of(out, mix, (pool,)):
        key = rows[0]["trajectory_id"]
        if key in samples:
            logs.append(Logged(by_id[key], steps_of(rows, view), whole(samples[key])))
    return logs


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
        survivors = [
            {**row, "use": verdict["use"]} for row, verdict in zip(rows, judged, strict=True) if verdict["kept"]
        ]
        wanted = {draw["trajectory_id"] for draw in read_draws(folder / "draws", unit.label) if drawn_for(draw, pools)}
        for (key, segment), part in groupby(survivors, key=itemgetter("trajectory_id", "segment")):
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
    steps: list[dict[str, Any]] = []
    last = None
    for row in rows:
        if row["use"] == "omit":
            continue
        before = row["observation"]
        state = text_of(before, view) if before and before["origin"] == "environment" else None
        is_shown = last is None or state is None or state == text_of(last["next_observation"], view)
        call = {"text": row["action"]["text"], "name": row["action"]["name"]}
        if row["action"]["arguments"] is not None:
            call["arguments"] = json.loads(row["action"]["arguments"])
        step = {"action": call, "step": len(steps), "time_limit_s": row["time_limit_s"]}
        step["together"] = last is not None and last["turn"] == row["turn"]
        if not step["together"]:
            step["said"] = said_in([sibling for sibling in rows if sibling["turn"] == row["turn"]])
        steps.append(step if is_shown or step["together"] else {**step, "state": state})
        last = row
    return steps


def said_in(calls: Rows) -> list[dict[str, str]]:
    """What the harness and the user said before a turn."""
    messages = [message for row in calls for message in json.loads(row["interleaved"] or "[]")]
    return [
        {"role": message["role"], "content": message["content"]}
        for message in messages
        if message["role"] in ("harness", "user")
    ]


def whole(sample: Mapping[str, Any]) -> list[dict[str, str]]:
    """All messages of a sample, the answer of one of RL too."""
    if "messages" in sample:
        return [{name: message[name] for name in ("role", "content")} for message in sample["messages"]]
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
            (pinned.seed_of(number, index // 2 - 1, 0), self._key(messages[:index])): messages[index]["content"]
            for number, messages in enumerate(known)
            for index in range(2, len(messages), 2)
        }

    def _key(self, messages: list[dict[str, str]]) -> str:
        return json.dumps([[message["role"], message["content"]] for message in messages])

    def __call__(self, body: dict[str, Any]) -> Any:
        messages = [dict(message) for message in body["messages"]]
        if self.tagged:
            if not messages[-1]["content"].endswith(ASKING):
                return 400
            messages[-1]["content"] = messages[-1]["content"].removesuffix(ASKING)
        answer = self._answers.get((body["seed"], self._key(messages)))
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
        steps = [(number, index) for number, messages in enumerate(known) for index in range(2, len(messages), 2)]
        self._answers = {
            pinned.seed_of(number, index // 2 - 1, 0): MARKER
            + lies(order, known[number][index]["content"].removeprefix(MARKER))
            for order, (number, index) in enumerate(steps)
        }

    def __call__(self, body: dict[str, Any]) -> str:
        return self._answers[body["seed"]]
