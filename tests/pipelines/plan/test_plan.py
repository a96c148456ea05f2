import gzip
import random
from dataclasses import replace
from itertools import zip_longest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajmill.connectors.connector import FileSlice
from trajmill.pipelines.plan import plan as planning
from trajmill.pipelines.plan.plan import Plan, bin_inputs, make_plan
from trajmill.pipelines.plan.raw_files import gather
from trajmill.pipelines.plan.recognition import Input
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.storage.paths import Place
from trajmill.schemas import ConfigError

RECIPE = Recipe(name="t", source="t")
CAST = b"""{"version": 2, "width": 80, "height": 24}
[0.1, "o", "$ "]
[0.2, "i", "ls\\r"]
[0.3, "o", "ls\\r\\na\\r\\n$ "]
"""


@pytest.fixture
def raw(tmp_path):
    for name in ("b/one.cast", "a/two.cast", "three.cast"):
        path = tmp_path / "raw" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(CAST + f'[0.{len(name)}, "o", "{name}"]\n'.encode())
    (tmp_path / "raw" / "a" / "packed.cast.gz").write_bytes(gzip.compress(CAST))
    (tmp_path / "raw" / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (tmp_path / "raw" / "nothing.cast").touch()
    (tmp_path / "raw" / ".DS_Store").write_bytes(CAST)
    return tmp_path / "raw"


def test_a_folder_is_read_to_its_depth_and_every_file_is_accounted_for(raw):
    plan = make_plan(RECIPE, [str(raw)])
    assert [log.uri for log in plan.inputs] == ["a/packed.cast.gz", "a/two.cast", "b/one.cast", "three.cast"]
    assert {log.connector for log in plan.inputs} == {"asciicast"}
    assert [(reject.uri, reject.reason) for reject in plan.unrecognized] == [
        ("nothing.cast", "empty"),
        ("photo.png", "unrecognized"),
    ]


def test_the_plan_does_not_depend_on_the_order_of_what_is_named(raw):
    names = [str(path) for path in raw.rglob("*") if path.is_file() and path.name != ".DS_Store"]
    plans = set()
    for seed in range(4):
        random.Random(seed).shuffle(names)
        plans.add(make_plan(RECIPE, names, part_bytes=150).to_json())
    assert len(plans) == 1


def test_logs_in_hidden_folders_are_read(raw):
    (raw / ".agent").mkdir()
    (raw / ".agent" / "log.cast").write_bytes(CAST)
    assert ".agent/log.cast" in [log.uri for log in make_plan(RECIPE, [str(raw)]).inputs]


def test_a_glob_names_files_relative_to_the_folder_above_it(raw):
    plan = make_plan(RECIPE, [f"{raw}/*/*.cast"])
    assert [log.uri for log in plan.inputs] == ["a/two.cast", "b/one.cast"]


def test_a_single_file_is_named_by_itself(raw):
    assert [log.uri for log in make_plan(RECIPE, [str(raw / "three.cast")]).inputs] == ["three.cast"]


def test_a_file_named_twice_is_read_once(raw):
    assert len(gather([str(raw), str(raw / "a"), f"{raw}/*.cast"])) == len(gather([str(raw)]))


def names_below(*roots):
    for root in roots:
        root.mkdir(parents=True)
        (root / "a.cast").write_bytes(CAST)
    names = {tuple(file.name for file in gather([str(root) for root in order])) for order in (roots, roots[::-1])}
    assert len(names) == 1
    return list(names.pop())


def test_files_of_one_name_in_two_roots_are_told_apart_by_the_names_of_the_roots_alone(tmp_path):
    assert names_below(tmp_path / "x" / "mon", tmp_path / "y" / "tue") == ["mon/a.cast", "tue/a.cast"]


def test_roots_of_one_name_are_numbered(tmp_path):
    assert names_below(tmp_path / "x" / "logs", tmp_path / "y" / "logs") == ["1/a.cast", "2/a.cast"]


def test_the_name_of_a_home_stands_in_no_uri(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "ada"))
    assert names_below(tmp_path / "ada", tmp_path / "logs") == ["1/a.cast", "2/a.cast"]


def test_a_name_that_a_root_gives_may_not_be_that_of_another_file(tmp_path):
    (tmp_path / "z" / "mon").mkdir(parents=True)
    (tmp_path / "z" / "mon" / "a.cast").write_bytes(CAST)
    (tmp_path / "x" / "mon").mkdir(parents=True)
    (tmp_path / "x" / "mon" / "a.cast").write_bytes(CAST)
    (tmp_path / "y").mkdir()
    (tmp_path / "y" / "a.cast").write_bytes(CAST)
    names = [file.name for file in gather([str(tmp_path / name) for name in ("z", "x/mon", "y")])]
    assert names == ["1/a.cast", "2/a.cast", "3/mon/a.cast"]


def test_nothing_at_a_path_is_a_config_error(tmp_path):
    with pytest.raises(ConfigError):
        make_plan(RECIPE, [str(tmp_path / "nowhere")])
    with pytest.raises(ConfigError):
        make_plan(RECIPE, [f"{tmp_path}/*.cast"])


@given(st.lists(st.integers(1, 9), max_size=30), st.integers(1, 20), st.integers(1, 4))
def test_a_part_holds_as_many_inputs_as_its_bytes_and_their_number_allow(sizes, part_bytes, most):
    inputs = [
        Input(f"{number:03}", "asciicast", "1", "", {"a": Place("a")}, size, "s") for number, size in enumerate(sizes)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "PART_INPUTS", most)
        parts = [[log.bytes for log in part.inputs] for part in bin_inputs(inputs, RECIPE, part_bytes)]
    assert [size for part in parts for size in part] == sizes
    for part, after in zip_longest(parts, parts[1:]):
        assert part
        assert len(part) == 1 or sum(part) <= part_bytes
        assert len(part) <= most
        assert after is None or len(part) == most or sum(part) + after[0] > part_bytes


