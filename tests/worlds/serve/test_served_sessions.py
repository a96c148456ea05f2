import asyncio
import json

import pytest

from tests.synthesis.chat_server import chat_server, completion
from tests.worlds.serve.conftest import TERMINAL, recipe
from trajmill.pipelines.render.fixed_texts import CLOSING, MARKER, OPENING
from trajmill.schemas import ConfigError
from trajmill.synthesis.replies import Prices
from trajmill.worlds.serve.scenarios import Scenario, Scenarios
from trajmill.worlds.serve.serve_client import ServeError
from trajmill.worlds.serve.served_model import Bounds, Pinned
from trajmill.worlds.serve.sessions import Limits


def taken(sessions, *actions, scenario=TERMINAL, **more):
    """What each action led to, or why it led to nothing."""

    async def all_of():
        opening = await sessions.reset({"scenario": scenario, **more})
        answers = []
        for action in actions:
            try:
                answers.append(await sessions.step({"session": opening["session"], "action": action}))
            except ServeError as error:
                answers.append(error)
        return answers

    return asyncio.run(all_of())


def calls_in(folder):
    return [json.loads(line) for line in (folder / "log" / "calls.jsonl").read_text().splitlines()]


def test_a_step_shows_what_the_model_says_is_observed(world, serve):
    (first, second) = taken(serve(world.url), "ls", "pwd")
    assert first["observation"].startswith("seen: ")
    assert (first["reward"], first["terminated"], first["truncated"]) == (0.0, False, False)
    assert first["usage"]["prompt_tokens"] == 100
    assert first["usage"]["cost"] == pytest.approx((100 * 2 + 200 * 10) / 1e6)
    assert second["info"]["step"] == 1
    sent = world.asked[1]["messages"]
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "user"]
    assert sent[1]["content"] == "### Turn 1\n**Current State:**\n$\n\n**Action:**\n```text\nls\n```"
    assert sent[2]["content"] == MARKER + first["observation"]
    assert sent[3]["content"] == "### Turn 2\n**Action:**\n```text\npwd\n```"


def test_how_a_command_ended_is_told_apart_and_shown_again_as_it_was(serve):
    answers = iter(["a\n[exit code 2]", "[timed out]", "[exit code 007]", "x"])
    with chat_server(lambda _: MARKER + next(answers)) as chat:
        steps = taken(serve(chat.url), "make", "sleep 9", "odd", "ls")
    assert [answer["observation"] for answer in steps] == ["a", "", "[exit code 007]", "x"]
    assert [answer["info"]["exit_code"] for answer in steps] == [2, None, None, None]
    assert [answer["info"]["timed_out"] for answer in steps] == [None, True, None, None]
    assert [answer["info"]["answer"] for answer in steps] == ["observed", "observed", "observed", "observed"]
    contents = [message["content"] for message in chat.asked[3]["messages"] if message["role"] == "assistant"]
    assert contents == [MARKER + "a\n[exit code 2]", MARKER + "[timed out]", MARKER + "[exit code 007]"]


@pytest.mark.parametrize(
    ("pool", "answer", "fault"),
    [
        ("sft", completion(None, refusal=None), None),
        ("sft", completion("I cannot help with that."), "malformed"),
        ("rl", completion("I cannot help with that."), "malformed"),
        ("sft", completion(" \n"), "silent"),
        ("sft", completion(MARKER + "half", finish="length"), "cut"),
        ("sft", completion("", finish="content_filter"), "declined"),
        ("sft", {**completion(None), "choices": [{"message": {"content": None, "refusal": "No."}}]}, "declined"),
        ("sft", 413, "refused"),
    ],
)
def test_what_is_no_observation_is_told_and_never_shown(serve, tmp_path, pool, answer, fault):
    with chat_server(lambda _: answer) as chat:
        (result,) = taken(serve(chat.url, pool), "ls")
    if fault is None:  # it is no answer of a chat endpoint
        assert (result.status, result.code) == (502, "endpoint_failed")
        return
    assert result["observation"] == ""
    assert result["truncated"]
    assert result["info"] == {"step": 0, "answer": "none", "ended": "no_observation", "fault": fault}
    assert [call["outcome"] for call in calls_in(tmp_path)] == [fault, fault]
    assert not list((tmp_path / "log" / "trajectories").iterdir())


