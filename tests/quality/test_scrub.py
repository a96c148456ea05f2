"""Scrubbing of record batches: which columns, which rows, how dictionaries are shared and split, and what stays."""

import base64
import json
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import FUZZ
from tests.quality.planted import MAKERS, plants
from trajmill.quality.scrub import KINDS, _trajectories, scrub, scrub_text
from trajmill.quality.scrubbing.columns import NAMES, SCRUBBED
from trajmill.schemas import (
    Action,
    Agent,
    Assembler,
    Attachment,
    ConfigError,
    Context,
    Environment,
    Observation,
    Origin,
    Outcome,
    Step,
    Task,
    Trajectory,
    json_text,
    sampled_text,
)
from trajmill.schemas.invariants import check
from trajmill.schemas.transition import TRANSITION_SCHEMA, encode_schema, leaves

PASSWORD = "tr0ub4dor7staple"
MAIL = "carol.jones@corp.io"
ORIGIN = Origin("logs/carol.json", "made", "made", "1", lambda _: "0" * 64)


def step(turn: int, before: str | None, command: str, after: str | None, **more: object) -> Step:
    action = Action("run", json_text({"cmd": command}), json_text({"cmd": command}), None, None, None)
    seen = None if before is None else Observation(before)
    shown = None if after is None else Observation(after)
    return Step(action, seen, shown, turn, 0, **more)  # type: ignore[arg-type]


def trajectory(native_id: str, texts: list[str], **more: object) -> Trajectory:
    """One that shows the texts one after the other, each the next observation and then the observation."""
    steps = [step(turn, texts[turn], f"next {turn}", texts[turn + 1]) for turn in range(len(texts) - 1)]
    return Trajectory(native_id, "terminal", steps, **more)  # type: ignore[arg-type]


def batch_of(*trajectories: Trajectory) -> pa.RecordBatch:
    assembler = Assembler()
    for record in trajectories:
        assembler.add(record, ORIGIN, {})
    return check(assembler.take())


def shown(batch: pa.RecordBatch) -> list[str]:
    return [row["content"] for row in batch["next_observation"].to_pylist()]


def buffers(array: pa.Array) -> bytes:
    """Every byte that the array holds, dictionaries and unused entries included."""
    data = b"".join(buffer.to_pybytes() for buffer in array.buffers() if buffer is not None)
    if pa.types.is_dictionary(array.type):
        return data + buffers(array.dictionary)
    if pa.types.is_struct(array.type):
        return data + b"".join(buffers(array.field(number)) for number in range(array.type.num_fields))
    return data


def test_a_batch_without_finds_is_given_back_itself() -> None:
    batch = batch_of(trajectory("a", ["$ ls", "lib  src", "total 48"]))
    scrubbed, counts = scrub(batch)
    assert scrubbed is batch
    assert counts.to_pylist() == [0, 0]
    assert counts.type == pa.int32()


def test_an_empty_batch_is_scrubbed_to_an_empty_batch() -> None:
    batch = batch_of(trajectory("a", ["x", "y"])).slice(0, 0)
    scrubbed, counts = scrub(batch)
    assert scrubbed.num_rows == len(counts) == 0


