"""The environment of `verifiers.v1` plays scenarios to their end; the package's own classes are not needed."""

import asyncio
import importlib
import sys
from contextlib import asynccontextmanager
from types import ModuleType, SimpleNamespace
from typing import Any, Generic, TypeVar

import pytest

from tests.worlds.serve.conftest import TERMINAL
from trajmill.worlds.serve.requests import ServeError
from trajmill.worlds.serve.serve_client import LocalWorld
from trajmill.worlds.serve.served_model import Bounds

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


class Values:
    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


class Task(Generic[A, B, C]):
    def __init__(self, data: Any, config: Any) -> None:
        self.data = data


class Taskset(Generic[A, B]):
    def __init__(self, config: Any) -> None:
        self.config = config


class Env(Generic[A]):
    def __init__(self, taskset: Any) -> None:
        self.taskset = taskset


@pytest.fixture
def classes(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module, made with classes of the shape of those of verifiers 0.4.0."""
    package, told = ModuleType("verifiers"), ModuleType("verifiers.v1")
    told.__dict__.update(Task=Task, Taskset=Taskset, Env=Env, State=Values)
    told.__dict__.update(dict.fromkeys(("TasksetConfig", "TaskData", "TaskConfig", "EnvConfig", "AgentConfig"), Values))
    package.v1 = told  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "verifiers", package)
    monkeypatch.setitem(sys.modules, "verifiers.v1", told)
    name = "trajmill.worlds.serve.verifiers_world"
    monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module(name)
    sys.modules.pop(name, None)


class Agent:
    """Says what it is to say, and notes what it is shown."""

    def __init__(self, *said: str) -> None:
        self.left, self.shown = list(said), list[str | None]()
        self.trace = SimpleNamespace(info={})

    @asynccontextmanager
    async def interaction(self, task: Any) -> Any:
        yield self

    async def turn(self, shown: str | None = None) -> Any:
        self.shown.append(shown)
        return SimpleNamespace(terminated=not self.left, last_reply=self.left.pop(0) if self.left else "")


def played(classes: Any, monkeypatch: pytest.MonkeyPatch, sessions: Any, agent: Agent) -> None:
    world = LocalWorld(sessions)
    monkeypatch.setattr(classes, "world_at", lambda url, variable: world)
    taskset = classes.WorldTaskset(Values(url="", seed=3, token_variable="T", task=None))
    monkeypatch.setattr(world, "scenarios", lambda: [TERMINAL], raising=False)
    (task,) = taskset.load()
    assert task.data.prompt == "List what is there.\n\nYou see:\n$"
    try:
        asyncio.run(classes.WorldEnv(taskset).run(task, SimpleNamespace(player=agent)))
    finally:
        assert not sessions.status()["sessions"]
        world.end()


def test_an_agent_is_shown_what_the_world_answers_until_it_declares_its_task_done(classes, monkeypatch, world, serve):
    done = '<action>{"name": "task_complete", "arguments": {}}</action>'
    agent = Agent("<action>ls</action>", done, "no more")
    played(classes, monkeypatch, serve(world.url), agent)
    assert [str(one).startswith("seen:") for one in agent.shown] == [False, True]
    assert agent.left == ["no more"]
    assert agent.trace.info["trajmill_session"]


def test_an_agent_that_says_no_more_ends_its_session(classes, monkeypatch, world, serve):
    agent = Agent("<action>ls</action>")
    played(classes, monkeypatch, serve(world.url), agent)
    assert len(agent.shown) == 2


def test_a_budget_that_is_spent_ends_the_episode_and_its_session(classes, monkeypatch, world, serve):
    with pytest.raises(ServeError, match="budget"):
        played(classes, monkeypatch, serve(world.url, bounds=Bounds(calls=0)), Agent("<action>ls</action>"))
