"""A served trajectory is shown to its model as its training sample was: the same bytes, at every step."""

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.pipelines.render.assembled import samples_of
from tests.synthesis.chat_server import chat_server
from tests.worlds.serve.conftest import RAW, recipe
from tests.worlds.serve.logged_world import FromLogs, logged, rows_of, steps_of, whole
from trajmill.app.cli.serving_commands import begun_with
from trajmill.pipelines.render.fixed_texts import ASKING
from trajmill.pipelines.render.pieces import View
from trajmill.pipelines.render.turns import turns
from trajmill.pipelines.run import Run
from trajmill.pipelines.storage.folders import Folder
from trajmill.quality.tokens import TokenCounter
from trajmill.schemas import DOMAINS
from trajmill.synthesis.tagged_prompts import tag_system_prompt
from trajmill.worlds.serve.history import History, Manner, is_capped
from trajmill.worlds.serve.requests import move_of
from trajmill.worlds.serve.scenarios import scenarios_in


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output folder of a run over all domains, with pools sft and rl; not to be changed."""
    out = tmp_path_factory.mktemp("drawn") / "out"
    Run(recipe(), [str(ROOT / "samples" / name) for name in RAW], str(out)).run()
    return out


async def lived(sessions, number, log):
    """The answers to all steps of a trajectory, as far as its sample goes."""
    opening = await sessions.reset({"scenario": json.loads(log.scenario.line()), "seed": number})
    assert opening["observation"] == (log.scenario.observation or "")
    steps = log.steps[: (len(log.messages) - 1) // 2]
    answers = [await sessions.step({"session": opening["session"], **step}) for step in steps]
    await sessions.close({"session": opening["session"]})
    return answers


async def all_lived(sessions, known):
    return await asyncio.gather(*(lived(sessions, *pair) for pair in enumerate(known)))


@pytest.mark.parametrize("pool", ["sft", "rl"])
def test_what_is_sent_at_each_step_is_the_training_sample_up_to_that_turn(drawn, serve, pool):
    mix = recipe().mix
    known = logged(drawn, mix, pool)
    assert {log.scenario.domain for log in known} == set(DOMAINS)
    with chat_server(FromLogs([log.messages for log in known], pool == "rl")) as chat:
        sessions = serve(chat.url, pool, mix)
        results = asyncio.run(all_lived(sessions, known))
    # an endpoint that knows only the messages of samples has answered each step
    assert all(answer["info"]["answer"] in ("observed", "empty") for answers in results for answer in answers)
    assert chat.met == len(chat.asked) == sum(map(len, results))
    shown = Counter(log.scenario.domain for log, answers in zip(known, results, strict=True) for _ in answers)
    assert min(shown.values()) > 0
    assert sum(shown.values()) > 20


def sent(history, rows, view):
    """The messages of each step of a trajectory, None where there is no such sample."""
    histories = []
    answers = [turn.observation for turn in turns(rows, view)]
    for answer, step in zip(answers, steps_of(rows, view), strict=True):
        move = move_of(step, history.scenario)
        request = history.asked(move)
        histories.append(None if request is None else request.messages)
        history.answered(move, answer)
    return histories


@pytest.mark.parametrize(
    ("domain", "most", "overflow"),
    [("terminal", 2000, "cut_newest"), ("swe", 1200, "windows"), ("android", 2000, "windows")],
)
def test_a_history_is_cut_into_the_windows_of_training_samples(drawn, domain, most, overflow):
    mix = recipe(window_tokens={"sft": most}, overflow={"sft": overflow}).mix
    counter, view, out = TokenCounter(), View.of(mix), Folder(str(drawn))
    by_id = {scenario.id: scenario for scenario in scenarios_in(out, mix, counter)}
    cut = later = 0
    for rows in rows_of(drawn, mix, ("sft", "rl"), domain):
        samples = samples_of("sft", rows, mix, counter)
        histories = sent(History(by_id[rows[0]["trajectory_id"]], Manner(mix, "sft", False, counter)), rows, view)
        cut += len(samples) > 1 or None in histories
        for number, sample in enumerate(samples):
            messages = whole(sample)
            # the answer of its first turn may be what a later window begins for, and is not known when that is asked
            for length in range(2 if number == 0 else 4, len(messages), 2):
                assert messages[:length] in histories
                later += number > 0
    assert cut
    assert (later > 0) == (overflow == "windows")


VARIANTS: dict[str, dict[str, Any]] = {
    "harness": {"harness": "keep"},
    "grammars": {"edits": "diff", "actions": "native"},
    "envelopes": {"mcp": "envelope"},
    "caps": {"observation_chars": 256, "control_tokens": "escape"},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_other_recipes_are_followed_as_well(drawn, name):
    mix, counter, out = recipe(**VARIANTS[name]).mix, TokenCounter(), Folder(str(drawn))
    view = View.of(mix)
    by_id = {scenario.id: scenario for scenario in scenarios_in(out, mix, counter)}
    steps = 0
    for domain in ("mcp", "swe"):
        for rows in rows_of(drawn, mix, ("sft", "rl"), domain):
            (sample,) = samples_of("sft", rows, mix, counter)
            messages = whole(sample)
            histories = sent(History(by_id[rows[0]["trajectory_id"]], Manner(mix, "sft", False, counter)), rows, view)
            for length in range(2, len(messages), 2):
                assert histories[length // 2 - 1] == messages[:length]
                steps += 1
    assert steps > 10


def test_a_model_that_learnt_reasoning_is_asked_for_tags(drawn):
    mix, counter = recipe().mix, TokenCounter()
    (log, *_) = logged(drawn, mix, "sft")
    history = History(log.scenario, Manner(mix, "sft", True, counter))
    request = history.asked(move_of(log.steps[0], log.scenario))
    assert request is not None
    system, user = log.messages[:2]
    wanted = tag_system_prompt(system["content"], history.prompt.template)
    assert wanted != system["content"]
    assert [message["content"] for message in request.messages] == [wanted, user["content"] + ASKING]


@pytest.mark.parametrize(
    "text", ["", "x" * 300, "x" * 128 + "\n[... 12 characters are left out here ...]\n" + "y" * 127]
)
def test_what_is_not_capped_is_told_from_what_is(text):
    assert not is_capped(text, 256)
    view = View(observation_chars=256)
    assert is_capped(view.capped("z" * 5000), 256)
    assert is_capped(view.capped("z" * 5_000_000), 256)


def test_scenarios_of_a_run_are_written_beside_the_log(drawn, tmp_path):
    scenarios = begun_with(None, str(drawn), recipe(), tmp_path / "log")
    ids = list(scenarios.ids())
    assert len(ids) > 20
    assert [scenario.id for key in ids if (scenario := scenarios.get(key)) is not None] == ids
    assert (tmp_path / "log" / "scenarios.jsonl").is_file()


def test_scenarios_of_a_run_tell_the_form_of_their_actions(drawn):
    forms = {
        scenario.domain: (scenario.actions, scenario.shell)
        for scenario in scenarios_in(Folder(str(drawn)), recipe().mix, TokenCounter())
    }
    assert [forms[name] for name in ("mcp", "terminal", "swe")] == [("call", ""), ("keystrokes", ""), ("call", "bash")]
