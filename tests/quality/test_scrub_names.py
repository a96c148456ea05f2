"""Names of things: paths, ids and rejects lose user names and secrets, and two of them stay two."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.quality.planted import plants
from tests.quality.test_scrub import batch_of, step, trajectory
from trajmill.quality.scrub import KINDS, scrub, scrub_name, scrub_reject, scrub_text
from trajmill.schemas import Action, Assembler, Origin, Step, Trajectory
from trajmill.schemas.invariants import check
from trajmill.schemas.reject import Reject

TOKEN = re.compile(r"name\d{18}")
PATHS = [
    "-Users-carolj-src/0f3c.jsonl",
    "projects/-home-carolj-src/0f3c.jsonl",
    "/home/carolj/logs/x.cast",
    "home/carolj/logs/x.cast",
    "Users/carolj/x.json",
    "C:\\Users\\carolj\\trace.zip",
    "file:///Users/carolj/a%20b.json",
    "file%3A%2F%2F%2Fhome%2Fcarolj%2Fx.json",
    "logs/carolj@corp.io/session.json",
    "archive.zip!/Users/carolj/notes-of-carolj.txt",
]


@pytest.mark.parametrize("path", PATHS)
def test_a_user_name_in_a_path_becomes_a_token(path: str) -> None:
    scrubbed = scrub_name(path)
    assert "carolj" not in scrubbed
    assert TOKEN.search(scrubbed)


def test_a_name_becomes_the_same_in_every_path_under_one_salt_and_another_under_another() -> None:
    tokens = {TOKEN.search(scrub_name(path, salt="a")).group() for path in PATHS[:8]}  # type: ignore[union-attr]
    others = {TOKEN.search(scrub_name(path, salt="b")).group() for path in PATHS[:8]}  # type: ignore[union-attr]
    assert len(tokens) == len(others) == 1
    assert tokens != others


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_secret_is_hidden_in_an_id(kind: str) -> None:
    for plant in plants(kind, 8):  # type: ignore[arg-type]
        scrubbed = scrub_name(plant.text)
        assert not [secret for secret in plant.secrets if secret in scrubbed], plant.text
        assert scrub_name(scrubbed) == scrubbed


def test_ids_and_paths_of_a_batch_are_named_and_nothing_else_of_them_changes() -> None:
    origin = Origin("-Users-carolj-src/x.jsonl", "made", "made", "1", lambda _: "0" * 64)
    action = Action("run", "{}", "{}", "call of carol@corp.io", None, None)
    steps = [step(0, "$", "ls", "lib"), Step(action, None, None, 1, 0, member="home/carolj/m.json")]
    assembler = Assembler()
    assembler.add(Trajectory("session of carol@corp.io", "terminal", steps), origin, {})
    batch = check(assembler.take())
    scrubbed, counts = scrub(batch, salt="pepper")
    check(scrubbed)
    row = scrubbed.to_pylist()[1]
    assert row["provenance"]["uri"] == scrub_name("-Users-carolj-src/x.jsonl", salt="pepper")
    assert row["provenance"]["member"] == scrub_name("home/carolj/m.json", salt="pepper")
    assert row["native_id"] == scrub_name("session of carol@corp.io", salt="pepper")
    assert row["action"]["call_id"] == scrub_name("call of carol@corp.io", salt="pepper")
    assert "carol" not in str(scrubbed.to_pylist())
    assert scrubbed["trajectory_id"].equals(batch["trajectory_id"])
    assert counts.to_pylist() == [0, 0]
    again, _ = scrub(scrubbed, salt="pepper")
    assert again is scrubbed


def test_two_trajectories_whose_ids_name_two_users_keep_two_ids() -> None:
    batch = batch_of(*(trajectory(f"/home/{name}/run", ["$", name]) for name in ("carolj", "davidk")))
    scrubbed, _ = scrub(batch)
    assert len(set(scrubbed["native_id"].to_pylist())) == 2
    assert "carolj" not in str(scrubbed["native_id"].to_pylist())


def test_a_reject_names_its_input_as_transitions_do_and_its_excerpt_is_scrubbed() -> None:
    secret = "password=tr0ub4dor7x from carol@corp.io at /home/carolj/x.json"
    reject = Reject(
        "record", "bad_json", f"cannot read {secret}", "-Users-carolj-src/x.jsonl", "home/carolj/y", excerpt=secret
    )
    scrubbed = scrub_reject(reject, "pepper")
    assert scrubbed.uri == scrub_name(reject.uri, salt="pepper")
    assert scrubbed.member == scrub_name(reject.member, salt="pepper")
    assert scrubbed.excerpt == scrub_text(secret, salt="pepper")
    for left in ("tr0ub4dor7x", "carol"):
        assert left not in str(scrubbed)
    assert replace(scrubbed, uri="", member="", detail="", excerpt="") == replace(
        reject, uri="", member="", detail="", excerpt=""
    )
    assert scrub_reject(scrubbed, "pepper") == scrubbed


@given(
    st.lists(
        st.sampled_from([*PATHS, "/", "-", " ", "carolj", "name123456789012345678", "é", "\udcff"]), max_size=4
    ).map("".join)
)
def test_any_path_is_named_once_and_for_all(path: str) -> None:
    once = scrub_name(path)
    assert scrub_name(once) == once
