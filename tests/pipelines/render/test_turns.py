import json

import pytest

from tests.conftest import ROOT
from tests.pipelines.render.assembled import document, messages, prompt_of, targets
from trajmill.pipelines.render.pieces import View
from trajmill.pipelines.render.turns import trajectories, turns

GOLDEN = ROOT / "tests" / "golden"


def row(turn, action, after, before=None, use="target", step=None, **more):
    return {
        "trajectory_id": "t",
        "ordinal": 1,
        "segment": 0,
        "step": turn if step is None else step,
        "turn": turn,
        "domain": "terminal",
        "observation": None if before is None else {"content": before, "origin": "environment"},
        "action": {"name": None, "arguments": None, "text": action},
        "next_observation": {"content": after, "origin": "environment", "form": "stream", "dialect": None},
        "interleaved": None,
        "context": dict.fromkeys(("action_space", "initial_state", "demonstrations", "simulation_instruction")),
        "exit_code": None,
        "time_limit_s": None,
        "timed_out": None,
        "scrubbed": 0,
        "task_hash": None,
        "instance_hash": None,
        "started_at": None,
        "familiarity": None,
        "use": use,
        **more,
    }


def test_user_turn_is_the_action_and_assistant_turn_the_observation():
    shown = messages("S", turns([row(0, "ls", "a"), row(1, "pwd", "/", before="a")]))
    assert [one["role"] for one in shown] == ["system", "user", "assistant", "user", "assistant"]
    assert shown[1]["content"] == "### Turn 1\n**Action:**\n```text\nls\n```"
    assert shown[2]["content"] == "**Environment Observation:**\na"
    assert [one["loss"] for one in shown] == [None, None, True, None, True]


def test_how_a_command_ended_stands_below_what_it_put_out_and_its_time_limit_before_it():
    rows = [
        row(0, "make", "x", exit_code=2, time_limit_s=60.0),
        row(1, "true", "", exit_code=0, time_limit_s=60.0),
        row(2, "cat", "half", time_limit_s=60.0, timed_out=True),
        row(3, "ls", "a"),
    ]
    shown = turns(rows)
    assert [turn.observation for turn in shown] == ["x\n[exit code 2]", "[exit code 0]", "half\n[timed out]", "a"]
    assert shown[2].user == "### Turn 3\n**Time Limit:**\n60 s\n**Action:**\n```text\ncat\n```"
    assert "Time Limit" not in shown[3].user


def test_answers_of_tools_are_shown_as_they_came_without_a_line_on_their_ending():
    shown = turns([row(0, "run", '{"return_code": 0}', exit_code=0, domain="mcp")])
    assert shown[0].observation == '{"return_code": 0}'


def test_the_state_is_shown_where_it_is_not_what_the_turn_before_ended_with():
    shown = turns([row(0, "ls", "a", before="$"), row(1, "pwd", "/", before="a"), row(2, "x", "y", before="z")])
    assert shown[0].user.startswith("### Turn 1\n**Current State:**\n$\n\n**Action:**\n")
    assert "Current State" not in shown[1].user
    assert "**Current State:**\nz\n" in shown[2].user


@pytest.mark.parametrize("origin", ["user", "harness", "agent"])
def test_the_state_is_never_what_others_than_the_environment_said(origin):
    spoken = row(0, "ls", "a", observation={"content": "Please list the files.", "origin": origin})
    assert "Please list" not in turns([spoken])[0].user


def test_an_action_of_structure_is_set_out_over_lines_and_keeps_its_digits():
    text = '{"name":"pay","arguments":{"amount":123456789012345678901,"rate":1.50,"tags":[],"to":"a, {b}: \\"c\\""}}'
    shown = turns([row(0, text, "ok")])[0].user
    assert shown.endswith(
        '```json\n{\n  "name": "pay",\n  "arguments": {\n    "amount": 123456789012345678901,\n    "rate": 1.50,\n'
        '    "tags": [],\n    "to": "a, {b}: \\"c\\""\n  }\n}\n```'
    )


def test_a_long_observation_is_capped_where_it_is_answered_and_where_it_is_the_state():
    long = "a" * 600 + "b" * 600
    shown = turns([row(0, "cat x", long, before=long)], View(observation_chars=256))[0]
    assert shown.observation == f"{'a' * 128}\n[... 944 characters are left out here ...]\n{'b' * 128}"
    assert long not in shown.user
    assert shown.observation in shown.user


