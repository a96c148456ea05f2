"""What pages read of a run: its trajectories, why they were kept, what they are trained on, who is a copy of whom."""

from dataclasses import replace
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.app.pages.made_runs import NAME, made_rejects, made_run, made_shard, there
from tests.conftest import ROOT
from tests.make import trajectory
from trajmill.app.pages.contents import RunContents
from trajmill.app.pages.copies import clusters, find_copies, side_by_side
from trajmill.app.pages.index import facet_counts, filter_index
from trajmill.app.pages.loss_runs import Run, runs, sample_at, sample_counts, samples_of
from trajmill.app.pages.opening import open_contents
from trajmill.app.pages.text_search import search_text
from trajmill.app.pages.why import bounds
from trajmill.app.viewer.pages import preview, view_of
from trajmill.schemas import ConfigError, Environment, Observation, Reject, ShardError, Task


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """A run of four trajectories: one is kept, of one the last row is context, one is a near copy, one an equal one."""
    folder = tmp_path_factory.mktemp("looked") / "out"
    tasks = [Task("a", "Sort the Grüße"), Task("b", "count lines"), Task("a", "Sort the Grüße"), None]
    seen = [("one", "two", "three"), ("x", "x"), ("one", "two", "four"), ("one", "two", "three")]
    trajectories = [
        replace(trajectory(*texts, native_id=f"t{number}"), task=task, environment=Environment("box", "box-1"))
        if task
        else trajectory(*texts, native_id=f"t{number}")
        for number, (texts, task) in enumerate(zip(seen, tasks, strict=True))
    ]
    keys = made_run(folder, trajectories, [None, "loop", "near_duplicate", "duplicate_trajectory"], "terminal")
    ids = [key.partition("-")[0] for key in keys]
    named = [
        Reject(
            "trajectory", reason, f"nearly equal to one of trajectory {ids[0][:16]}…", "log", trajectory_id=ids[number]
        )
        for number, reason in ((2, "near_duplicate"), (3, "duplicate_trajectory"))
    ]
    broke = Reject("transition", "loop", "said thrice, by the recipe's rule", "log", trajectory_id=ids[1], step=1)
    made_rejects(folder, "judge", [*named, broke])
    made_rejects(folder, "normalize", [Reject("record", "truncated", "it ends", "log", offset=3, excerpt="{half")])
    message = {"role": "assistant", "content": "Seen: one", "loss": True}
    rows = [
        {"id": ids[0], "trajectory_id": ids[0], "messages": [{"role": "user", "content": "do", "loss": None}, message],
         "spans": [{"message": 1, "begin": 6, "end": 9, "label": "new"}]}
    ]  # fmt: skip
    made_shard(folder, "sft", "terminal", rows)
    made_shard(
        folder, "eval", "terminal", [{"sample_id": "s:0", "trajectory_id": ids[1], "prompt": ["p"], "response": ["r"]}]
    )
    return folder


def test_trajectories_with_placeholders_are_chosen_whichever_row_holds_them(tmp_path):
    made_run(
        tmp_path, [trajectory(*"abc", native_id="t0"), trajectory(*"de", native_id="t1")], [None, None], "terminal"
    )
    (file,) = tmp_path.glob("transitions/*/*.parquet")
    table = pq.read_table(file)
    column = table.schema.get_field_index("scrubbed")
    changed = table.set_column(column, table.schema.field(column), pa.array([0, 0, 0, 0, 2], pa.int32()))
    pq.write_table(changed, file)
    index = RunContents(str(tmp_path)).index
    assert index["placeholders"].to_list() == [0, 2]
    assert filter_index(index, {"placeholders": "some"})["native_id"].to_list() == ["t1"]
    assert dict(facet_counts(index, {})["placeholders"]) == {"none": 1, "some": 1}


