"""Components through both stages: what is kept, what goes and why, and that nothing but rows and recipe has a say."""

import hashlib
import json
from pathlib import Path

import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.pipelines.mix.passages.corpora import RECIPE, SALT, component, here, prepared, prose, written
from trajmill.pipelines.generations.verification import verify
from trajmill.pipelines.mix.passages.preparation import Preparation
from trajmill.pipelines.mix.passages.preparing import names_to_keep, names_to_write, prepare
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.run_record.conservation import passage_lines
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.ownership import Identity, Ownership
from trajmill.pipelines.storage.units import units_folder
from trajmill.quality.scrub import scrub_text

LONG = prose(300, 1)
NEAR = LONG.replace(LONG.split()[150], "changed", 1)
SPACED = "  " + LONG.replace(" ", "\n\t") + "\n"
SECRET = "the key is AKIAJ7QMZ3XK5VBN2WPT and it is written down here"
MIXED = [LONG, NEAR, SPACED, prose(300, 2), prose(20, 3), SECRET, prose(20, 3), prose(300, 2) + " and more"]


def digests(out: Path) -> dict[str, str]:
    """Name → sha256 of every part and every reject."""
    paths = sorted([*(out / "passages").rglob("*.parquet"), *(out / "rejects").rglob("*.parquet")])
    return {str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def with_benchmark(path: Path, **values) -> Recipe:
    return RECIPE.model_copy(
        update={
            "judge": RECIPE.judge.model_validate(
                {"benchmarks": [{"name": "exam", "path": str(path), "id": "key", "texts": ["question"], **values}]}
            )
        }
    )


def test_equal_rows_but_for_blanks_stay_once_and_the_others_name_the_one_that_stays(tmp_path):
    written(tmp_path / "in/a.jsonl", [prose(20, 3), prose(20, 4), prose(20, 3).replace(" ", "\n")])
    _, tables, rejects = prepared(tmp_path / "out", component(tmp_path / "in"))
    assert tables["corpus"].num_rows == 2
    (gone,) = rejects
    assert gone["reason"] == "duplicate"
    assert gone["detail"].removeprefix("equal to ") in tables["corpus"]["id"].to_pylist()


def test_only_equal_rows_go(tmp_path):
    written(tmp_path / "in/a.jsonl", [LONG, NEAR, SPACED])
    _, tables, rejects = prepared(tmp_path / "out", component(tmp_path / "in"))
    assert tables["corpus"].num_rows == 2
    assert [row["reason"] for row in rejects] == ["duplicate"]


def test_what_two_components_hold_stays_in_the_one_that_the_recipe_names_first(tmp_path):
    first, second = (
        component(written(tmp_path / f"{name}/a.jsonl", [LONG, prose(20, 3), prose(50, seed)]), name=name)
        for seed, name in enumerate(("news", "law"), 20)
    )
    _, ahead, _ = prepared(tmp_path / "one", first, second)
    _, behind, _ = prepared(tmp_path / "two", second, first)
    assert [ahead[name].num_rows for name in ("news", "law")] == [3, 1]
    assert [behind[name].num_rows for name in ("news", "law")] == [1, 3]


def test_a_secret_gets_the_placeholder_that_it_has_in_transitions(tmp_path):
    written(tmp_path / "in/a.jsonl", [SECRET])
    _, tables, _ = prepared(tmp_path / "out", component(tmp_path / "in"))
    (text,) = tables["corpus"]["text"].to_pylist()
    assert "AKIAJ7QMZ3XK5VBN2WPT" not in text
    assert text == scrub_text(SECRET, salt=SALT)


def test_a_secret_is_the_same_placeholder_in_all_messages_of_a_conversation(tmp_path):
    messages = [
        {"role": "user", "content": "export GITHUB_TOKEN=ghp_16C7e42F292c6912E7710c838347Ae178B4a works"},
        {"role": "assistant", "content": "Your token is ghp_16C7e42F292c6912E7710c838347Ae178B4a now."},
    ]
    written(tmp_path / "in/a.jsonl", [{"messages": messages}])
    _, tables, _ = prepared(tmp_path / "out", component(tmp_path / "in", kind="messages"))
    asked, answered = (message["content"] for message in tables["corpus"]["messages"][0].as_py())
    token = asked.removeprefix("export GITHUB_TOKEN=").removesuffix(" works")
    assert token != "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
    assert answered == f"Your token is {token} now."


def test_an_item_of_a_benchmark_goes_by_its_name_wherever_it_stands_in_a_row(tmp_path):
    item = prose(40, 9)
    written(tmp_path / "exam.jsonl", [{"key": "q-1", "question": item}])
    inside = f"{prose(80, 10)}\n{item.upper()}\n{prose(80, 11)}"
    written(tmp_path / "in/a.jsonl", [inside, prose(80, 10), " ".join(reversed(item.split()))])
    recipe = with_benchmark(tmp_path / "exam.jsonl")
    _, tables, rejects = prepared(tmp_path / "out", component(tmp_path / "in"), recipe=recipe)
    assert tables["corpus"].num_rows == 2
    assert [(row["reason"], row["detail"]) for row in rejects] == [("contaminated", "exam:q-1")]


def test_an_item_goes_by_its_id_and_by_an_answer_that_follows_a_short_question(tmp_path):
    item = {"key": "harbour-77", "question": "Which harbour did Amaro sail from?", "answer": "Lisbon"}
    written(tmp_path / "exam.jsonl", [item])
    answered = [
        {"role": "user", "content": "Tell me, which harbour did Amaro sail from please"},
        {"role": "assistant", "content": "It was Lisbon."},
    ]
    unanswered = [{**answered[0]}, {"role": "assistant", "content": "Nobody knows."}]
    rows = [
        {"messages": answered, "key": "a"},
        {"messages": unanswered, "key": "b"},
        {"messages": [{"role": "assistant", "content": "anything"}], "key": "harbour-77"},
    ]
    written(tmp_path / "in/a.jsonl", rows)
    recipe = with_benchmark(tmp_path / "exam.jsonl", answer="answer")
    chats = component(tmp_path / "in", kind="messages", columns={"id": "key"})
    _, tables, rejects = prepared(tmp_path / "out", chats, recipe=recipe)
    assert tables["corpus"]["id"].to_pylist() == ["corpus/b"]
    assert {row["reason"] for row in rejects} == {"contaminated"}


def test_a_leak_in_many_copies_of_one_row_is_one_rows_and_is_found(tmp_path):
    item = prose(40, 9)
    written(tmp_path / "exam.jsonl", [{"key": "q-1", "question": item}])
    written(tmp_path / "in/a.jsonl", [item] * 150)
    _, tables, rejects = prepared(
        tmp_path / "out", component(tmp_path / "in"), recipe=with_benchmark(tmp_path / "exam.jsonl")
    )
    assert tables["corpus"].num_rows == 0
    assert {row["reason"] for row in rejects} == {"contaminated"}


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.permutations(range(len(MIXED))), cut=st.integers(1, len(MIXED) - 1))
def test_the_same_passages_stay_in_whatever_order_and_files_the_rows_come(tmp_path_factory, order, cut):
    folder = tmp_path_factory.mktemp("order")
    rows = [MIXED[number] for number in order]
    written(folder / "in/a.jsonl", rows[:cut])
    written(folder / "in/b.jsonl", rows[cut:])
    manifest, tables, rejects = prepared(folder / "out", component(folder / "in"))
    passages = {(row["id"], row["group"], row["tokens"], row["loss_tokens"]) for row in tables["corpus"].to_pylist()}
    written(folder / "whole/a.jsonl", MIXED)
    _, whole, _ = prepared(folder / "again", component(folder / "whole"))
    assert passages == {
        (row["id"], row["group"], row["tokens"], row["loss_tokens"]) for row in whole["corpus"].to_pylist()
    }
    assert manifest.counts["corpus.rows"] == len(MIXED) == len(passages) + len(rejects)


