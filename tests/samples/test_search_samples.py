"""The search samples are read as what was asked when they were written, and show what the search engine shows."""

import json
from functools import cache
from typing import Final

import pytest

from samples.makers.make_search import FILES, NO_JSON, Ask, Episode, episodes
from samples.makers.search_engine import Engine, passages
from tests.conftest import ROOT
from tests.samples.reading import read_samples
from trajmill.schemas import COMPLETE, MESSAGE, Reject, Step, Trajectory

SAMPLES: Final = ROOT / "samples" / "search"
EPISODES, COPIES = episodes()
ENGINE: Final = Engine(passages())


@cache
def read() -> tuple[dict[str, list[Trajectory]], dict[str, str], list[Reject]]:
    """(trajectories by file in order, connectors by file, rejects)."""
    trajectories: dict[str, list[Trajectory]] = {}
    logs, connectors, rejects = read_samples("search", SAMPLES)
    for uri, trajectory in logs:
        trajectories.setdefault(uri, []).append(trajectory)
    return trajectories, connectors, rejects


def trajectory(episode: Episode) -> Trajectory:
    """The trajectory of an episode; of what was written twice the first."""
    before = [earlier for earlier in EPISODES[: EPISODES.index(episode)] if earlier.form == episode.form]
    index = sum(2 if f"{earlier.form}:{earlier.question}" in COPIES else 1 for earlier in before)
    return read()[0][FILES[episode.form]][index]


def name_of(episode: Episode) -> str:
    return f"{episode.form}-{episode.question}"


def shown(episode: Episode, ask: Ask) -> str:
    """What the engine shows."""
    return ENGINE.informed(ask.given[0]) if episode.form == "search_r1" else ask.shown(ENGINE)


def checked(step: Step, episode: Episode, ask: Ask, last: bool) -> None:
    """Holds a row to a turn of the agent and to what must come of it."""
    arguments = json.loads(step.action.arguments or "{}") if ask.kind != "broken" else {}
    if ask.kind == "answer":
        assert (step.action.name, arguments) == (COMPLETE, {"answer": ask.given[0]})
        assert step.terminated is True
        assert step.next_observation is None
        return
    if ask.kind == "broken":
        assert step.action.name == (MESSAGE if episode.form == "search_r1" else "search")
        assert ask.given[0] in (step.action.arguments or step.action.text)
        assert step.next_observation is not None
        assert step.next_observation.origin == "harness"
        assert episode.form == "search_r1" or step.next_observation.content == NO_JSON
        return
    assert step.action.name == ask.kind
    assert arguments == ({"query": ask.given[0]} if episode.form == "search_r1" else ask.arguments)
    if last and episode.ends == "limit":
        assert step.next_observation is None
        assert step.truncated is True
        return
    assert step.next_observation is not None
    assert step.next_observation.content == shown(episode, ask)
    assert step.next_observation.origin == "environment"


@pytest.mark.parametrize("episode", EPISODES, ids=name_of)
def test_a_trajectory_holds_what_was_asked_and_what_was_shown(episode):
    log = trajectory(episode)
    assert log.task.instruction == episode.question
    assert len(log.steps) == len(episode.asks)
    for index, (step, ask) in enumerate(zip(log.steps, episode.asks, strict=True)):
        checked(step, episode, ask, index + 1 == len(log.steps))
        if ask.kind != "broken":
            assert (step.action.reasoning or "") == ask.thought
    assert {tool["name"] for tool in json.loads(log.context.action_space or "")} >= {"web_search"}


@pytest.mark.parametrize("episode", EPISODES, ids=name_of)
def test_the_engine_shows_what_was_written_down_by_hand(episode):
    """Holds the pages and the ranking to the script, which does not know either."""
    for ask in episode.asks:
        if ask.kind in ("search", "visit"):
            text = shown(episode, ask).replace("No documents were found", "found nothing")
            assert [part for part in ask.told if part not in text] == []
            assert ask.told


@pytest.mark.parametrize("episode", EPISODES, ids=name_of)
def test_the_answer_is_right_or_wrong_as_was_meant(episode):
    answer = episode.answer
    assert (answer is None) == (episode.ends != "answer")
    if answer is not None:
        assert (episode.reference in answer) == episode.right


def test_a_reference_that_the_agent_did_not_find_is_not_carried_on():
    for episode in EPISODES:
        if not episode.right:
            log = trajectory(episode)
            texts = [step.action.text + (step.action.reasoning or "") for step in log.steps]
            assert not any(episode.reference in text for text in [*texts, str(log.task), str(log.context)])
