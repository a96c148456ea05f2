"""The core that all wire logs share: JSON-RPC messages of MCP to trajectories."""

from base64 import b64encode

from hypothesis import given
from hypothesis import strategies as st

from tests.connectors.wire_logs import HELLO, INITIALIZE, after, call, read, request, result, seen
from trajmill.connectors.mcp.wire_reader import SessionReader
from trajmill.connectors.mcp.wire_session import Message
from trajmill.schemas import Trajectory


def test_a_prompt_keeps_no_base64():
    data = b64encode(b"bytes").decode()
    block = {"type": "image", "data": data, "mimeType": "image/png"}
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"messages": [{"role": "user", "content": block}]}}
    shown = after(read(request(1, "prompts/get", name="p"), answer)[0][0].steps[0])
    assert data not in (shown.content or "")
    assert len(shown.attachments) == 1


def test_a_task_is_answered_by_its_result():
    begun = {"jsonrpc": "2.0", "id": 1, "result": {"task": {"taskId": "t", "status": "working"}}}
    found, _ = read(
        call(1),
        begun,
        request(2, "tasks/get", taskId="t"),
        result(2),
        request(3, "tasks/result", taskId="t"),
        result(3, "at last"),
    )
    assert seen(found[0]) == [("look", "at last")]


def test_arguments_that_are_too_deep_are_rejected_and_their_answer_with_them():
    deep: object = 1
    for _ in range(400):
        deep = [deep]
    found, rejects = read(call(1, deep=deep), result(1, "x"), call(2), result(2, "y"))
    assert seen(found[0]) == [("look", "y")]
    assert [one.reason for one in rejects] == ["nested_too_deeply"]


messages = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-2, 2), st.text(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ["id", "method", "params", "result", "error", "content", "name", "arguments", "task", "tools"]
            ),
            st.one_of(inner, st.sampled_from(["tools/call", "initialize", "tools/list", "tasks/result"])),
            max_size=6,
        ),
    ),
    max_leaves=12,
)


@given(st.lists(messages, max_size=8))
def test_any_messages_become_steps_or_rejects(bodies):
    found, _ = read(*bodies)
    for one in found:
        assert any(step.next_observation is not None for step in one.steps)
        assert [step.offset for step in one.steps] == sorted(step.offset for step in one.steps)


MESSAGES = [
    INITIALIZE,
    HELLO,
    *(call(key, name) for key in (1, 2) for name in ("look", "walk")),
    *(result(key, text) for key in (1, 2) for text in ("a", "b")),
    request(1, "ping"),
    {"jsonrpc": "2.0", "id": 1, "result": {}},
]


def outcome(bodies, held, offsets):
    """Steps and reasons of rejects of a log whose messages stand at these offsets."""
    reader = SessionReader("wire", "log", held=held)
    found = [one for at, body in zip(offsets, bodies, strict=True) for one in reader.take(Message(at, body))]
    found += reader.finish()
    return [seen(one) if isinstance(one, Trajectory) else one.reason for one in found]


@given(st.lists(st.sampled_from(MESSAGES), max_size=12))
def test_doubles_are_known_again_whether_messages_are_kept_or_hashed(bodies):
    near = range(len(bodies))
    far = [at << 30 for at in range(1, len(bodies) + 1)]
    crossing = [at << 22 for at in near]
    expected = outcome(bodies, True, near)
    assert outcome(bodies, False, near) == expected
    assert outcome(bodies, False, far) == expected
    assert outcome(bodies, False, crossing) == expected