def test_what_is_kept_is_kept_again_letter_by_letter(tmp_path):
    written(tmp_path / "in/a.jsonl", MIXED)
    _, once, _ = prepared(tmp_path / "one", component(tmp_path / "in"))
    _, twice, rejects = prepared(tmp_path / "two", component(tmp_path / "one/passages/corpus"))
    assert twice["corpus"].select(["id", "text", "tokens"]) == once["corpus"].select(["id", "text", "tokens"])
    assert rejects == []


def test_a_run_of_beam_and_one_without_give_the_same_bytes(tmp_path):
    for number in range(3):
        written(tmp_path / f"in/{number}.jsonl", MIXED[number::3])
    prepared(tmp_path / "one", component(tmp_path / "in"))
    prepared(tmp_path / "two", component(tmp_path / "in"), beam=True)
    assert digests(tmp_path / "one") == digests(tmp_path / "two")


def test_batches_of_a_row_each_give_the_same_rows(tmp_path, monkeypatch):
    item = prose(40, 9)
    written(tmp_path / "exam.jsonl", [{"key": "q-1", "question": item}])
    written(tmp_path / "in/a.jsonl", [*MIXED[:4], item, *MIXED[4:], "", item + " again"])
    recipe = with_benchmark(tmp_path / "exam.jsonl")
    _, single, gone = prepared(tmp_path / "one", component(tmp_path / "in"), recipe=recipe)
    monkeypatch.setattr("trajmill.pipelines.mix.passages.as_transitions.BATCH_PASSAGES", 1)
    _, two, lost = prepared(tmp_path / "two", component(tmp_path / "in"), recipe=recipe)
    assert single["corpus"] == two["corpus"]
    assert [(row["offset"], row["reason"]) for row in gone] == [(row["offset"], row["reason"]) for row in lost]
    assert [row["reason"] for row in gone].count("contaminated") == 2


