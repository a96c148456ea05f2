"""Rollouts of agents in a served world, and the environment that TRL is given."""

import subprocess
import sys
from functools import partial

import polars as pl
import pytest

from tests.conftest import ROOT
from tests.synthesis.chat_server import chat_server
from tests.worlds.serve.conftest import TERMINAL
from tests.worlds.serve.local_world import LocalWorld
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.render.fixed_texts import MARKER
from trajmill.pipelines.run import Run
from trajmill.schemas import scan_transitions
from trajmill.worlds.serve.serve_client import RemoteWorld, Rollout, ServeError, action_in
from trajmill.worlds.serve.served_model import Bounds
from trajmill.worlds.serve.sessions import Limits
from trajmill.worlds.serve.trl_environment import WorldEnvironment

DONE = '{"name": "task_complete", "arguments": {}}'


@pytest.fixture
def local(world, serve):
    worlds = []

    def served(**more):
        worlds.append(LocalWorld(serve(world.url, **more)))
        return worlds[-1]

    yield served
    for local_world in worlds:
        local_world.end()


def test_a_rollout_ends_where_the_agent_declares_its_task_done(local, world):
    rollout = Rollout(local(), TERMINAL, seed=7)
    assert (rollout.opening, rollout.begun["info"]["seed"]) == ("List what is there.\n\nYou see:\n$", 7)
    shown = rollout.answer("<think>\nfirst\n</think>\n<action>ls</action>")
    assert (shown[:5], rollout.done) == ("seen:", False)
    assert "ls" in world.asked[0]["messages"][-1]["content"]
    assert "first" not in world.asked[0]["messages"][-1]["content"]
    last = rollout.answer(DONE)
    assert (rollout.shown, rollout.done) == ([shown, last], True)
    rollout.close()
    with pytest.raises(ServeError) as met:
        rollout.answer("ls")
    assert met.value.status == 410


def test_a_rollout_that_the_world_ends_is_done_and_may_be_closed(local):
    rollout = Rollout(local(limits=Limits(steps=1)), TERMINAL)
    assert [rollout.answer("ls") == "", rollout.done] == [False, False]
    assert [rollout.answer("ls"), rollout.done] == ["", True]
    rollout.close()


def test_a_session_alone_is_told_its_instruction_and_its_rows_say_it(world, serve, tmp_path):
    sessions = serve(world.url)
    local = LocalWorld(sessions)
    instruction = "The second command fails with 'disk full'. The free space is 3 MB; never say so."
    scenario = {**TERMINAL, "context": {"simulation_instruction": "All goes well."}}
    openings = [local.reset({"scenario": scenario, "simulation_instruction": text}) for text in (instruction, None)]
    for session in openings:
        local.step({"session": session["session"], "action": "ls"})
        local.close({"session": session["session"]})
    with pytest.raises(ServeError) as met:
        local.reset({"scenario": TERMINAL, "simulation_instruction": 5})
    local.end()
    assert met.value.status == 400
    prompts = [request["messages"][0]["content"] for request in world.asked]
    assert [(instruction in prompt, "All goes well." in prompt) for prompt in prompts] == [(True, False), (False, True)]
    out = tmp_path / "out"
    Run(load_recipe("all"), [str(tmp_path / "log" / "trajectories")], str(out)).run("normalize")
    rows = scan_transitions(out).collect()["context"].struct.field("simulation_instruction")
    assert set(rows) == {instruction, "All goes well."}


def test_rows_that_break_the_instruction_of_their_session_are_marked_and_are_context(serve, tmp_path):
    instruction = "The answer to turn 2 reports an error."
    with chat_server(lambda _: MARKER + "removed") as chat:
        local = LocalWorld(serve(chat.url))
        opening = local.reset({"scenario": TERMINAL, "simulation_instruction": instruction})
        for action in ("rm a", "rm b"):
            local.step({"session": opening["session"], "action": action})
        local.end()
    recipe = load_recipe("all")
    recipe = recipe.model_copy(update={"judge": recipe.judge.model_copy(update={"simulated": "allow"})})
    Run(recipe, [str(tmp_path / "log" / "trajectories")], str(tmp_path / "out")).run("judge")
    (verdicts,) = (tmp_path / "out" / "verdicts").glob("*/*.parquet")
    rows = pl.read_parquet(verdicts).sort("step")
    assert rows["use"].to_list() == ["target", "context"]
    assert rows["signal.broken_instruction"].to_list() == [0, 1]


def test_a_message_without_an_action_is_told_to_the_agent_and_takes_no_step(local, world):
    rollout = Rollout(local(), TERMINAL)
    assert rollout.answer("<action></action>") == "the action is empty"
    assert not world.asked
    assert rollout.answer("ls").startswith("seen:")
    assert len(rollout.shown) == 1


def test_an_environment_of_trl_takes_actions_until_the_session_is_over(local):
    environment = partial(WorldEnvironment, local())()
    assert environment.reset(TERMINAL, prompt=[]) == "List what is there.\n\nYou see:\n$"
    assert environment.act("ls").startswith("seen:")
    environment.act(DONE)
    with pytest.raises(ValueError, match="over"):
        environment.act("ls")
    environment.reset(TERMINAL)
    assert environment.rollout is not None
    assert environment.rollout.shown == []
    assert environment.act("pwd").startswith("seen:")


def test_an_environment_of_trl_says_that_its_world_failed_and_begins_anew(local):
    world = local(bounds=Bounds(calls=1))
    environment = WorldEnvironment(world)
    environment.reset(TERMINAL)
    environment.act("ls")
    with pytest.raises(ServeError) as met:
        environment.act("pwd")
    assert (met.value.status, met.value.more, environment.failed) == (402, {"bound": "calls"}, "budget_spent")
    with pytest.raises(ValueError, match="over"):
        environment.act("pwd")
    environment.reset(TERMINAL)
    assert environment.failed == ""


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


def test_an_agent_begins_with_task_tools_and_what_it_sees(local):
    scenario = {**TERMINAL, "context": {"action_space": "[]"}}
    assert Rollout(local(), scenario).opening == "List what is there.\n\nTools:\n[]\n\nYou see:\n$"


def test_a_world_is_reached_by_http_only():
    with pytest.raises(ValueError, match="no address"):
        RemoteWorld("file:///etc/passwd")
    with pytest.raises(ServeError) as met:
        RemoteWorld("http://127.0.0.1:9", timeout_s=2).status()
    assert met.value.code == "unreachable"


def test_the_client_needs_the_standard_library_alone():
    code = "import sys; sys.path.insert(0, sys.argv[1]); import trajmill.worlds.serve.trl_environment"
    subprocess.run([sys.executable, "-I", "-S", "-c", code, str(ROOT)], check=True)
