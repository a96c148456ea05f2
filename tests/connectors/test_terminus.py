"""Episodes of Terminus: what a prompt shows and what the harness says in it, and which responses are read."""

import json

import pytest

from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.conversation.terminus_texts import UnclearResponseError, prompt_of, recovered, response_of
from trajmill.connectors.recordings.terminus import Terminus
from trajmill.connectors.recordings.terminus_rows import TerminusRows
from trajmill.schemas import Reject, Trajectory, json_text, keystrokes_text

CONNECTOR = Terminus()
FIRST = (
    "Answer with keystrokes.\n\nTask Description:\nDo it.\n\nCurrent terminal state:\nCurrent Terminal Screen:\n$\n\n"
)


def response(*commands: dict[str, object], complete: bool = False) -> str:
    return json.dumps({"analysis": "a", "plan": "p", "commands": commands, "task_complete": complete})


def parsed(*episodes: tuple[str, str | None]) -> tuple[list[Trajectory], list[Reject]]:
    members = {}
    for number, (prompt, answer) in enumerate(episodes):
        members[f"episode-{number}/prompt.txt"] = prompt.encode()
        if answer is not None:
            members[f"episode-{number}/response.txt"] = answer.encode()
    found = list(CONNECTOR.parse(MemoryBlob("log", members)))
    return [one for one in found if isinstance(one, Trajectory)], [one for one in found if isinstance(one, Reject)]


def test_episodes_are_read_in_the_order_of_their_numbers():
    episodes = [(FIRST, response({"keystrokes": "0\n", "duration": 1}))]
    episodes += [
        (f"New Terminal Output:\n{n}", response({"keystrokes": f"{n}\n", "duration": 1})) for n in range(1, 12)
    ]
    (one,), _ = parsed(*episodes)
    assert [json.loads(step.action.text)[0]["keystrokes"] for step in one.steps] == [f"{n}\n" for n in range(12)]
    seen = [step.next_observation.content if step.next_observation else None for step in one.steps]
    assert seen == [*(str(n) for n in range(1, 12)), None]


def test_the_folder_of_a_trial_is_one_log_with_its_recordings():
    paths = ["t/agent-logs/episode-0/prompt.txt", "t/agent-logs/episode-0/response.txt", "t/panes/post-agent.txt"]
    paths += ["t/results.json", "t/sessions/agent.cast", "u/sessions/agent.cast"]
    (log,) = CONNECTOR.join(paths)
    assert (log.uri, log.anchor) == ("t", "agent-logs/episode-0/prompt.txt")
    assert set(log.members.values()) == set(paths[:5])


def test_episodes_without_a_trial_are_a_log_of_their_own():
    paths = ["t/agent/episode-0/prompt.txt", "t/agent/episode-0/response.txt", "t/agent/trajectory.json"]
    (log,) = CONNECTOR.join(paths)
    assert (log.uri, sorted(log.members)) == ("t/agent", ["episode-0/prompt.txt", "episode-0/response.txt"])


def test_waiting_is_an_action_and_nothing_at_all_is_done():
    wait = response_of(response({"keystrokes": "", "duration": 5.0}))
    assert (wait.action.name, wait.action.text) == ("wait", '[{"keystrokes": "", "duration": 5.0}]')
    done = response_of(response(complete=True))
    assert (done.action.name, done.action.text) == ("task_complete", "[]")
    idle = response_of(response())
    assert (idle.action.name, idle.action.text) == ("wait", '[{"keystrokes": ""}]')


def test_a_duration_that_is_not_stated_is_not_made_up():
    assert response_of(response({"keystrokes": "C-c"})).action.text == '[{"keystrokes": "C-c"}]'
    assert response_of(response({"keystrokes": "x", "duration": "soon"})).action.text == '[{"keystrokes": "x"}]'


