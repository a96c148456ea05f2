"""Claude Code session logs that are bad, hostile or real."""

import json
from collections.abc import Iterator

import pytest

from tests.connectors.claude_logs import (
    FIXTURES,
    Talk,
    log,
    parsed,
    text,
    use,
)
from trajmill.connectors.reading.json_text import CARRIED_DEPTH as DEPTH


@pytest.mark.parametrize("depth", [DEPTH + 1, 900, 5000])
def test_arguments_nested_too_deeply_are_rejected(depth: int) -> None:
    talk = Talk()
    deep = json.dumps(talk.agent("a2", "msg_2", use("t2", "Bash", x="DEEP"))).replace(
        '"DEEP"', "[" * depth + "]" * depth
    )
    found, rejects = parsed(log(talk.user("u", "go", None), talk.call("a1", "msg_1", "t1"), deep))
    assert len(found[0].steps) == 1
    assert [reject.reason for reject in rejects] == ["nested_too_deeply"]


def test_same_log_comes_out_the_same_twice_and_every_step_points_at_its_line() -> None:
    data = (FIXTURES / "input" / "session.jsonl").read_bytes()
    assert parsed(data) == parsed(data)
    for step in parsed(data)[0][0].steps:
        line = json.loads(data[step.offset : data.index(b"\n", step.offset)])
        assert line["type"] == "assistant"
        assert step.action.call_id is None or step.action.call_id in json.dumps(line)


def hostile() -> Iterator[tuple[str, bytes]]:
    talk = Talk()
    lines = [talk.user("u", "go", None)]
    for number in range(800):
        lines.append(talk.call(f"a{number}", f"m{number}", f"t{number}", parent=f"a{number - 1}" if number else "u"))
        lines.append(talk.result(f"r{number}", f"t{number}", "x"))
        lines.append(talk.agent(f"b{number}", f"n{number}", text("no"), parent=f"r{number}"))
    yield "a comb", log(*lines)
    talk = Talk()
    yield (
        "one id",
        log(
            *(talk.agent(f"a{n}", "m", use("t", "Bash", n=n)) for n in range(800)),
            *(talk.result(f"r{n}", "t", n) for n in range(800)),
        ),
    )
    talk = Talk()
    yield (
        "reminders",
        log(talk.call("a", "m", "t"), talk.result("r", "t", "x" + "\n<system-reminder>y</system-reminder>" * 4000)),
    )
    talk = Talk()
    yield "texts", log(talk.user("u", [text("a<system-reminder>")] * 4000, None), talk.call("a", "m", "t"))


@pytest.mark.parametrize(("name", "data"), [pytest.param(*one, id=one[0]) for one in hostile()])
def test_hostile_log_takes_time_in_proportion_to_its_size(name: str, data: bytes) -> None:
    found, _ = parsed(data)
    assert found