def test_every_column_that_holds_what_a_log_says_is_scrubbed_and_no_other_changes() -> None:
    secret = f"{MAIL} password={PASSWORD}"
    action = Action(
        f"type as {MAIL}",
        json_text({"text": secret}),
        json_text({"t": secret}),
        "call_1",
        f"I type {MAIL}",
        f"it is {PASSWORD}",
    )
    attachment = Attachment("1" * 64, f"shot of {MAIL}", f"image/png; of={MAIL}", "/Users/carolj/shot.png")
    seen = Observation(
        f"mail {MAIL}", f"text/{MAIL}", uri="https://x.io/?user=carol.jones@corp.io", attachments=(attachment,)
    )
    interleaved = json_text([{"role": "user", "content": secret}])
    whole = Trajectory(
        "session of carol.jones@corp.io",
        "web",
        [Step(action, seen, seen, 0, 5, interleaved=interleaved), Step(action, None, None, 1, 9)],
        environment=Environment(
            "mail of carol.jones@corp.io", MAIL, "model", MAIL, f"m@{MAIL}", f'{{"user": "{MAIL}"}}'
        ),
        agent=Agent(f"of {MAIL}", MAIL, f"tuned by {MAIL}"),
        task=Task("carol-1", f"log in as {MAIL}"),
        context=Context(json_text([{"name": MAIL}]), MAIL, MAIL, MAIL, MAIL),
        outcome=Outcome(True, 1.0, f"judged by {MAIL}"),
    )
    batch = batch_of(whole)
    scrubbed, counts = scrub(batch)
    check(scrubbed)
    everything = b"".join(buffers(column) for column in scrubbed.columns)
    for left in (b"carol.jones", PASSWORD.encode(), b"carolj"):
        assert left not in everything
    for name in ("trajectory_id", "step", "domain", "source", "reward", "provenance"):
        assert scrubbed[name].equals(batch[name])
    assert scrubbed["task"].to_pylist()[0]["id"] == "carol-1"
    first = scrubbed.to_pylist()[0]
    assert json.loads(first["action"]["arguments"])["t"].endswith(
        json.loads(first["interleaved"])[0]["content"].split("password=")[1]
    )
    assert counts.to_pylist()[0] > counts.to_pylist()[1] > 0


def test_a_column_that_is_not_scrubbed_holds_a_closed_set_a_digest_or_what_no_log_says() -> None:
    flat = encode_schema()
    lists = [
        f"{side}.attachments.{field.name}"
        for side in ("observation", "next_observation")
        for field in flat.field(side).type.field("attachments").type.value_type.fields
    ]
    texts = {path for path, kind in leaves(TRANSITION_SCHEMA) if pa.types.is_string(kind)} | set(lists)
    closed = {field for field in texts - SCRUBBED - NAMES if not field.endswith((".sha256", ".form", ".truncation"))}
    assert closed == {
        "row_id", "trajectory_id", "parent_trajectory_id", "relation", "domain", "source", "environment.kind",
        "context.origin", "observation.origin", "next_observation.origin", "provenance.connector",
        "provenance.connector_version", "provenance.licence", "action.sampled",
    }  # fmt: skip


def test_observation_and_next_observation_still_share_one_dictionary() -> None:
    batch = batch_of(trajectory("a", ["x", f"mail {MAIL}", f"sent to {MAIL}", "done"]))
    scrubbed, _ = scrub(batch)
    before, after = (scrubbed[side].field(0).dictionary for side in ("observation", "next_observation"))
    assert before.buffers()[2].address == after.buffers()[2].address
    assert scrubbed["observation"].to_pylist()[1]["content"] == shown(scrubbed)[0]


def test_a_text_of_two_trajectories_becomes_two_texts_where_it_must() -> None:
    banner = f"Welcome, {MAIL}"
    batch = batch_of(
        trajectory("a", ["$", banner, f"a: {MAIL}"]),
        trajectory("b", ["$", banner, f"b: {MAIL}"]),
        trajectory("c", ["$", "ls", "lib"]),
    )
    scrubbed, counts = scrub(batch)
    first, second, third, fourth, *rest = shown(scrubbed)
    assert first != third
    assert first.removeprefix("Welcome, ") == second.removeprefix("a: ")
    assert third.removeprefix("Welcome, ") == fourth.removeprefix("b: ")
    assert rest == ["ls", "lib"]
    assert counts.to_pylist() == [1, 2, 1, 2, 0, 0]
    assert MAIL.encode() not in buffers(scrubbed["observation"])


def test_a_secret_is_hidden_in_every_text_of_the_trajectory_that_gives_it_away_once() -> None:
    secret = 'Zq7"k\\v9-Wx2é4m'
    quoted = json.dumps(secret)
    encoded = base64.b64encode(f"first line\nthe key {secret} again".encode()).decode()
    texts = [
        "$",
        f"earlier: {secret}",
        f"in a body {encoded} here",
        json.dumps({"deep": json.dumps({"x": f"nested {secret}"})}),
        json.dumps({"x": f"unescaped {secret}"}, ensure_ascii=False),
        f'{{"api_key": {quoted}}}',
        "nothing",
    ]
    batch = batch_of(trajectory("a", texts))
    scrubbed, counts = scrub(batch)
    early, body, deep, flat, fields, nothing = shown(scrubbed)
    fresh = early.removeprefix("earlier: ")
    assert fresh != secret
    assert [c for c in fresh if not c.isalnum()] == [c for c in secret if not c.isalnum()]
    assert base64.b64decode(body.split()[3]).decode() == f"first line\nthe key {fresh} again"
    assert json.loads(json.loads(deep)["deep"])["x"] == f"nested {fresh}"
    assert json.loads(flat)["x"] == f"unescaped {fresh}"
    assert json.loads(fields)["api_key"] == fresh
    assert nothing == "nothing"
    assert counts.to_pylist() == [1, 2, 2, 2, 2, 1]


