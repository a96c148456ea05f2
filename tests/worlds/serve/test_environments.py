"""A served world as an environment of Gymnasium, and what rollouts of agents in it need."""

import asyncio
import json

import pytest

from tests.worlds.serve.conftest import TERMINAL
from trajmill.schemas import ConfigError
from trajmill.worlds.serve.gymnasium_env import WorldEnv
from trajmill.worlds.serve.rollouts import Rollout, action_in, opening
from trajmill.worlds.serve.serve_client import LocalWorld, RemoteWorld
from trajmill.worlds.serve.served_model import Bounds
from trajmill.worlds.serve.sessions import Limits


@pytest.fixture
def local(world, serve, tmp_path):
    scenarios = tmp_path / "scenarios.jsonl"
    scenarios.write_text("".join(json.dumps({**TERMINAL, "id": key}) + "\n" for key in ("t1", "t2")))
    made = LocalWorld(serve(world.url, scenarios=scenarios))
    yield made
    made.end()


def test_an_env_is_reset_and_stepped(local, world):
    env = WorldEnv(local, ["t1", "t2"], reward=lambda action, shown, info: float(len(action) + info["step"]))
    seen, info = env.reset(seed=5)
    assert (seen, info["seed"]) == ("$", 5)
    assert env.observation_space.contains(seen)
    assert env.step("ls")[1:4] == (2.0, False, False)
    shown, reward, terminated, truncated, more = env.step({"name": "pwd", "arguments": {}})
    assert (shown[:5], reward, terminated, truncated, more["step"]) == ("seen:", 4.0, False, False, 1)
    assert env.reset(seed=5)[1]["scenario"] == info["scenario"]
    assert env.reset(options={"scenario": "t2"})[1]["scenario"] == "t2"
    env.close()
    with pytest.raises(ServeError):
        env.step("ls")


def test_an_env_that_the_world_ends_is_truncated(world, serve):
    served = LocalWorld(serve(world.url, limits=Limits(steps=1)))
    env = WorldEnv(served, [TERMINAL])
    env.reset(seed=1)
    assert [env.step("ls")[3], env.step("ls")[3]] == [False, True]
    env.close()
    served.end()


def test_an_env_says_that_the_budget_is_spent(world, serve):
    served = LocalWorld(serve(world.url, bounds=Bounds(calls=1)))
    env = WorldEnv(served, [TERMINAL])
    env.reset(seed=1)
    env.step("ls")
    with pytest.raises(ServeError) as met:
        env.step("pwd")
    assert (met.value.status, met.value.code, met.value.more) == (402, "budget_spent", {"bound": "calls"})
    env.close()
    served.end()


def test_an_action_that_cannot_be_read_is_told_to_the_agent(local, world):
    rollout = Rollout(local)

    async def rolled_out():
        await rollout.begin("t1")
        return await rollout.answered("<action></action>")

    assert asyncio.run(rolled_out()) == ("the action is empty", False)
    assert not world.asked


@pytest.mark.parametrize(
    ("message", "action"),
    [
        ("ls", "ls"),
        ("First\n```bash\nls\n```\nthen\n```bash\npwd\n```", "pwd"),
        ('<tool_call>{"name": "a", "arguments": {}}</tool_call>', '{"name": "a", "arguments": {}}'),
        ("<think>\n<action>no</action>\n</think>\n<action>\nyes\n</action>", "yes"),
    ],
)
def test_the_action_is_found_in_what_an_agent_says(message, action):
    assert action_in(message) == action


def test_an_agent_begins_with_task_tools_and_what_it_sees():
    info = {"instruction": "Do it.", "action_space": "[]"}
    assert opening("x", info) == "Do it.\n\nTools:\n[]\n\nYou see:\nx"


def test_a_world_is_reached_by_http_only():
    with pytest.raises(ConfigError):
        RemoteWorld("file:///etc/passwd")
    with pytest.raises(ServeError) as met:
        RemoteWorld("http://127.0.0.1:9", timeout_s=2).status()
    assert met.value.code == "unreachable"