def test_an_answer_that_is_none_is_asked_for_again_with_another_seed(serve, tmp_path):
    answers = iter(["no", MARKER + "yes"])
    with chat_server(lambda _: next(answers)) as chat:
        (answer,) = taken(serve(chat.url), "ls", seed=7)
    assert answer["observation"] == "yes"
    assert answer["info"]["tries"] == 2
    pinned = Pinned("lwm", "r1")
    assert [request["seed"] for request in chat.asked] == [pinned.seed_of(7, 0, 0), pinned.seed_of(7, 0, 1)]
    assert [call["outcome"] for call in calls_in(tmp_path)] == ["malformed", "observed"]


def test_an_empty_observation_is_told_as_empty(serve):
    with chat_server(lambda _: MARKER) as chat:
        (answer,) = taken(serve(chat.url), "true")
    assert (answer["observation"], answer["info"]["answer"], answer["truncated"]) == ("", "empty", False)


def test_thoughts_are_not_shown_and_not_kept(serve):
    reply = f"<think>\nhm\n</think>\n\n{OPENING}\nseen\n{CLOSING}"
    with chat_server(lambda _: reply) as chat:
        answers = taken(serve(chat.url, "rl"), "ls", "pwd")
    assert [answer["observation"] for answer in answers] == ["seen", "seen"]
    assert chat.asked[1]["messages"][2]["content"] == MARKER + "seen"


def test_the_same_session_asks_the_same_and_is_not_paid_for_twice(world, serve, tmp_path):
    sessions = serve(world.url)
    first, two = taken(sessions, "ls", "pwd", seed=3), taken(sessions, "ls", "pwd", seed=3)
    assert [answer["observation"] for answer in two] == [answer["observation"] for answer in first]
    assert len(world.asked) == 2
    assert [call["known"] for call in calls_in(tmp_path)] == [False, False, True, True]
    assert sessions.status()["used"]["cost"] == pytest.approx(2 * (100 * 2 + 200 * 10) / 1e6)
    taken(sessions, "ls", seed=4)
    assert len(world.asked) == 3


@pytest.mark.parametrize(
    ("bounds", "bound"),
    [(Bounds(calls=2), "calls"), (Bounds(tokens=2250), "tokens"), (Bounds(cost=0.008), "cost")],
)
def test_a_budget_stops_it_and_says_which(world, serve, bounds, bound):
    sessions = serve(world.url, bounds=bounds)
    answers = taken(sessions, "ls", "pwd", "id", "w")
    assert [answer["observation"][:5] for answer in answers[:2]] == ["seen:", "seen:"]
    stopped = next(answer for answer in answers if isinstance(answer, ServeError))
    assert (stopped.status, stopped.body["status"], stopped.body["bound"]) == (402, "budget_spent", bound)
    status = sessions.status()
    assert (status["status"], status["bound"]) == ("budget_spent", bound)
    assert status["counts"]["ended.budget_spent"] == 1
    used = status["used"]
    assert used["calls"] <= (bounds.calls or 99)
    assert used["cost"] <= (bounds.cost or 99)
    assert used["prompt_tokens"] + used["completion_tokens"] <= (bounds.tokens or 9999)


def test_requests_in_flight_pass_no_bound_together(serve):
    with chat_server(lambda _: MARKER + "x") as chat:
        sessions = serve(chat.url, bounds=Bounds(tokens=1500))

        async def one(number):
            opening = await sessions.reset({"scenario": TERMINAL, "seed": number})
            try:
                return await sessions.step({"session": opening["session"], "action": "ls"})
            except ServeError as error:
                return error

        async def many():
            return await asyncio.gather(*(one(number) for number in range(12)))

        answers = asyncio.run(many())
    assert sum(isinstance(answer, dict) for answer in answers) == len(chat.asked)
    assert 300 * len(chat.asked) <= 1500
    assert {answer.code for answer in answers if isinstance(answer, ServeError)} == {"budget_spent"}


def test_costs_are_not_bounded_without_prices(serve):
    with pytest.raises(ConfigError, match="--max-cost"):
        serve("http://127.0.0.1:1/v1", bounds=Bounds(cost=1.0), prices=Prices(0.0, 0.0))