def test_a_trajectory_is_found_by_what_is_chosen_and_by_text_in_any_case(out):
    index = RunContents(str(out)).index
    assert filter_index(index, {"fate": "dropped"})["native_id"].to_list() == ["t2", "t3"]
    assert filter_index(index, {"task": "a", "reason": ""})["native_id"].to_list() == ["t0"]
    assert filter_index(index, {"environment": ""})["native_id"].to_list() == ["t3"]
    assert filter_index(index, {}, "GRÜSSE").is_empty()
    assert filter_index(index, {}, "GRÜße")["native_id"].to_list() == ["t0", "t2"]
    assert filter_index(index, {}, "(.*").is_empty()
    assert filter_index(index, {"pool": "no pool (dropped)"})["native_id"].to_list() == ["t2", "t3"]
    assert dict(facet_counts(index, {})["pool"]) == {"no pool (dropped)": 2, "": 2}
    assert index["reason"].to_list() == [[], ["loop"], ["near_duplicate"], ["duplicate_trajectory"]]


def test_verdicts_of_other_transitions_are_refused(out, tmp_path):
    made_run(tmp_path, [trajectory("a", "b", "c")], [None], "terminal")
    file = tmp_path / "verdicts/terminal" / f"{NAME}.parquet"
    file.write_bytes((out / "verdicts/terminal" / f"{NAME}.parquet").read_bytes())
    with pytest.raises(ShardError):
        assert RunContents(str(tmp_path)).index is None


def test_the_rule_that_spoke_stands_first_with_its_value_and_its_bound(out):
    contents = RunContents(str(out))
    entry = contents.index.row(1, named=True)
    verdict = contents.rows.verdict(entry["file"], entry["first"] + 1)
    first, second = bounds(there(verdict), contents.rules, "terminal")
    assert (first.rule, first.value, first.most, first.passes, first.speaks) == ("loop", 0.75, 0.5, False, True)
    assert first.said == "said thrice"
    assert (second.rule, second.signal, second.value) == ("", "turns", 2.0)
    outline = contents.rows.outline(entry["file"], entry["first"], 2)
    uses = [(row["step"], row["use"], row["reason"]) for row in outline]
    assert uses == [(0, "target", None), (1, "context", "loop")]


def test_the_outline_names_the_element_that_was_clicked(tmp_path):
    screen = Observation('#1 window "Home"\n  #4 button "Cost: $1" [0,0][9,9]', form="screen", dialect="uitree/1")
    log = trajectory("x", "x", domain="android")
    texts = [f'{{"name": "click", "arguments": {{"element": "{mark}"}}}}' for mark in ("#4", "#7")]
    steps = [
        replace(step, observation=screen, action=replace(step.action, text=text))
        for step, text in zip(log.steps, texts, strict=True)
    ]
    made_run(tmp_path, [replace(log, steps=steps)], [None], "android")
    outline = [row["text"] for row in RunContents(str(tmp_path)).rows.outline(0, 0, 2)]
    assert outline == ['{"name": "click", "arguments": {"Cost: $1"}}', texts[1]]


def test_runs_cover_the_text_whatever_spans_say():
    spans: list[dict[str, Any]] = [{"begin": 4, "end": 99, "label": "new"}, {"begin": 1, "end": 2, "label": None}]
    assert runs("abcdef", spans) == [Run("a", False), Run("b", True), Run("cd", False), Run("ef", True, "new")]
    over: list[dict[str, Any]] = [{"begin": 0, "end": 4, "label": "frame"}, {"begin": 2, "end": 5, "label": "new"}]
    assert "".join(run.text for run in runs("abcdef", over)) == "abcdef"


def test_samples_are_found_by_their_trajectory(out):
    files = there(RunContents(str(out)).files)
    assert sample_counts(files) == {("eval", "terminal"): 1, ("sft", "terminal"): 1}
    index = RunContents(str(out)).index
    assert samples_of(files, index["trajectory_id"][0], "terminal") == [("sft", "terminal", 0)]
    assert samples_of(files, index["trajectory_id"][1], "terminal") == [("eval", "terminal", 0)]
    sample = sample_at(files, "sft", "terminal", 0)
    assert [list(message.runs) for message in there(sample).messages] == [
        [Run("do", False)],
        [Run("Seen: ", False), Run("one", True, "new")],
    ]
    assert sample_at(files, "sft", "terminal", 1) is None
    assert sample_at(files, "..", "terminal", 0) is None


