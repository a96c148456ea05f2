"""Claude Code session logs: turns, branches and sub-agents, the shapes of the conversation tree."""

from __future__ import annotations

from tests.connectors.claude_logs import (
    SESSION,
    Line,
    Talk,
    before,
    log,
    parsed,
    said,
    seen,
    text,
    use,
)
from trajmill.connectors.agents.claude_code import BRANCHES

# turns and branches


def test_calls_of_one_message_share_a_turn_though_a_result_came_between() -> None:
    talk = Talk()
    found, _ = parsed(
        log(
            talk.user("u", "go", None),
            talk.agent("a1", "msg_1", use("t1", "Bash"), requestId="req_1"),
            talk.result("r1", "t1", "one"),
            talk.agent("a2", "msg_1", use("t2", "Bash"), requestId="req_1"),
            talk.result("r2", "t2", "two"),
            talk.agent("a3", "msg_2", use("t3", "Bash"), requestId="req_2"),
            talk.result("r3", "t3", "three"),
        )
    )
    steps = found[0].steps
    assert [(step.turn, step.call_index, step.num_calls) for step in steps] == [(0, 0, 2), (0, 1, 2), (1, 0, 1)]
    assert [seen(step) for step in steps] == ["one", "two", "three"]
    assert [before(step) for step in steps] == [None, None, "two"]


def test_result_that_is_a_sibling_of_the_second_call_is_not_lost() -> None:
    talk = Talk()
    found, rejects = parsed(
        log(
            talk.user("u", "go", None),
            talk.call("a1", "msg_1", "t1"),
            talk.line("progress", "p1"),
            talk.call("a2", "msg_1", "t2"),
            talk.result("r1", "t1", "one", parent="a1"),
            talk.result("r2", "t2", "two", parent="a2"),
            talk.call("a3", "msg_2", "t3"),
        )
    )
    assert [seen(step) for step in found[0].steps] == ["one", "two", None]
    assert len(found) == 1
    assert not rejects


def test_next_message_behind_a_progress_line_is_a_turn_of_its_own() -> None:
    talk = Talk()
    found, _ = parsed(
        log(
            talk.user("u", "go", None),
            talk.call("a1", "msg_1", "t1"),
            talk.result("r1", "t1", "one"),
            talk.line("progress", "p1", parent="a1"),
            talk.call("a2", "msg_2", "t2"),
        )
    )
    assert [(step.turn, before(step)) for step in found[0].steps] == [(0, None), (1, "one")]


def test_message_that_was_sent_before_the_last_call_was_answered_is_of_the_same_turn() -> None:
    talk = Talk()
    found, _ = parsed(
        log(
            talk.user("u", "go", None),
            talk.call("a1", "msg_1", "t1"),
            talk.call("a2", "msg_2", "t2"),
            talk.result("r2", "t2", "two"),
            talk.result("r1", "t1", "one", parent="a1"),
            talk.call("a3", "msg_3", "t3"),
        )
    )
    assert [(step.turn, seen(step)) for step in found[0].steps] == [(0, "one"), (0, "two"), (1, None)]


def test_a_lost_result_does_not_make_two_turns_one() -> None:
    talk = Talk()
    lines: list[Line | str] = [talk.user("u", "go", None), talk.call("a1", "msg_1", "t1")]
    talk.result("r1", "t1", "one")
    lines += ["{ damaged", talk.call("a2", "msg_2", "t2"), talk.result("r2", "t2", "two")]
    found, rejects = parsed(log(*lines))
    assert [(step.turn, seen(step)) for step in found[0].steps] == [(0, None), (1, "two")]
    assert [reject.reason for reject in rejects] == ["bad_json"]


def test_equal_message_ids_of_a_proxy_do_not_merge_turns() -> None:
    talk = Talk()
    found, _ = parsed(
        log(
            talk.user("u", "go", None),
            talk.call("a1", "msg", "t1"),
            talk.result("r1", "t1", "one"),
            talk.call("a2", "msg", "t2"),
            talk.result("r2", "t2", "two"),
        )
    )
    assert [step.turn for step in found[0].steps] == [0, 1]


def test_edited_prompt_gives_a_branch_with_the_whole_path_and_its_parent_step() -> None:
    talk = Talk()
    found, rejects = parsed(
        log(
            talk.user("u1", "go", None),
            talk.call("a1", "msg_1", "t1"),
            talk.result("r1", "t1", "one"),
            talk.user("u2", "left"),
            talk.call("a2", "msg_2", "t2"),
            talk.result("r2", "t2", "two"),
            talk.user("u3", "right", parent="r1"),
            talk.call("a3", "msg_3", "t3"),
            talk.result("r3", "t3", "three"),
        )
    )
    assert [seen(step) for step in found[0].steps] == ["one", "three"]
    assert [seen(step) for step in found[1].steps] == ["one", "two"]
    assert (found[0].native_id, found[0].relation) == (SESSION, None)
    assert (found[1].native_id, found[1].relation) == (f"{SESSION}/a2", "branch")
    assert (found[1].parent, found[1].parent_step) == (SESSION, 0)
    assert not rejects