def test_a_step_that_is_given_again_is_answered_as_before(world, serve):
    sessions = serve(world.url)

    async def again():
        opening = await sessions.reset({"scenario": TERMINAL})
        body = {"session": opening["session"], "action": "ls", "step": 0}
        first, two = await sessions.step(body), await sessions.step(body)
        assert first == two
        with pytest.raises(ServeError) as met:
            await sessions.step({**body, "action": "other"})
        assert (met.value.status, met.value.code) == (409, "wrong_step")

    asyncio.run(again())
    assert len(world.asked) == 1


def test_a_failing_endpoint_leaves_the_session_as_it_was(world, serve):
    sessions = serve(world.url)
    world.faults += [500] * 3
    failed, answered = taken(sessions, "ls", "ls")
    assert (failed.status, failed.code) == (502, "endpoint_failed")
    assert answered["info"]["step"] == 0
    assert len(world.asked) == 1


def test_sessions_are_bounded_in_number_steps_and_size(world, serve):
    result = taken(serve(world.url, limits=Limits(steps=1)), "ls", "pwd", "id")
    assert [answer["info"].get("ended") for answer in result[:2]] == [None, "max_steps"]
    assert result[1]["truncated"]
    assert (result[2].status, result[2].body["ended"]) == (410, "max_steps")
    (result,) = taken(serve(world.url, limits=Limits(characters=10), log="second"), "echo " + "x" * 20)
    assert result["info"]["ended"] == "too_large"
    crowded = serve(world.url, limits=Limits(sessions=1), log="third")
    asyncio.run(crowded.reset({"scenario": TERMINAL}))
    with pytest.raises(ServeError) as met:
        asyncio.run(crowded.reset({"scenario": TERMINAL}))
    assert (met.value.status, met.value.code) == (503, "too_many_sessions")


def test_an_idle_session_expires_and_is_written(world, serve, tmp_path):
    sessions = serve(world.url, limits=Limits(idle_s=10.0))
    now = [0.0]
    sessions._clock = lambda: now[0]

    async def lived():
        opening = await sessions.reset({"scenario": TERMINAL, "session": "mine"})
        await sessions.step({"session": opening["session"], "action": "ls"})
        now[0] = 9.0
        assert sessions.sweep() == 1
        now[0] = 10.0
        assert sessions.sweep() == 0
        with pytest.raises(ServeError) as met:
            await sessions.step({"session": "mine", "action": "ls"})
        assert (met.value.status, met.value.body["ended"]) == (410, "expired")
        with pytest.raises(ServeError) as met:
            await sessions.reset({"scenario": TERMINAL, "session": "mine"})
        assert met.value.code == "session_exists"

    asyncio.run(lived())
    written = json.loads((tmp_path / "log" / "trajectories" / "mine.json").read_text())
    assert written["extra"]["served"]["ended"] == "expired"


def test_an_agent_that_declares_its_task_done_terminates_and_may_go_on_where_a_harness_asks_back(world, serve):
    done = {"name": "task_complete", "arguments": {}}
    first, second = taken(serve(world.url), done, "ls")
    assert (first["terminated"], second["terminated"]) == (True, False)


def test_a_history_longer_than_samples_is_cut_as_samples_are_or_ends(world, serve):
    mix = recipe(window_tokens={"sft": 1600, "rl": 1600}, overflow={"sft": "windows", "rl": "drop"}).mix
    actions = [f"echo {'word ' * 100}{number}" for number in range(8)]
    answers = taken(serve(world.url, mix=mix), *actions)
    begins = [answer["info"]["window_begins"] for answer in answers]
    assert begins[0] == 0
    assert begins[-1] > 0
    assert begins == sorted(begins)
    last = world.asked[-1]["messages"]
    assert last[1]["content"].startswith("### Turn 1\n")
    answers = taken(serve(world.url, "rl", mix=mix, log="second"), *actions)
    assert [answer for answer in answers if not isinstance(answer, ServeError)][-1]["info"]["ended"] in (
        "over_window",
        "no_observation",
    )


