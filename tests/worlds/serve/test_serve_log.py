"""What sessions leave is read again by a run, as rows of kind `model`, and renders as it was served."""

import asyncio
import json

from tests.synthesis.chat_server import chat_server
from tests.worlds.serve.logged_world import logged
from trajmill.pipelines.recipe.recipe import Mix
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.render.fixed_texts import MARKER
from trajmill.pipelines.run import Run
from trajmill.pipelines.storage.folders import Folder
from trajmill.schemas import scan_transitions

MOVE = {"name": "move", "arguments": {"sku": "P-03", "bay": 2, "why": "ä"}}
SCENARIO = {
    "id": "warehouse-1",
    "domain": "mcp",
    "context": {"action_space": '[{"name": "move", "description": "Moves a thing."}]', "initial_state": "P-03: yard"},
    "instruction": "Move P-03.",
    "instance_id": "warehouse",
}


def answered(body):
    return MARKER + f"moved, after {len(body['messages'])} messages"


async def lived(sessions, scenario, actions):
    opening = await sessions.reset({"scenario": scenario, "session": "first", "seed": 11})
    for action in actions:
        await sessions.step({"session": opening["session"], **action})
    await sessions.close({"session": "first"})


def rows_of(log, out):
    recipe = load_recipe("all")
    allowing = recipe.judge.model_copy(update={"simulated": "allow"})
    recipe = recipe.model_copy(update={"mix": Mix(pools={"sft": 1.0}), "judge": allowing})
    Run(recipe, [str(log / "trajectories")], str(out)).run()
    (file,) = (out / "transitions").glob("*/*.parquet")
    return recipe, scan_transitions(file).collect().to_dicts()


def test_a_session_is_read_again_as_rows_of_kind_model(serve, tmp_path):
    actions = [{"action": MOVE}, {"action": {**MOVE, "name": "count"}, "together": True}, {"action": MOVE}]
    with chat_server(answered) as chat:
        sessions = serve(chat.url)
        asyncio.run(lived(sessions, SCENARIO, actions))
    _, rows = rows_of(tmp_path / "log", tmp_path / "out")
    assert [row["native_id"] for row in rows] == ["first"] * 3
    environment = rows[0]["environment"]
    assert (environment["kind"], environment["world_model"]) == ("model", "lwm@r1")
    assert json.loads(environment["sampling"]) == {
        "temperature": 0.0,
        "max_tokens": 200,
        "seed": 11,
        "scenario": "warehouse-1",
    }
    assert environment["instance_id"] == "warehouse"
    assert rows[0]["task"]["instruction"] == "Move P-03."
    assert rows[0]["context"]["initial_state"] == "P-03: yard"
    assert [row["turn"] for row in rows] == [0, 0, 1]
    assert json.loads(rows[0]["action"]["arguments"]) == MOVE["arguments"]
    assert [row["next_observation"]["content"] for row in rows] == [f"moved, after {n} messages" for n in (2, 4, 6)]
    served = json.loads((tmp_path / "log" / "trajectories" / "first.json").read_text())["extra"]["served"]
    assert [call["step"] for call in served["calls"]] == [0, 1, 2]
    assert served["cost"] == 3 * 0.0022


def test_time_limits_and_what_ran_out_of_them_are_read_again(serve, tmp_path):
    counted = {"action": {"name": "bash", "arguments": {"command": "expr 9"}}}
    slept = {"action": {"name": "bash", "arguments": {"command": "sleep 9"}}, "time_limit_s": 5}
    with chat_server(lambda body: MARKER + ("[timed out]" if "sleep" in str(body["messages"][-1]) else "9")) as chat:
        sessions = serve(chat.url)
        scenario = {**SCENARIO, "domain": "terminal", "time_limit_s": 60}
        asyncio.run(lived(sessions, scenario, [counted, slept]))
    _, rows = rows_of(tmp_path / "log", tmp_path / "out")
    assert [(row["time_limit_s"], row["timed_out"]) for row in rows] == [(60.0, None), (5.0, True)]


def test_what_a_run_makes_of_a_session_is_what_the_model_was_sent(serve, tmp_path):
    recipe = load_recipe("all")
    with chat_server(answered) as chat:
        sessions = serve(chat.url, mix=recipe.mix)
        asyncio.run(lived(sessions, SCENARIO, [{"action": MOVE}, {"action": "count"}, {"action": MOVE}]))
    rules, _ = rows_of(tmp_path / "log", tmp_path / "out")
    (session,) = logged(tmp_path / "out", rules.mix, "sft")
    sent = [*chat.asked[-1]["messages"], {"role": "assistant", "content": answered(chat.asked[-1])}]
    assert session.messages[1:] == sent[1:]
    # the template is drawn by the id of the trajectory, which another log gives another
    assert len(session.messages) == 7


def test_the_same_answers_leave_the_same_bytes(serve, tmp_path):
    for log in ("log", "second"):
        with chat_server(answered) as chat:
            asyncio.run(lived(serve(chat.url, log=log), SCENARIO, [{"action": MOVE}, {"action": "count"}]))
    first, two = (Folder(str(tmp_path / log / "trajectories")).read("first.json") for log in ("log", "second"))
    assert first == two


def test_answers_that_say_an_error_as_servers_do_are_marked_as_logs_mark_them(serve, tmp_path):
    answers = iter(["moved", "Error executing tool move: no bay 2", '{"content": [], "isError": false}'])
    with chat_server(lambda _: MARKER + next(answers)) as chat:
        asyncio.run(lived(serve(chat.url), SCENARIO, [{"action": MOVE}] * 3))
    _, rows = rows_of(tmp_path / "log", tmp_path / "out")
    assert [row["next_observation"]["is_error"] for row in rows] == [None, True, False]