@pytest.mark.parametrize("seconds", [0.1, 1.0, 0.0625, 1e-7, 1e8, 2, None])
@pytest.mark.parametrize("keys", ["", "ls\n", 'echo "ä" \\ \x1b\x7f', "\u2028" * 90, "x" * 90])
def test_commands_are_written_as_all_keystrokes_and_arguments_are(keys: str, seconds: float | None):
    known = {} if seconds is None else {"duration": seconds}
    for command in ({"keystrokes": keys, **known}, {**known, "keystrokes": keys}):
        action = response_of(response(command, complete=True)).action
        assert action.text == keystrokes_text([(keys, None if seconds is None else float(seconds))])
        assert action.arguments == json_text({"commands": [command], "task_complete": True})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Here you are:\n" + response(), "wrapped_response"),
        ("```json\n" + response() + "\n```", "wrapped_response"),
        (response({"keystrokes": "ls\n"})[:-10], "truncated_response"),
        ("Here: " + response({"keystrokes": "ls\n"})[:-10], "truncated_response"),
        ("I am done.", "bad_response"),
        ("[1, 2]", "bad_response"),
        ('{"analysis": "x"}', "bad_response"),
        ('{"commands": ["ls"]}', "bad_response"),
        ("", "bad_response"),
        ("<response><commands><keystrokes>ls</commands></response>", "bad_response"),
    ],
)
def test_a_response_that_is_not_the_form_is_refused_with_its_reason(text: str, reason: str):
    with pytest.raises(UnclearResponseError) as caught:
        response_of(text)
    assert caught.value.reason == reason


def test_keystrokes_of_xml_are_kept_as_they_stand():
    keys = '<keystrokes duration="0.5">a &lt; b\n</keystrokes>'
    action = response_of(f"<response>\n<analysis>x</analysis>\n<commands>{keys}</commands></response>").action
    assert action.text == '[{"keystrokes": "a &lt; b\\n", "duration": 0.5}]'
    assert action.reasoning == "x"


def test_the_first_prompt_tells_the_task_and_the_screen():
    prompt = prompt_of(FIRST, False)
    assert (prompt.task, prompt.system) == ("Do it.", "Answer with keystrokes.")
    assert prompt.seen is not None
    assert (prompt.seen.content, prompt.seen.form) == ("$", "screen")


def test_what_the_harness_asks_is_no_part_of_the_screen():
    prompt = prompt_of(
        "Current terminal state:\nNew Terminal Output:\nok\n\nAre you sure you want to mark the task as complete? x",
        False,
    )
    assert prompt.seen is not None
    assert prompt.seen.content == "ok"
    assert prompt.note.startswith("Current terminal state:\nNew Terminal Output:\n\nAre you sure")


def test_what_another_agent_answered_is_never_an_observation():
    prompt = prompt_of("Here are the answers the other agent provided.\n\nAll is well.", False)
    assert prompt.seen is None
    assert "All is well" in prompt.note


def test_a_response_that_the_harness_refused_keeps_its_words_as_observation():
    refusal = "Previous response had parsing errors:\nERROR: x\n\nPlease fix these issues."
    (one,), rejects = parsed((FIRST, response({"keystrokes": "a\n"})), (refusal, response({"keystrokes": "b\n"})))
    assert rejects == []
    seen = one.steps[0].next_observation
    assert seen is not None
    assert (seen.origin, seen.content) == ("harness", refusal)


def test_after_an_unreadable_response_another_trajectory_continues():
    found, rejects = parsed(
        (FIRST, response({"keystrokes": "a\n"})),
        ("New Terminal Output:\n$ a", "Look: " + response({"keystrokes": "b\n"})),
        ("New Terminal Output:\n$ b", response({"keystrokes": "c\n"})),
    )
    assert [one.reason for one in rejects] == ["wrapped_response"]
    assert [len(one.steps) for one in found] == [1, 1]
    assert (found[1].relation, found[1].parent) == ("continuation", found[0].native_id)
    before = found[1].steps[0].observation
    assert before is not None
    assert before.content == "$ b"


WARNED = "Previous response had warnings:\nWARNINGS: - {}\n\nNew Terminal Output:\n$ b"


