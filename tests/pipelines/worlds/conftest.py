"""A run over a few samples of each domain, and a world model that answers from what was logged."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest

from pipelines.engine.storage import Folder
from pipelines.engine.units import MANIFEST, read_manifest
from pipelines.face.atif_documents import atif_document
from pipelines.judge.judging import Unit
from pipelines.recipe.recipe import Mix, Recipe
from pipelines.recipe.recipe_file import load_recipe
from pipelines.rendering.prompts import ASKING, CLOSING, OPENING
from pipelines.rendering.turns import MARKER, View, state_of
from pipelines.run import Run
from pipelines.synthesis.endpoint import Address, openai_library
from pipelines.synthesis.replies import Replies
from pipelines.synthesis.spending import Prices
from pipelines.worlds.history import Manner
from pipelines.worlds.scenarios import Scenario, Scenarios, scenarios_in, trajectories_of
from pipelines.worlds.serve_log import ServeLog
from pipelines.worlds.served_model import Bounds, Pinned, ServedModel
from pipelines.worlds.sessions import Limits, Sessions
from quality.tokens import TokenCounter
from tests.conftest import ROOT
from tests.pipelines.synthesis.chat_server import ChatServer, chat_server

RAW = (
    "mcp/desktop/mcp-server-library-three-at-once.log",
    "mcp/desktop/mcp-server-calendar-move-choir.log",
    "search/search_r1.txt",
    "terminal/asciicast/xargs_and_perl.cast",
    "terminal/asciicast/permission_denied.cast",
    "swe/mini-calls/trajs/holm__span-1",
    "swe/mini-calls/trajs/holm__bell-5",
    "swe/mini-calls/trajs/holm__grid-11",
    "web/tasks/undo-done",
    "web/tasks/finish-one",
    "os/computer_13/a11y_tree/scripted-a/contacts/look-up",
    "os/pyautogui/a11y_tree/scripted-a/tasks/show-open",
    "android/uiautomator/run_02",
    "android/uiautomator/run_05",
    "android/uiautomator/run_14",
)


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's pauses grow from half a second, which tests need not wait for."""
    client = openai_library()._base_client
    monkeypatch.setattr(client, "INITIAL_RETRY_DELAY", 0.001)
    monkeypatch.setattr(client, "MAX_RETRY_DELAY", 0.002)


def recipe(**mix: Any) -> Recipe:
    found = load_recipe("all")
    return found.model_copy(update={"mix": Mix(pools={"sft": 0.5, "rl": 0.5}, **mix)})


@pytest.fixture(scope="session")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output folder of a run over all domains, with pools sft and rl; not to be changed."""
    out = tmp_path_factory.mktemp("drawn") / "out"
    Run(recipe(), [str(ROOT / "samples" / name) for name in RAW], str(out)).run()
    return out


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
    manifest = read_manifest(Folder(str(out)) / "transitions", MANIFEST)
    assert manifest is not None
    for number, file in enumerate(manifest.files):
        unit = Unit(number, file.name, file.sha256)
        for rows, _ in trajectories_of(Folder(str(out)), unit, (pool,), envelopes=mix.mcp == "envelope"):
            key = rows[0]["trajectory_id"]
            if key in samples:
                found.append(Logged(begun[key], steps(rows, view), whole(samples[key])))
    return found


def steps(rows: Any, view: View) -> list[dict[str, Any]]:
    """What a client says at each step of a trajectory; a state only where it is not what the step before led to."""
    made: list[dict[str, Any]] = []
    last = None
    for row in rows:
        if row["use"] == "omit":
            continue
        state = state_of(row, view)
        told = last is None or state is None or state == view.text(last["next_observation"])
        call = {"text": row["action"]["text"], "name": row["action"]["name"]}
        if row["action"]["arguments"] is not None:
            call["arguments"] = json.loads(row["action"]["arguments"])
        step = {"action": call, "step": len(made), "time_limit_s": row["time_limit_s"]}
        step["together"] = last is not None and last["turn"] == row["turn"]
        made.append(step if told or step["together"] else {**step, "state": state})
        last = row
    return made


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


Serve = Callable[..., Sessions]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Makes sessions of a world model at an endpoint."""
    made: list[Sessions] = []

    def sessions(
        url: str,
        pool: Any = "sft",
        mix: Mix | None = None,
        *,
        bounds: Bounds | None = None,
        limits: Limits | None = None,
        prices: Prices | None = None,
        log: str = "log",
        scenarios: Path | None = None,
        **more: Any,
    ) -> Sessions:
        address = Address(url, prices=prices or Prices(2.0, 10.0), retries=2, timeout_s=20)
        pinned = Pinned.of("lwm@r1", sampling={"temperature": 0.0, "max_tokens": 200}, **more)
        model = ServedModel(address, pinned, Replies(Folder(str(tmp_path / log / ".replies"))), bounds or Bounds())
        manner = Manner(mix or recipe().mix, pool, pool != "sft", TokenCounter())
        written = ServeLog(tmp_path / log, atif_document)
        made.append(Sessions(model, manner, Scenarios(scenarios), written, limits))
        return made[-1]

    yield sessions
    for one in made:
        one.close_all()
        one.log.close()
        one.model.close()


@pytest.fixture
def world() -> Iterator[ChatServer]:
    """A world model that says what it was asked last, for tests of everything else."""
    with chat_server(lambda body: MARKER + "seen: " + body["messages"][-1]["content"][-20:]) as chat:
        yield chat


TERMINAL = {"id": "t1", "domain": "terminal", "observation": "$", "instruction": "List what is there."}
