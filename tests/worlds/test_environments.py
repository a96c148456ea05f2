"""A served world in the shapes that trainers ask for; their packages are not needed."""

import asyncio
import json

import pytest

from tests.worlds.conftest import TERMINAL
from trajmill.schemas import ConfigError
from trajmill.worlds.serve.gymnasium_env import WorldEnv
from trajmill.worlds.serve.requests import ServeError
from trajmill.worlds.serve.rollouts import action_in, calls_last, opening
from trajmill.worlds.serve.serve_client import LocalWorld, RemoteWorld
from trajmill.worlds.serve.served_model import Bounds
from trajmill.worlds.serve.sessions import Limits
from trajmill.worlds.serve.verifiers_env import WorldRollouts, load_environment, rows_of, wants_pairs
from trajmill.worlds.serve.verl_interaction import WorldInteraction


@pytest.fixture
def local(world, serve, tmp_path):
    scenarios = tmp_path / "scenarios.jsonl"
    scenarios.write_text("".join(json.dumps({**TERMINAL, "id": key}) + "\n" for key in ("t1", "t2")))
    made = LocalWorld(serve(world.url, scenarios=scenarios))
    yield made
    made.end()


def said(*contents):
    return [{"role": "user", "content": "go"}, *({"role": "assistant", "content": one} for one in contents)]


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
    with pytest.raises(ServeError, match="Call reset"):
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


def test_verl_rolls_out_by_an_interaction(local):
    interaction = WorldInteraction({"name": "world", "max_turns": 2}, world=local, score=lambda session: 0.5)

    async def rolled_out():
        own = await interaction.start_interaction("i1", scenario="t1", seed=3)
        one = await interaction.generate_response(own, said("I look.\n<action>ls</action>"))
        two = await interaction.generate_response(own, said("I look.", "<think>\nhm\n</think>\npwd"))
        score = await interaction.calculate_score(own)
        await interaction.finalize_interaction(own)
        await interaction.finalize_interaction(own)
        return own, one, two, score

    own, (over, text, reward, info), two, score = asyncio.run(rolled_out())
    assert (own, over, reward, info["origin"], score) == ("i1", False, 0.0, "environment", 0.5)
    assert text == "seen: " + "\n**Action:**\n```text\nls\n```"[-20:]
    assert two[0]
    assert two[1].endswith("pwd\n```")


def test_an_action_that_cannot_be_read_is_told_to_the_agent(local, world):
    interaction = WorldInteraction({}, world=local)

    async def rolled_out():
        own = await interaction.start_interaction(scenario="t1")
        return await interaction.generate_response(own, said("<action></action>"))

    over, text, _, info = asyncio.run(rolled_out())
    assert (over, text, info["origin"]) == (False, "the action is empty", "harness")
    assert not world.asked


def test_verifiers_rolls_out_in_an_environment(local):
    env = WorldRollouts(world=local, max_turns=5)
    (row, _) = rows_of(local, ["t1", "t2"], seed=2)
    assert row["prompt"] == [{"role": "user", "content": "List what is there.\n\nYou see:\n$"}]

    async def rolled_out():
        state = await env.setup_state({"info": row["info"]})
        messages = [*row["prompt"], {"role": "assistant", "content": "```bash\nls\n```"}]
        assert not await env.is_completed(messages, state)
        first = await env.env_response(messages, state)
        assert not await env.is_completed(state)
        call = {"id": "c", "type": "function", "function": {"name": "task_complete", "arguments": "{}"}}
        last = await env.env_response([{"role": "assistant", "content": None, "tool_calls": [call]}], state)
        return first, last, await env.is_completed(messages, state)

    first, last, over = asyncio.run(rolled_out())
    assert not local._sessions.status()["sessions"]
    assert first[0]["role"] == "user"
    assert first[0]["content"].endswith("ls\n```")
    assert len(last) == 1
    assert over
    assert isinstance(load_environment("http://127.0.0.1:9"), WorldRollouts)


def test_a_response_is_told_with_the_state_where_a_release_wants_it(local):
    class Older:
        async def env_response(self, messages: list, state: dict) -> tuple[list, dict]:
            return messages, state

    class Newer:
        async def env_response(self, messages: list, state: dict) -> list:
            return messages

    assert (wants_pairs(Older), wants_pairs(Newer), wants_pairs(object)) == (True, False, False)
    env = WorldRollouts(world=local, pairs=True)

    async def rolled_out():
        state = await env.setup_state({"info": {"scenario": "t1"}})
        return state, await env.env_response(said("ls"), state)

    state, (messages, same) = asyncio.run(rolled_out())
    assert same is state
    assert messages[0]["role"] == "user"


def test_calls_at_once_are_one_turn(local, world):
    interaction = WorldInteraction({}, world=local)
    calls = [{"function": {"name": name, "arguments": '{"a": 1}'}} for name in ("one", "two")]

    async def rolled_out():
        own = await interaction.start_interaction(scenario="t1")
        return await interaction.generate_response(own, [{"role": "assistant", "content": "", "tool_calls": calls}])

    _, text, _, _ = asyncio.run(rolled_out())
    assert text.count("seen: ") == 2
    assert world.asked[1]["messages"][3]["content"].startswith("### Turn 2\n**Action:**\n")


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


def test_arguments_that_are_no_json_are_no_action():
    (call,) = calls_last([{"role": "assistant", "tool_calls": [{"function": {"name": "a", "arguments": "{"}}]}])
    assert call == {"name": "a", "arguments": "{"}


def test_an_agent_begins_with_task_tools_and_what_it_sees():
    info = {"instruction": "Do it.", "action_space": "[]"}
    assert opening("x", info)[0]["content"] == "Do it.\n\nTools:\n[]\n\nYou see:\nx"


def test_a_world_is_reached_by_http_only():
    with pytest.raises(ConfigError, match="no address of a served world"):
        RemoteWorld("file:///etc/passwd")
    with pytest.raises(ServeError) as met:
        RemoteWorld("http://127.0.0.1:9", timeout_s=2).status()
    assert met.value.code == "unreachable"