@pytest.mark.parametrize(
    ("answer", "warning", "message"),
    [
        ("Look:\n" + response({"keystrokes": "b\n"}), "Extra text detected before JSON object", "Look:"),
        (
            "```json\n" + response({"keystrokes": "b\n"}) + "\n```",
            "Extra text detected before JSON object",
            "```json\n```",
        ),
        (response({"keystrokes": "b\n"}) + " Or {this}.", "Extra text detected after JSON object", "Or {this}."),
        (response({"keystrokes": "b\n"})[:-1], "AUTO-CORRECTED: Fixed incomplete JSON", None),
        (
            "So <response><commands><keystrokes>b\n</keystrokes></commands></response>",
            "Extra text detected before <response> tag",
            "So",
        ),
    ],
)
def test_a_response_within_prose_is_read_where_the_harness_says_that_it_read_it(answer, warning, message):
    (one,), rejects = parsed((FIRST, answer), (WARNED.format(warning), response({"keystrokes": "c\n"})))
    assert rejects == []
    step = one.steps[0]
    assert json.loads(step.action.text) == [{"keystrokes": "b\n"}]
    assert step.action.message == message
    assert step.next_observation is not None
    assert step.next_observation.content == "$ b"
    assert warning in (one.steps[1].interleaved or "")


def test_a_completion_within_prose_is_read_where_the_harness_asks_for_its_confirmation():
    asked = "Current terminal state:\nNew Terminal Output:\n$\n\nAre you sure you want to mark the task as complete? y"
    (one,), rejects = parsed((FIRST, "Done! " + response(complete=True)), (asked, response(complete=True)))
    assert rejects == []
    assert [step.action.name for step in one.steps] == ["task_complete", "task_complete"]
    (_, unread) = parsed((FIRST, "Look: " + response({"keystrokes": "b\n"})), (asked, response(complete=True)))
    assert [reject.reason for reject in unread] == ["wrapped_response"]


def test_the_last_response_within_prose_is_not_guessed():
    _, rejects = parsed((FIRST, response({"keystrokes": "b\n"})), ("New Terminal Output:\n$", "So: " + response()))
    assert [reject.reason for reject in rejects] == ["wrapped_response"]


@pytest.mark.parametrize("answer", ["{" * 20000, '"{' * 20000, "\\" * 20001, "<response>" * 20000, "}" * 20000 + "{"])
def test_a_hostile_response_is_told_to_be_none_in_linear_time(answer):
    assert recovered(answer) is None


def test_only_a_confirmed_completion_ends_the_episode():
    done = response(complete=True)
    asked = "Current terminal state:\nNew Terminal Output:\n$\n\nAre you sure you want to mark the task as complete? y"
    (one,), _ = parsed((FIRST, done), (asked, done))
    assert [step.terminated for step in one.steps] == [None, True]
    (cut,), _ = parsed((FIRST, done))
    assert cut.steps[0].terminated is None


def test_a_prompt_is_told_by_its_name_and_its_words():
    assert CONNECTOR.sniff(FIRST.encode(), "x/episode-0/prompt.txt") is not None
    assert CONNECTOR.sniff(FIRST.encode(), "x/prompt.txt") is None
    assert CONNECTOR.sniff(b"Hello", "x/episode-0/prompt.txt") is None


def test_a_response_that_cannot_be_read_makes_the_rest_of_a_row_a_continuation_of_its_own_row() -> None:
    def row(*responses: str) -> str:
        talk = [{"role": "user", "content": "Task Description:\nGo.\n\nCurrent terminal state:\n$ "}]
        for response in responses:
            talk += [
                {"role": "assistant", "content": response},
                {"role": "user", "content": "New Terminal Output:\n$ "},
            ]
        return json.dumps({"conversations": talk}) + "\n"

    good = json.dumps({"analysis": "", "plan": "", "commands": [{"keystrokes": "a\n", "duration": 1}]})
    data = (row(good) + row(good, "?", good)).encode()
    found = list(TerminusRows().parse(MemoryBlob("rows.jsonl", data)))
    made = [one for one in found if isinstance(one, Trajectory)]
    name = f"row-{len(row(good))}"
    assert [(one.native_id, one.parent) for one in made] == [("undated", None), (name, None), (f"{name}/1", name)]
    assert [one.reason for one in found if isinstance(one, Reject)] == ["bad_response"]