def test_branch_without_an_answered_call_is_counted_as_a_reject() -> None:
    talk = Talk()
    found, rejects = parsed(
        log(
            talk.user("u1", "go", None),
            talk.call("a1", "msg_1", "t1"),
            talk.call("a2", "msg_2", "t2", parent="u1"),
            talk.result("r2", "t2", "two"),
        )
    )
    assert [seen(step) for step in found[0].steps] == ["two"]
    assert [(one.unit, one.reason, one.transitions) for one in rejects] == [("trajectory", "branch_without_answer", 1)]


def test_last_branch_without_calls_leaves_the_one_before_it_the_main_one() -> None:
    talk = Talk()
    found, rejects = parsed(
        log(
            talk.user("u1", "go", None),
            talk.call("a1", "msg_1", "t1"),
            talk.result("r1", "t1", "one"),
            talk.user("u2", "never mind, hello", None),
            talk.agent("a2", "msg_2", text("hello")),
        )
    )
    assert [(one.native_id, one.relation) for one in found] == [(SESSION, None)]
    assert [reject.reason for reject in rejects] == ["no_calls"]


def test_lines_that_a_resumed_session_wrote_again_count_once() -> None:
    talk = Talk()
    first = [talk.user("u", "go", None), talk.call("a1", "msg_1", "t1"), talk.result("r1", "t1", "one")]
    again = [{**line, "sessionId": "later"} for line in first]
    talk.session = "later"
    found, rejects = parsed(log(*first, *again, talk.call("a2", "msg_2", "t2"), talk.result("r2", "t2", "two")))
    assert [[seen(step) for step in one.steps] for one in found] == [["one", "two"]]
    assert found[0].native_id == "later"
    assert not rejects


def test_lines_repeated_under_new_ids_at_the_same_moment_count_once() -> None:
    talk = Talk()
    lines = [
        talk.user("u", "go", None),
        talk.agent("a1", "msg_000000000000001", use("t1", "Bash")),
        talk.result("r1", "t1", "one"),
        talk.user("u2", "on"),
    ]
    names = {"u": "v", "a1": "b1", "r1": "s1", "u2": "v2"}
    again = [{**line, "uuid": names[line["uuid"]], "parentUuid": names.get(line["parentUuid"])} for line in lines]
    talk.last = "v2"
    found, rejects = parsed(log(*lines, *again, talk.call("a2", "msg_2", "t2"), talk.result("r2", "t2", "two")))
    assert [[seen(step) for step in one.steps] for one in found] == [["one", "two"]]
    assert not rejects


def test_compaction_continues_the_trajectory_and_its_summary_is_the_harness_speaking() -> None:
    talk = Talk()
    boundary = {"subtype": "compact_boundary", "logicalParentUuid": "r1"}
    found, _ = parsed(
        log(
            talk.user("u", "go", None),
            talk.call("a1", "msg_1", "t1"),
            talk.result("r1", "t1", "one"),
            talk.line("system", "c", None, **boundary),
            talk.user("s", "what was done so far", isCompactSummary=True),
            talk.call("a2", "msg_2", "t2"),
        )
    )
    assert [before(step) for step in found[0].steps] == [None, "one"]
    assert said(found[0].steps[1]) == [("harness", "what was done so far")]


def test_message_kept_by_a_compaction_and_hung_up_behind_it_makes_no_circle() -> None:
    talk = Talk()
    kept = {"preservedMessages": {"anchorUuid": "s", "uuids": ["a1", "r1", "a2"]}}
    boundary = {"subtype": "compact_boundary", "logicalParentUuid": "a2", "compactMetadata": kept}
    found, _ = parsed(
        log(
            talk.user("u", "go", None),
            talk.call("a1", "msg_1", "t1"),
            talk.result("r1", "t1", "one"),
            talk.line("system", "c", None, **boundary),
            talk.user("s", "summary", isCompactSummary=True),
            talk.call("a2", "msg_2", "t2"),
            talk.result("r2", "t2", "two"),
        )
    )
    assert [[seen(step) for step in one.steps] for one in found] == [["one", "two"]]


def test_a_circle_of_parents_is_cut_and_loses_no_call() -> None:
    talk = Talk()
    lines = [talk.call("a1", "msg_1", "t1", parent="r2"), talk.result("r1", "t1", "one")]
    lines += [talk.call("a2", "msg_2", "t2"), talk.result("r2", "t2", "two")]
    found, _ = parsed(log(*lines))
    assert sorted(str(seen(step)) for one in found for step in one.steps) == ["one", "two"]