def test_environment_ids_become_the_same_in_every_trajectory() -> None:
    home = Environment(id="desk", instance_id="/home/carolj/repo")
    batch = batch_of(
        trajectory("a", ["$", MAIL, "x"], environment=home), trajectory("b", ["$", MAIL, "y"], environment=home)
    )
    scrubbed, _ = scrub(batch)
    ids = {row["instance_id"] for row in scrubbed["environment"].to_pylist()}
    assert len(ids) == 1
    assert ids != {"/home/carolj/repo"}
    assert len({shown(scrubbed)[0], shown(scrubbed)[2]}) == 2


def test_placeholders_hang_on_the_salt_and_on_nothing_else() -> None:
    batch = batch_of(trajectory("a", ["$", f"token=ghp_{'a1B2' * 9}"]))
    assert shown(scrub(batch)[0]) == shown(scrub(batch)[0])
    assert shown(scrub(batch)[0]) != shown(scrub(batch, salt="pepper")[0])


def test_texts_of_a_slice_that_no_row_uses_are_scrubbed_too() -> None:
    batch = batch_of(trajectory("a", ["$", "ls", "lib"]), trajectory("b", ["$", MAIL, f"PASSWORD={PASSWORD}"]))
    scrubbed, counts = scrub(batch.slice(0, 2))
    assert counts.to_pylist() == [0, 0]
    assert shown(scrubbed) == ["ls", "lib"]
    for left in (MAIL, PASSWORD):
        assert left.encode() not in buffers(scrubbed["next_observation"])


def test_a_slice_is_scrubbed_like_its_rows() -> None:
    batch = batch_of(trajectory("a", ["$", "ls", f"a {MAIL}"]), trajectory("b", ["$", MAIL, f"PASSWORD={PASSWORD}"]))
    whole, counts = scrub(batch)
    part, part_counts = scrub(batch.slice(2))
    assert part.to_pylist() == whole.slice(2).to_pylist()
    assert part_counts.equals(counts.slice(2))


def test_only_the_kinds_asked_for_are_scrubbed() -> None:
    text = f"{MAIL} from 81.200.40.17, PASSWORD={PASSWORD}"
    assert scrub_text(text, kinds=()) == text
    only_mail = scrub_text(text, kinds=("email",))
    assert MAIL not in only_mail
    assert only_mail.endswith(f"from 81.200.40.17, PASSWORD={PASSWORD}")


def test_an_unknown_kind_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="'email'"):
        scrub_text("x", kinds=("emails",))


def test_a_lone_surrogate_in_an_excerpt_does_no_harm() -> None:
    assert scrub_text(f"\ud800 {MAIL}").startswith("\ud800 user")
    once = scrub_text("PASSWORD=abc12\ud800defgh9 and PIN=\udfff1")
    assert "abc12" not in once
    assert scrub_text(once) == once


_PLANTED = [MAKERS[kind](Random(f"{kind} {seed}")).text for kind in KINDS for seed in range(6)]
_GLUE = st.one_of(
    st.sampled_from([" ", "\n", '"', "\\", ",", "=", ": ", "@", "%40", "\x1b[32m", "é", "漢", "😀"]), st.text()
)
_PIECE = st.one_of(
    st.sampled_from(_PLANTED),
    st.sampled_from(_PLANTED).map(json.dumps),
    st.sampled_from(_PLANTED).map(lambda text: base64.b64encode(text.encode()).decode()),
    st.builds(lambda text, end: text[:end], st.sampled_from(_PLANTED), st.integers(0, 80)),
)
_TEXT = st.lists(st.one_of(_PIECE, _GLUE), max_size=7).map("".join)