def test_a_second_run_writes_nothing_and_a_lost_part_is_made_again(tmp_path):
    written(tmp_path / "in/a.jsonl", MIXED[:4])
    written(tmp_path / "in/b.jsonl", MIXED[4:])
    prepared(tmp_path / "out", component(tmp_path / "in"))
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.parquet")}
    earlier = digests(tmp_path / "out")
    lost = tmp_path / "out/passages/corpus/part-00001.parquet"
    lost.unlink()
    prepared(tmp_path / "out", component(tmp_path / "in"))
    again = {path for path, when in before.items() if path.stat().st_mtime_ns != when}
    assert digests(tmp_path / "out") == earlier
    assert again == {lost, tmp_path / "out/rejects/passages/corpus-00001.parquet"}


def test_a_file_that_changed_is_read_again_and_the_others_are_not(tmp_path):
    written(tmp_path / "in/a.jsonl", [prose(50, 30)])
    written(tmp_path / "in/b.jsonl", [prose(50, 31)])
    prepared(tmp_path / "out", component(tmp_path / "in"))
    read = tmp_path / "out/passages_read"
    before = (read / "corpus-00000.parquet").stat().st_mtime_ns
    written(tmp_path / "in/b.jsonl", [prose(50, 31), prose(50, 30)])
    manifest, tables, _ = prepared(tmp_path / "out", component(tmp_path / "in"))
    assert (read / "corpus-00000.parquet").stat().st_mtime_ns == before
    assert tables["corpus"].num_rows == 2
    assert manifest.counts["corpus.dropped.duplicate"] == 1


def test_every_file_was_told_before_and_every_row_is_accounted_for(tmp_path):
    chats = written(tmp_path / "chats.jsonl", [{"messages": [{"role": "assistant", "content": "Hello."}]}])
    written(tmp_path / "in/a.jsonl", [*MIXED, "", "<|im_start|>"])
    components = (component(tmp_path / "in"), component(chats, kind="messages", name="chats"))
    manifest, _, rejects = prepared(tmp_path / "out", *components)
    preparing = Preparation(RECIPE, components, Folder(str(tmp_path / "out")))
    files = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert files <= names_to_write(preparing.units())
    assert files == set().union(*(names for _, names in names_to_keep(preparing)))
    lines = passage_lines(["corpus", "chats"], manifest.counts)
    assert [line.entered for line in lines] == [len(MIXED) + 2, 1]
    assert sum(line.entered - line.kept for line in lines) == len(rejects)
    assert manifest.counts["chats.tokens"] == manifest.counts["chats.loss_tokens"] > 0


