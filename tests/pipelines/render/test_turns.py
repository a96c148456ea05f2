"""Rendered turns: texts, fences, edits and native actions."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import ROOT
from tests.pipelines.render.assembled import document, messages, prompt_of, samples_of, targets
from tests.tables import table
from trajmill.pipelines.recipe.recipe import Mix
from trajmill.pipelines.render.edits import edit_of
from trajmill.pipelines.render.fences import block, indent_json, is_structure, put_in_fence
from trajmill.pipelines.render.native_actions import native_action
from trajmill.pipelines.render.pieces import View
from trajmill.pipelines.render.turns import trajectories, turns
from trajmill.schemas import json_text

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
    assert [message["role"] for message in shown] == ["system", "user", "assistant", "user", "assistant"]
    assert shown[1]["content"] == "### Turn 1\n**Action:**\n```text\nls\n```"
    assert shown[2]["content"] == "**Environment Observation:**\na"
    assert [message["loss"] for message in shown] == [None, None, True, None, True]


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
    shown = turns(EPISODE, View(harness="keep"))
    assert shown[1].assistant.endswith("Format error")
    assert targets(shown) == [0, 2, 3, 4]


def test_a_kept_message_stands_between_the_state_and_the_action():
    shown = turns(EPISODE, View(harness="keep"))
    user = shown[0].user
    assert user.index("**Current State:**") < user.index("**Harness Message:**\nYou have 3 steps left.\n")
    assert user.index("You have 3 steps left.") < user.index("**Action:**")
    assert not any("Let me see." in turn.user for turn in shown)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
)


@given(st.lists(VALUES, max_size=4) | st.dictionaries(st.text(max_size=5), VALUES, max_size=4))
def test_a_value_is_set_out_as_the_slow_way_does_however_it_is_written(value):
    for text in (
        json_text(value),
        json.dumps(value),
        json.dumps(value, indent=1),
        json.dumps(value, separators=(",", ":")),
    ):
        assert block(text) == put_in_fence(indent_json(text), "json")


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 2}',
        '{"n": 12345678901234567890123, "x": 1e+16, "y": 1e-07, "z": 1.50}',
        '["\\u00e9", "\x7f", "\\u0001", "e+1", {}, []]',
        "[" * 600 + "]" * 600,
        "[" * 601 + "]" * 601,
        '{"a": ',
        "[1] and more",
    ],
)
def test_what_the_quick_way_would_change_stays_as_it_is_written(text):
    assert block(text) == (
        put_in_fence(indent_json(text), "json") if is_structure(text) else put_in_fence(text, "text")
    )


OLD, NEW = "def lit():\n    return False\n", "def lit():\n    return True\n"


def call(tool, **arguments):
    return json.dumps({"name": tool, "arguments": arguments})


@pytest.mark.parametrize(
    ("text", "rest", "diff"),
    table(__file__, "edits"),
)
def test_an_edit_is_the_call_without_its_texts_and_a_diff_of_them(text, rest, diff):
    edit = edit_of(text)
    assert edit is not None
    assert json.loads(edit.call)["arguments"] == rest
    assert json.loads(edit.call)["name"] == json.loads(text)["name"]
    assert edit.diff == diff


@pytest.mark.parametrize(
    "text",
    [
        "ls",
        "[]",
        '{"name": "bash"}',
        call("bash", command="sed -i s/a/b/ x"),
        call("Write", file_path="/t/x.py", content="all of it"),
        call("rename", old_str="a", new_str="b"),
        call("Edit", file_path="/t/x.py", old_string=5, new_string="b"),
        call("Edit", file_path="/t/x.py", old_string="a"),
        call("MultiEdit", file_path="/t/x.py", edits=[{"old_string": "a", "new_string": "b"}, "rest"]),
        call("MultiEdit", file_path="/t/x.py", edits=[]),
        call("MultiEdit", file_path="x", edits=[{"old_string": "a", "new_string": "b", "replace_all": True}]),
        call("str_replace_editor", command="view", path="/t/x.py", old_str="a", new_str="b"),
        call("str_replace_editor", command="insert", path="/t/x.py", insert_line=True, new_str="b"),
        call("submit_patch", patch=None),
    ],
)
def test_what_does_not_tell_old_and_new_is_no_edit(text):
    assert edit_of(text) is None


TEXTS = st.lists(st.sampled_from(["a", "b", "", " c"]), max_size=6).map("\n".join)


@given(old=TEXTS.filter(bool), new=TEXTS)
def test_nothing_of_the_two_texts_is_lost(old, new):
    edit = edit_of(call("Edit", file_path="x", old_string=old, new_string=new))
    assert edit is not None
    lines = edit.diff.split("\n")[3:-1]
    before, becomes = ("\n".join(line[1:] for line in lines if line[0] in marks) for marks in (" -", " +"))
    if old.endswith("\n") == new.endswith("\n"):
        assert (before, becomes) == (old.removesuffix("\n"), new.removesuffix("\n"))
    elif new:
        assert (before, becomes) == (old, new)


def test_texts_of_many_lines_are_compared_in_bounded_time():
    old, new = ("\n".join(f"{mark}{n}" for n in range(30_000)) for mark in "ab")
    edit = edit_of(call("Edit", file_path="x", old_string=old, new_string=new))
    assert edit is not None
    assert edit.diff.count("\n-a") == edit.diff.count("\n+b") == 30_000


@pytest.mark.parametrize("pool", ["sft", "cpt", "rl", "eval"])
def test_samples_of_every_pool_follow_the_recipe(pool):
    text = call("Edit", file_path="x.py", old_string="a", new_string="b")
    rows = [
        {
            **row(0, text, "done"),
            **dict.fromkeys(("source", "group"), "s"),
            "num_segments": 1,
            "number": 1,
            "row_id": "r",
        }
    ]
    for edits in ("call", "diff"):
        (sample,) = samples_of(pool, rows, Mix(edits=edits))
        assert ("@@ ... @@" in json.dumps(sample)) == (edits == "diff")


def named_call(name, **arguments):
    return json.dumps({"name": name, "arguments": arguments})


@pytest.mark.parametrize(
    ("domain", "text", "said"),
    table(__file__, "native_actions"),
)
def test_an_action_is_said_in_the_grammar_of_its_domain(domain, text, said):
    action = native_action(domain, text)
    assert action is not None
    assert (
        (json.loads(action.text), action.language) == (json.loads(said), "json")
        if domain == "android"
        else (action.text == said and action.language == "python")
    )


@pytest.mark.parametrize(
    ("domain", "text"),
    [
        ("terminal", named_call("click", element="#1")),
        ("web", "GET https://a.example/"),
        ("web", named_call("scroll", x=0, y=400)),
        ("web", named_call("fill", element="#1", text="x", enter="yes")),
        ("web", named_call("click", element={"id": 1})),
        ("web", named_call("wait", target="#1", until="visible")),
        ("os", named_call("click", element="#6")),
        (
            "os",
            named_call("sequence", calls=[{"name": "click", "arguments": {"x": 1, "y": 2}}, {"name": "unheard of"}]),
        ),
        ("os", named_call("sequence", calls=[])),
        ("android", named_call("click", element="submit")),
        ("android", named_call("swipe", **{"from": [1, 2], "to": [3, 4]})),
        ("android", named_call("press", key="volume_up")),
    ],
)
def test_what_a_grammar_has_no_words_for_is_no_native_action(domain, text):
    assert native_action(domain, text) is None


def test_a_turn_shows_it_where_the_recipe_asks_for_it_and_else_the_call():
    text = named_call("click", element="a51")
    native = View(actions="native")
    assert turns([row(0, text, "page", domain="web")], native)[0].user.endswith('```python\nclick("a51")\n```')
    assert '"name": "click"' in turns([row(0, text, "page", domain="web")])[0].user
    shown = turns([row(0, named_call("wait", until="visible"), "page", domain="web")], native)[0].user
    assert '```json\n{\n  "name": "wait"' in shown
    tapped = turns([row(0, named_call("click", element="#7"), "page", domain="android")], native)[0].user
    assert tapped.endswith('```json\n{\n  "action_type": "click",\n  "index": 7\n}\n```')


def test_code_of_an_os_action_stands_in_a_fence_of_python():
    call = json.dumps({"name": "code", "arguments": {"code": "import os\nos.listdir()"}})
    shown = turns([row(0, call, "", domain="os")], View(actions="native"))[0].user
    assert shown.endswith("```python\nimport os\nos.listdir()\n```")
    plain = turns([row(0, "import os", "", domain="os")])[0].user
    assert plain.endswith("```python\nimport os\n```")
