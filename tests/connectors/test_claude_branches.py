"""Claude Code session logs: turns, branches and sub-agents, the shapes of the conversation tree."""

from tests.connectors.claude_logs import (
    Talk,
    log,
    parsed,
    seen,
    use,
)
from trajmill.connectors.agents.claude_code import BRANCHES

# turns and branches


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


def test_a_circle_of_parents_is_cut_and_loses_no_call() -> None:
    talk = Talk()
    lines = [talk.call("a1", "msg_1", "t1", parent="r2"), talk.result("r1", "t1", "one")]
    lines += [talk.call("a2", "msg_2", "t2"), talk.result("r2", "t2", "two")]
    found, _ = parsed(log(*lines))
    assert sorted(str(seen(step)) for one in found for step in one.steps) == ["one", "two"]


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