def test_what_was_not_drawn_is_shown_as_it_would_be(out):
    contents = RunContents(str(out))
    entry = contents.index.row(2, named=True)
    rows = [row | {"use": "target"} for row in contents.rows.whole(entry["file"], entry["first"], entry["steps"])]
    sample = preview(rows, view_of(contents.files))
    assert [message.role for message in sample.messages] == ["user", "assistant"] * 3
    assert sample.messages[-1].runs[-1].text.endswith("four")
    assert all(message.bears_loss == (message.role == "assistant") for message in sample.messages)
    blind = preview([rows[0] | {"next_observation": None}, rows[1]], view_of(None))
    assert [message.role for message in blind.messages] == ["user", "assistant"]


def test_copies_stand_beside_their_keeper_with_what_differs(out):
    contents = RunContents(str(out))
    copies = find_copies(contents.index, contents.rejects)
    assert copies["native_id"].to_list() == ["t2", "t3"]
    keeper = contents.index["key"][0]
    assert clusters(copies).rows() == [(keeper, 1, 1)]
    rows = [
        contents.rows.whole(entry["file"], entry["first"], entry["steps"])
        for entry in contents.index.head(3).to_dicts()
    ]
    equal, last = side_by_side(rows[0], rows[2])
    assert (equal.kind, len(equal.left)) == ("equal", 2)
    assert [(there(left).kind, there(right).kind) for left, right in last.answer] == [("gone", "new")]
    assert last.action == []
    assert [part.kind for part in side_by_side(rows[0], rows[0])] == ["equal"]


def test_a_text_is_found_in_every_step_and_a_search_that_rests_goes_on(out):
    files = there(RunContents(str(out)).files).judged
    result = search_text(files, "THREE")
    assert [(hit.step, hit.where, hit.text) for hit in result.hits] == [(2, "after", "three")] * 2
    assert result.next is None
    rested = search_text(files, "three", seconds=-1)
    assert rested.next == (0, 0)
    assert len(search_text(files, "three", rested.next).hits) == 2


def test_a_raw_log_is_read_as_a_run_would_read_it(tmp_path):
    log = sorted((ROOT / "samples" / "terminal" / "asciicast").glob("*.cast"))[0]
    contents = open_contents(str(log))
    assert contents.files is None
    assert contents.index["connector"].to_list() == ["asciicast"]
    entry = contents.index.row(0, named=True)
    row = contents.rows.whole(entry["file"], entry["first"], 1)[0]
    assert contents.rows.verdict(entry["file"], entry["first"]) is None
    provenance = row["provenance"]
    excerpt = there(contents.places.at(provenance["uri"], provenance["member"], provenance["offset"]))
    data = log.read_bytes()
    assert excerpt.at == data[provenance["offset"] : data.index(b"\n", provenance["offset"])]
    nothing = tmp_path / "nothing.txt"
    nothing.write_text("no log at all")
    for path in (nothing, tmp_path / "missing"):
        with pytest.raises(ConfigError):
            open_contents(str(path))


def test_samples_that_stand_as_tables_and_as_lines_count_once(tmp_path):
    made_run(tmp_path, [trajectory("one")], [None], "terminal")
    made_shard(tmp_path, "eval", "terminal", [{"sample_id": "s:0", "prompt": ["p"], "response": ["r"]}])
    table = tmp_path / "shards/eval/terminal/test-00000-of-00001.parquet"
    table.parent.mkdir()
    pl.DataFrame({"sample_id": ["s:0"], "prompt": [["p"]], "response": [["r"]]}).write_parquet(table)
    assert sample_counts(there(RunContents(str(tmp_path)).files)) == {("eval", "terminal"): 1}