def test_log_whose_lines_name_no_parents_is_read_in_file_order() -> None:
    talk = Talk()
    lines = [talk.user("u", "go"), talk.call("a1", "msg_1", "t1"), talk.result("r1", "t1", "one")]
    lines += [talk.call("a2", "msg_2", "t2"), talk.result("r2", "t2", "two")]
    found, _ = parsed(log(*({**line, "parentUuid": None} for line in lines)))
    assert [(step.turn, seen(step)) for step in found[0].steps] == [(0, "one"), (1, "two")]


def test_parent_that_stands_later_in_the_file_is_found() -> None:
    talk = Talk()
    lines = [talk.user("u", "go", None), talk.call("a1", "msg_1", "t1"), talk.result("r1", "t1", "one")]
    lines += [talk.call("a2", "msg_2", "t2"), talk.result("r2", "t2", "two")]
    found, _ = parsed(log(lines[0], lines[3], lines[1], lines[2], lines[4]))
    assert [seen(step) for step in found[0].steps] == ["one", "two"]


def test_repeated_call_ids_are_answered_by_position() -> None:
    talk = Talk()
    found, rejects = parsed(
        log(
            talk.user("u", "go", None),
            talk.agent("a1", "msg_1", use("t", "Bash", command="a"), use("t", "Bash", command="b")),
            talk.result("r1", "t", "one"),
            talk.result("r2", "t", "two"),
            talk.agent("a2", "msg_2", use("t", "Bash", command="a")),
            talk.result("r3", "t", "three"),
            talk.result("r4", "t", "four"),
        )
    )
    assert [seen(step) for step in found[0].steps] == ["one", "two", "three"]
    assert [reject.reason for reject in rejects] == ["result_repeated"]


def test_branches_beyond_the_limit_are_rejected() -> None:
    talk = Talk()
    lines = [talk.user("u", "go", None)]
    for number in range(BRANCHES + 3):
        lines += [
            talk.call(f"a{number}", f"m{number}", f"t{number}", parent="u"),
            talk.result(f"r{number}", f"t{number}", "x"),
        ]
    found, rejects = parsed(log(*lines))
    assert len(found) == 1 + BRANCHES
    assert [reject.reason for reject in rejects] == ["too_many_branches"] * 2


# sub-agents


def test_sub_agents_hang_on_the_calls_that_started_them() -> None:
    talk, side = Talk(), Talk(isSidechain=True)
    named: Line = {"isSidechain": True, "agentId": "zz"}
    found, _ = parsed(
        log(
            talk.user("u", "go", None),
            talk.agent("a1", "msg_1", use("t1", "Task", prompt="look"), use("t2", "Task", prompt="look")),
            side.user("x1", "look", None),
            side.call("x2", "msg_x", "tx"),
            side.result("x3", "tx", "by prompt"),
            side.user("y1", "look", None, **named),
            {**side.call("y2", "msg_y", "ty"), **named},
            side.result("y3", "ty", "by id", **named),
            talk.result("r1", "t1", "done", parent="a1", toolUseResult={"agentId": "zz"}),
            talk.result("r2", "t2", "done"),
        )
    )
    told = [(one.native_id, one.parent, one.parent_step, one.relation) for one in found[1:]]
    assert told == [(f"{SESSION}/x1", SESSION, 1, "subagent"), (f"{SESSION}/zz", SESSION, 0, "subagent")]
    assert found[1].task.instruction == "look"
    assert [one.origin for step in found[0].steps if (one := step.next_observation)] == ["agent", "agent"]


def test_sub_agent_whose_root_names_a_line_of_its_parent_is_no_branch_of_it() -> None:
    talk, side = Talk(), Talk(isSidechain=True)
    found, _ = parsed(
        log(
            talk.user("u", "go", None),
            talk.call("a1", "msg_1", "t1"),
            side.user("x1", "look", "a1"),
            side.call("x2", "msg_x", "tx"),
            side.user("y1", "look too", "a1"),
            side.call("y2", "msg_y", "ty"),
            talk.result("r1", "t1", "one"),
        )
    )
    assert [(one.native_id, one.relation, len(one.steps)) for one in found] == [
        (SESSION, None, 1),
        (f"{SESSION}/x1", "subagent", 1),
        (f"{SESSION}/y1", "subagent", 1),
    ]
    assert seen(found[0].steps[0]) == "one"


def test_a_branch_that_ends_within_a_call_is_truncated_and_one_that_ends_in_words_is_not() -> None:
    talk = Talk()
    lines = [talk.user("u", "go", None), talk.call("a1", "msg_1", "t1"), talk.result("r1", "t1", "one")]
    cut = [*lines, talk.call("a2", "msg_2", "t2"), talk.user("i", "[Request interrupted by user]")]
    assert [step.truncated for step in parsed(log(*cut))[0][0].steps] == [None, True]
    done = [*lines, talk.agent("a3", "msg_3", text("done"), parent="r1")]
    assert [step.truncated for step in parsed(log(*done))[0][0].steps] == [None, None]