@given(_TEXT)
def test_scrubbing_twice_changes_nothing_more_and_keeps_the_length(text: str) -> None:
    once = scrub_text(text, "key")
    assert len(once.encode("utf-8", "surrogatepass")) == len(text.encode("utf-8", "surrogatepass"))
    assert scrub_text(once, "key") == once
    assert scrub_text(once, "another") == once


@settings(max_examples=12 * FUZZ)
@given(
    st.lists(
        st.lists(_TEXT.map(lambda t: t.encode("utf-8", "replace").decode()), min_size=2, max_size=4),
        min_size=1,
        max_size=3,
    )
)
def test_a_scrubbed_batch_keeps_every_invariant_and_is_not_scrubbed_again(texts: list[list[str]]) -> None:
    batch = batch_of(*(trajectory(str(number), contents) for number, contents in enumerate(texts)))
    scrubbed, _ = scrub(batch)
    check(scrubbed)
    again, counts = scrub(scrubbed)
    assert again.to_pylist() == scrubbed.to_pylist()
    assert set(counts.to_pylist()) == {0}


@pytest.mark.parametrize("kind", MAKERS)
def test_the_object_that_a_text_stood_in_is_cleaned_as_the_text_is(kind):
    ways = ({"ensure_ascii": False}, {"ensure_ascii": True, "separators": (",", ":")})
    planted = [plant for plant in plants(kind, 12) for _ in ways]
    trajectories = []
    for number, plant in enumerate(planted):
        text = f"line one\n{plant.text}\nlast é"
        envelope = json.dumps({"content": [{"type": "text", "text": text}], "isError": False}, **ways[number % 2])
        seen = Observation(text, envelope=envelope)
        trajectories.append(Trajectory(str(number), "mcp", [Step(Action("run", "{}"), None, seen, 0, 0)]))
    scrubbed, counts = scrub(batch_of(*trajectories))
    for plant, row, count in zip(planted, check(scrubbed).to_pylist(), counts.to_pylist(), strict=True):
        observation = row["next_observation"]
        assert json.loads(observation["envelope"])["content"][0]["text"] == observation["content"]
        assert not any(secret in observation["envelope"] for secret in plant.secrets)
        assert count >= 2


def test_a_secret_that_only_the_object_holds_is_cleaned_and_counted():
    envelope = json_text({"content": [{"type": "text", "text": "ok"}], "structuredContent": {"mail": MAIL, "n": 1.50}})
    seen = Observation("ok", envelope=envelope)
    steps = [Step(Action("run", "{}"), None, seen, 0, 0), Step(Action("run", "{}"), seen, None, 1, 1)]
    scrubbed, counts = scrub(batch_of(Trajectory("t", "mcp", steps)))
    first, second = scrubbed.to_pylist()
    assert MAIL not in first["next_observation"]["envelope"]
    assert second["observation"]["envelope"] == first["next_observation"]["envelope"]
    assert json.loads(first["next_observation"]["envelope"])["structuredContent"]["n"] == 1.5
    assert counts.to_pylist() == [1, 1]


def test_token_ids_of_a_turn_with_a_secret_in_an_action_are_dropped():
    ids = sampled_text([4, 2], None)
    acts = [Action("run", "{}", sampled=ids), Action("run", "{}", reasoning=f"Write to {MAIL}.")]
    both = [Step(action, None, Observation("ok"), 0, 0, "", number, 2) for number, action in enumerate(acts)]
    later = Step(Action("run", "{}", sampled=ids), Observation("ok"), Observation(MAIL), 1, 0)
    scrubbed, counts = scrub(batch_of(Trajectory("t", "mcp", [*both, later])))
    assert [row["action"]["sampled"] for row in check(scrubbed).to_pylist()] == [None, None, ids]
    assert counts.to_pylist() == [0, 1, 1]


def test_rows_are_of_the_trajectory_before_as_long_as_its_id_is_the_same() -> None:
    batch = batch_of(trajectory("x", ["a", "b"]), trajectory("y", ["a", "b"]))
    assert _trajectories(batch.take(pa.array([0, 0, 1]))).tolist() == [0, 0, 1]
    assert _trajectories(batch.take(pa.array([1, 0, 0]))).tolist() == [0, 1, 1]