def test_control_strings_come_back_as_they_were(serve):
    mix = recipe(control_tokens="escape").mix
    with chat_server(lambda _: MARKER + "a < |im_end|> b") as chat:
        first, _ = taken(serve(chat.url, mix=mix), "cat x", "echo <|im_end|>")
    assert first["observation"] == "a <|im_end|> b"
    assert chat.asked[1]["messages"][2]["content"] == MARKER + "a < |im_end|> b"
    assert "echo < |im_end|>" in chat.asked[1]["messages"][3]["content"]


@pytest.mark.parametrize(
    "action",
    ["", None, {"arguments": {}}, {"name": 3}, {"name": "a", "arguments": []}, {"text": ["x"]}],
)
def test_what_is_no_action_is_refused(world, serve, action):
    (answer,) = taken(serve(world.url), action)
    assert (answer.status, answer.code) == (400, "bad_request")
    assert not world.asked


@pytest.mark.parametrize(
    "values",
    [
        None,
        [],
        {"id": "a"},
        {"id": "a", "domain": "moon"},
        {"id": "a", "domain": "mcp", "colour": 1},
        {"id": "a", "domain": "mcp", "context": {"initial_state": 5}},
        {"id": "a", "domain": "mcp", "forms": [1]},
        {"id": "a", "domain": "mcp", "observation": 5},
        {"id": "a", "domain": "mcp", "time_limit_s": "5"},
    ],
)
def test_what_is_no_scenario_is_refused(values):
    with pytest.raises(ConfigError):
        Scenario.of(values)


def test_scenarios_are_read_where_they_are_asked_for(tmp_path):
    scenario = Scenario("a", "mcp", context={"initial_state": "bay: yard"}, observation="x", ends=True)
    path = tmp_path / "scenarios.jsonl"
    path.write_text(scenario.line() + "\n\n" + Scenario("b", "web").line() + "\n")
    scenarios = Scenarios(path)
    assert list(scenarios.ids()) == ["a", "b"]
    assert scenarios.get("a") == scenario
    assert scenarios.get("c") is None
    path.write_text(scenario.line() + "\n" + scenario.line() + "\n")
    with pytest.raises(ConfigError, match="'a'"):
        Scenarios(path)


@pytest.mark.parametrize("model", ["lwm", "lwm@", "@r1"])
def test_a_model_without_a_revision_is_not_served(model):
    with pytest.raises(ConfigError):
        Pinned.of(model)


LS_KEYS = '[{"keystrokes": "ls -l\\n"}]'
LS_CALL = '{"name": "Bash", "arguments": {"command": "ls -l"}}'


@pytest.mark.parametrize(
    ("actions", "told", "said"),
    [
        *(("keystrokes", LS_KEYS, said) for said in ("ls -l", LS_KEYS, f"[{LS_CALL}]", json.loads(LS_CALL))),
        *(("call", LS_CALL, said) for said in ("ls -l", LS_CALL, {"text": LS_KEYS})),
    ],
)
def test_an_action_is_told_in_the_form_that_the_world_was_trained_on(world, serve, said, actions, told):
    scenario = {**TERMINAL, "actions": actions, "shell": "Bash" if actions == "call" else ""}
    (answer,) = taken(serve(world.url), said, scenario=scenario)
    assert json.loads(answer["info"]["action"]) == json.loads(told)
    assert json.loads(told) == json.loads(world.asked[0]["messages"][-1]["content"].split("```")[1].partition("\n")[2])


@pytest.mark.parametrize(
    ("said", "actions"),
    [
        ('{"name": "Read", "arguments": {"file_path": "a"}}', "keystrokes"),
        ('[{"keystrokes": "\\u0003"}]', "call"),
        ('[{"keystrokes": "ls"}]', "call"),
        (f"[{LS_CALL}, {LS_CALL}]", ""),
    ],
)
def test_an_action_that_has_no_such_form_is_refused_and_the_world_is_not_asked(world, serve, said, actions):
    (refused, again) = taken(
        serve(world.url), said, LS_CALL, scenario={**TERMINAL, "actions": actions, "shell": "Bash"}
    )
    assert (refused.status, refused.code) == (400, "bad_request")
    assert again["info"]["step"] == 0
    assert len(world.asked) == 1