def test_what_is_compressed_is_weighed_by_what_it_may_come_to():
    inputs = [Input(name, "asciicast", "1", "", {"a": Place(name)}, 10, "s") for name in ("a.cast", "b.cast.gz")]
    assert [len(bin_inputs(inputs, RECIPE, part_bytes).pop().inputs) for part_bytes in (89, 90)] == [1, 2]


def test_parts_that_hold_other_slices_of_one_file_have_other_digests():
    whole = Input("rows.jsonl", "table", "1", "", {"": Place("rows.jsonl")}, 10, "s")
    slices = [replace(whole, file_slice=FileSlice(begin, begin + 10)) for begin in (10, 20)]
    assert len({bin_inputs([log], RECIPE)[0].digest for log in (whole, *slices)}) == 3


@pytest.mark.parametrize("one_by_one", [False, True])
def test_the_files_of_one_log_stay_together_where_some_share_their_names_with_those_of_another(tmp_path, one_by_one):
    for run, screen in (("mon", "step_1_0800.xml"), ("tue", "step_1_0900.xml")):
        (tmp_path / run).mkdir()
        (tmp_path / run / "traj.jsonl").write_text('{"step_num": 1, "action_timestamp": "t", "action": "DONE"}\n')
        (tmp_path / run / screen).write_text("<desktop-frame/>")
    named = tmp_path.glob("*/*") if one_by_one else tmp_path.glob("*")
    plan = make_plan(RECIPE, [str(path) for path in named])
    assert [(log.uri, list(log.members)) for log in plan.inputs] == [
        ("mon", ["step_1_0800.xml", "traj.jsonl"]),
        ("tue", ["step_1_0900.xml", "traj.jsonl"]),
    ]


def test_a_part_is_named_by_its_inputs_and_the_recipe(raw):
    def name(recipe):
        return make_plan(recipe, [str(raw)]).parts[0].name

    assert name(RECIPE) == name(RECIPE)
    assert name(RECIPE) != name(Recipe(name="t", source="other"))
    assert name(RECIPE) == name(Recipe.model_validate({"name": "t", "source": "t", "mix": {"seed": 3}}))


def test_the_plan_notices_that_a_raw_file_changed(raw):
    before = make_plan(RECIPE, [str(raw)]).digest
    (raw / "three.cast").write_bytes(CAST)
    assert make_plan(RECIPE, [str(raw)]).digest != before


def test_a_limit_takes_the_first_inputs_by_name(raw):
    plan = make_plan(RECIPE, [str(raw)], limit=2)
    assert [log.uri for log in plan.inputs] == ["a/packed.cast.gz", "a/two.cast"]
    assert make_plan(RECIPE, [str(raw)]).opened
    assert not plan.opened


def test_a_plan_survives_the_way_through_its_file(raw):
    plan = make_plan(RECIPE, [str(raw)])
    assert Plan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize("evaluation", ["run/logs/x__y-1", "run/x__y-1"])
def test_a_report_judges_its_patch_also_where_a_trajectory_is_judged_by_it(tmp_path, evaluation):
    files = {
        "run/x__y-1/x__y-1.traj": '{"trajectory": [{"action": "ls", "observation": "a", "thought": "", "state": ""}]}',
        f"{evaluation}/report.json": '{"x__y-1": {"patch_successfully_applied": true, "resolved": true}}',
        f"{evaluation}/patch.diff": "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n",
        "alone/x__y-2.traj": '{"trajectory": [{"action": "ls", "observation": "a", "thought": "", "state": ""}]}',
        "alone/logs/x__y-2/report.json": '{"x__y-2": {"patch_successfully_applied": true, "resolved": false}}',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    plan = make_plan(RECIPE, [str(tmp_path)])
    assert plan.unrecognized == ()
    inputs = {(log.connector, tuple(sorted(member.name for member in log.members.values()))) for log in plan.inputs}
    assert inputs == {
        ("sweagent", ("report.json", "x__y-1.traj")),
        ("swebench_eval", ("patch.diff", "report.json", "x__y-1.traj")),
        ("sweagent", ("report.json", "x__y-2.traj")),
    }


def test_a_folder_of_many_trials_is_many_inputs_of_as_many_parts_as_their_bytes_ask_for(tmp_path):
    folder = tmp_path / "run"
    traj = '{"trajectory": [{"action": "ls", "observation": "%s", "thought": "", "state": ""}]}' % ("a" * 1000)
    for number in range(6):
        for name in (f"x__y-{number}/x__y-{number}.traj", f"logs/x__y-{number}/report.json"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(traj if name.endswith(".traj") else '{"resolved": true}' + " " * 5000)
    (folder / "results.json").write_text('{"resolved_ids": ["x__y-1"]}' + " " * 50_000)
    plan = make_plan(RECIPE, [str(folder)], part_bytes=2500)
    assert [log.uri for log in plan.inputs] == [f"x__y-{number}/x__y-{number}.traj" for number in range(6)]
    assert [len(part.inputs) for part in plan.parts] == [2, 2, 2]
    assert {tuple(log.members)[1:] for log in plan.inputs} == {
        ("results.json", f"x__y-{n}/x__y-{n}.traj") for n in range(6)
    }
    assert {log.bytes for log in plan.inputs} == {len(traj)}, "what is shared is weighed with none"
    assert plan.unrecognized == ()