def test_a_run_owns_what_it_prepared_and_checks_it_as_the_rest(tmp_path):
    written(tmp_path / "in/a.jsonl", MIXED)
    out = Folder(str(tmp_path / "out"))
    preparing = Preparation(RECIPE, (component(tmp_path / "in"),), out)
    owner = Ownership(out, Identity.of(RECIPE, ["raw"]))
    with owner.held():
        owner.keep()
        prepare(preparing, here(preparing), owner.intend)
        for stage, names in names_to_keep(preparing):
            owner.prune([stage, units_folder(stage)], names)
    report = verify(out.url)
    assert report.is_whole
    assert not report.foreign
    assert {stage.name for stage in report.stages} == {"passages_read", "passages", "rejects/passages"}
    part = tmp_path / "out/passages/corpus/part-00000.parquet"
    part.write_bytes(part.read_bytes()[:-1])
    assert [fault.name for fault in verify(out.url).faults] == ["passages/corpus/part-00000.parquet"]


def test_a_part_holds_the_columns_that_it_is_said_to_hold_and_where_rows_came_from(tmp_path):
    written(tmp_path / "in/deep/a.jsonl", [{"text": LONG, "doc": "d-1", "terms": "MIT"}])
    docs = component(tmp_path / "in", columns={"id": "doc", "licence": "terms"}, source="encyclopedia")
    prepared(tmp_path / "out", docs)
    (row,) = pq.read_table(tmp_path / "out/passages/corpus/part-00000.parquet").to_pylist()
    assert (row["id"], row["source"], row["licence"]) == ("corpus/d-1", "encyclopedia", "MIT")
    assert (row["uri"], row["row"], row["text"]) == ("deep/a.jsonl", 0, LONG)
    assert row["tokens"] == row["loss_tokens"] > 300
    assert row["text_bytes"] == len(LONG)


def test_pieces_of_one_document_share_a_group_and_other_rows_do_not(tmp_path):
    rows = [{"text": prose(50, seed), "doc": doc} for seed, doc in ((40, "a"), (41, "a"), (42, "b"))]
    written(tmp_path / "in/a.jsonl", rows)
    _, tables, _ = prepared(tmp_path / "out", component(tmp_path / "in", columns={"id": "doc"}))
    first, second, third = tables["corpus"]["group"].to_pylist()
    assert first == second != third
    assert all(len(group) == 16 and int(group, 16) >= 0 for group in (first, third))


def test_a_manifest_seals_each_folder_and_names_what_was_kept(tmp_path):
    written(tmp_path / "in/a.jsonl", MIXED)
    manifest, tables, _ = prepared(tmp_path / "out", component(tmp_path / "in"))
    stored = json.loads((tmp_path / "out/passages/manifest.json").read_bytes())
    assert stored["counts"]["corpus.kept"] == tables["corpus"].num_rows == manifest.files[0].rows
    for folder in ("passages_read", "rejects/passages"):
        assert (tmp_path / "out" / folder / "manifest.json").is_file()


def test_many_rows_that_are_not_wanted_each_have_a_reject(tmp_path):
    rows = [{"text": f"row {number}", "tag": "b" if number else "a"} for number in range(9000)]
    written(tmp_path / "in/a.jsonl", rows)
    manifest, tables, rejects = prepared(tmp_path / "out", component(tmp_path / "in", where={"tag": "a"}))
    assert tables["corpus"]["text"].to_pylist() == ["row 0"]
    assert len({reject["offset"] for reject in rejects}) == manifest.counts["corpus.dropped.not_wanted"] == 8999


def test_a_canary_in_the_tools_of_a_conversation_is_found(tmp_path):
    guid = "b5d8c8d9-1111-4222-8333-0123456789ab"
    written(tmp_path / "exam.jsonl", [{"key": "q-1", "question": f"{prose(40, 9)} canary GUID {guid}"}])
    messages = [{"role": "assistant", "content": prose(30, 1)}]
    rows = [{"messages": messages, "tools": [{"name": "f", "description": f"# {guid.upper()}"}]}]
    written(tmp_path / "in/a.jsonl", rows)
    chats = component(tmp_path / "in", kind="messages", columns={"tools": "tools"})
    _, tables, rejects = prepared(tmp_path / "out", chats, recipe=with_benchmark(tmp_path / "exam.jsonl"))
    assert tables["corpus"].num_rows == 0
    assert [row["reason"] for row in rejects] == ["contaminated"]