def test_an_answer_without_text_is_how_it_ended_whatever_the_bound():
    silent = {"content": None, "origin": "environment", "form": "stream", "dialect": None}
    rows = [row(0, "sleep 9", "", timed_out=True, use="context") | {"next_observation": silent}]
    assert turns(rows, View(observation_chars=256))[0].observation == "[timed out]"


def test_calls_made_at_once_are_successive_turns_and_show_the_state_once():
    shown = turns([row(0, "one", "1", "S"), row(0, "two", "2", "S", step=1), row(1, "three", "3", "2", step=2)])
    assert [turn.observation for turn in shown] == ["1", "2", "3"]
    assert [turn.user.partition("\n")[0] for turn in shown] == ["### Turn 1", "### Turn 2", "### Turn 3"]
    assert ["Current State" in turn.user for turn in shown] == [True, False, False]


def test_omitted_rows_are_not_shown_and_context_rows_bear_no_loss():
    shown = turns([row(0, "a", "1", use="omit"), row(1, "b", "2", use="context"), row(2, "c", "3")])
    assert [turn.step for turn in shown] == [1, 2]
    assert [turn.loss for turn in shown] == [False, True]
    assert targets(shown) == [1]


def test_of_calls_made_at_once_each_bears_loss_by_itself():
    assert targets(turns([row(0, "a", "1"), row(0, "b", "2", use="context", step=1)])) == [0]


def test_a_fence_is_longer_than_any_in_the_action():
    assert turns([row(0, "```sh\nls\n```", "a")])[0].user.endswith("````text\n```sh\nls\n```\n````")


def test_a_document_holds_every_turn_in_order():
    text = document("S", turns([row(0, "a", "first"), row(1, "b", "second")]))
    assert text.index("first") < text.index("### Turn 2") < text.index("second")


def test_the_system_prompt_holds_what_is_known_beforehand_and_nothing_of_the_agent():
    context = row(0, "a", "1")["context"] | {"action_space": "TOOLS", "initial_state": "BEGIN"}
    text = prompt_of([row(0, "a", "1", context=context, task={"instruction": "SECRET AIM"})], "cpt")
    assert "TOOLS" in text
    assert "BEGIN" in text
    assert "SECRET AIM" not in text


@pytest.mark.parametrize("key", ["trajectory_id", "ordinal", "segment"])
def test_rows_of_two_trajectories_or_segments_are_kept_apart(key):
    rows = [row(0, "a", "1"), row(1, "b", "2", **{key: 5 if key != "trajectory_id" else "u"})]
    assert [len(group) for group in trajectories(rows)] == [1, 1]


def said(*voices):
    return json.dumps([{"role": role, "content": text} for role, text in voices])


EPISODE = [
    row(0, "ls", "a.txt", before="$", interleaved=said(("harness", "You have 3 steps left."))),
    row(
        1, "{ls", "Format error: wanted one command.", next_observation={"content": "Format error", "origin": "harness"}
    ),
    row(
        2, "cat a.txt", "hello", before="a.txt", interleaved=said(("user", "What is in it?"), ("agent", "Let me see."))
    ),
    row(3, "pwd", "/", step=3),
    row(3, "date", "Monday", step=4, interleaved=said(("harness", "1 step left."))),
    row(4, "rm a.txt", "", use="omit", step=5, interleaved=said(("harness", "Of a turn that is not shown."))),
]


@pytest.mark.parametrize("harness", ["strip", "keep"])
def test_what_the_harness_said_is_stripped_or_kept_as_the_recipe_says(harness):
    expected = (GOLDEN / f"harness-{harness}.md").read_text("utf-8")
    assert document("A world.", turns(EPISODE, View(harness=harness))) == expected


def test_where_harness_text_is_kept_its_own_observations_are_shown_and_bear_no_loss():
    kept = turns(EPISODE, View(harness="keep"))
    assert kept[1].assistant.endswith("Format error")
    assert targets(kept) == [0, 2, 3, 4]


def test_a_kept_message_stands_between_the_state_and_the_action():
    kept = turns(EPISODE, View(harness="keep"))
    user = kept[0].user
    assert user.index("**Current State:**") < user.index("**Harness Message:**\nYou have 3 steps left.\n")
    assert user.index("You have 3 steps left.") < user.index("**Action:**")
    assert not any("Let me see." in turn.user for turn in kept)
