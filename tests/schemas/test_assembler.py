from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.make import batch_of, call, steps_of, trajectory
from trajmill.schemas import Action, Agent, Assembler, Observation, Outcome, Step, Task, Trajectory
from trajmill.schemas.invariants import check
from trajmill.schemas.transition import encode_schema


def test_a_batch_holds_what_the_trajectory_said():
    outcome = Outcome(resolved=True, score=0.5, verifier="tests")
    log = trajectory("a", None, "b", task=Task("k", "do it"), agent=Agent("me"), outcome=outcome)
    rows = batch_of(log).to_pylist()
    assert [row["step"] for row in rows] == [0, 1, 2]
    assert [(row["next_observation"] or {}).get("content") for row in rows] == ["a", None, "b"]
    assert rows[0]["observation"] is None
    assert rows[2]["observation"] is None
    assert rows[0]["outcome"] == {"resolved": True, "score": 0.5, "verifier": "tests"}
    assert rows[1]["task"] == {"id": "k", "instruction": "do it"}
    assert rows[1]["provenance"]["offset"] == 10


def test_observation_and_next_observation_share_one_dictionary_in_memory():
    batch = batch_of(trajectory("x" * 1000, "y" * 1000))
    before, after = (batch[name].field("content") for name in ("observation", "next_observation"))
    assert before.dictionary.buffers()[2].address == after.dictionary.buffers()[2].address


def test_lone_surrogates_become_replacement_characters():
    step = Step(Action("a\udc00", "t\ud800x"), None, Observation("o\udfff"), 0, 0)
    row = batch_of(Trajectory("n\ud800", "terminal", [step])).to_pylist()[0]
    assert row["action"]["name"] == "a\ufffd"
    assert row["next_observation"]["content"] == "o\ufffd"
    assert row["native_id"] == "n\ufffd"


def test_lone_surrogates_outside_the_canonical_content_become_replacement_characters():
    step = Step(Action("a", "t", reasoning="r\ud800"), None, Observation("o", uri="u\udfff"), 0, 0)
    row = batch_of(Trajectory("n", "terminal", [step], task=Task(None, "i\ud800"))).to_pylist()[0]
    assert row["action"]["reasoning"] == "r\ufffd"
    assert row["next_observation"]["uri"] == "u\ufffd"
    assert row["task"]["instruction"] == "i\ufffd"


def test_a_parent_that_the_log_yielded_before_is_linked_by_its_id():
    parent = trajectory("a", native_id="p")
    child = trajectory("b", native_id="c", parent="p", parent_step=0, relation="subagent")
    rows = batch_of(parent, child).to_pylist()
    assert rows[1]["parent_trajectory_id"] == rows[0]["trajectory_id"]
    assert (rows[1]["parent_step"], rows[1]["relation"]) == (0, "subagent")


def test_a_long_trajectory_is_split_at_turns_and_keeps_its_steps():
    steps = [replace(s, turn=i // 2, call_index=i % 2, num_calls=2) for i, s in enumerate(steps_of(*["x" * 900] * 8))]
    rows = batch_of(Trajectory("t", "terminal", steps), segment_bytes=4000).to_pylist()
    assert [row["step"] for row in rows] == list(range(8))
    assert {row["num_segments"] for row in rows} == {rows[-1]["segment"] + 1}
    assert rows[-1]["segment"] > 0
    for a, b in pairwise(rows):
        assert a["turn"] != b["turn"] or a["segment"] == b["segment"]


def test_an_empty_assembler_gives_an_empty_batch_of_the_schema():
    batch = Assembler().take()
    assert batch.num_rows == 0
    assert batch.schema == encode_schema()
    assert check(batch) is batch


@given(st.lists(st.lists(st.one_of(st.none(), st.text(max_size=5)), min_size=1, max_size=4), min_size=1, max_size=5))
def test_assembling_together_is_the_same_as_one_by_one(contents):
    trajectories = [trajectory(*texts, native_id=str(n)) for n, texts in enumerate(contents)]
    together = batch_of(*trajectories).to_pylist()
    apart = [row for log in trajectories for row in batch_of(log).to_pylist()]
    assert together == apart


def test_attachments_are_kept_in_order():
    from trajmill.schemas import Attachment

    seen = Observation(None, attachments=(Attachment("0" * 64, "image", "image/png"), Attachment("1" * 64, "image")))
    row = batch_of(Trajectory("t", "os", [Step(call(), None, seen, 0, 0)])).to_pylist()[0]
    assert [attachment["sha256"][0] for attachment in row["next_observation"]["attachments"]] == ["0", "1"]
    assert row["next_observation"]["content"] is None
