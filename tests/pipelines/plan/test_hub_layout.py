"""Published data sets as raw input: the Hub's layout, configurations and splits, licences, columns, `hf://`."""

import hashlib
import io
import json
import random
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem

from tests.conftest import ROOT
from trajmill.connectors.connector import HEAD_BYTES
from trajmill.pipelines.normalize.input_reading import read_input
from trajmill.pipelines.plan import hub_layout as hub
from trajmill.pipelines.plan.column_mapping import ColumnMapping
from trajmill.pipelines.plan.plan import make_plan
from trajmill.pipelines.plan.raw_files import gather
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.recipe_file import parse_recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.storage.paths import Place
from trajmill.schemas import ConfigError, Reject, scan_transitions

CARD = """---
license: cc-by-4.0
configs:
- config_name: default
  data_files:
  - split: train
    path: data/train-*
  - split: test
    path: data/test-*.parquet
- config_name: small
  data_files: small/*.jsonl
---
# Walks
"""
EXAMPLE = (ROOT / "docs" / "dataset-recipe.yaml").read_text("utf-8")


def episodes(first: int, count: int) -> list[dict]:
    return [
        {
            "episode_id": f"e{number}",
            "before": f"room {number}.{step} with a door to the {('north', 'east', 'south')[step]}",
            "command": f"go {('north', 'east', 'south')[step]} {number}",
            "after": f"room {number}.{step + 1}, {hashlib.sha256(f'{number}.{step}'.encode()).hexdigest()}",
            "score": 0.5,
            "goal": f"Leave house {number}.",
        }
        for number in range(first, first + count)
        for step in range(3)
    ]


def write_parquet(path: Path, rows: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=7)


@pytest.fixture
def dataset(tmp_path) -> Path:
    """A folder as the Hub lays one out: two splits of Parquet, a second configuration of JSON Lines."""
    folder = tmp_path / "hub" / "datasets" / "owner" / "walks"
    write_parquet(folder / "data" / "train-00000-of-00002.parquet", episodes(0, 12))
    write_parquet(folder / "data" / "train-00001-of-00002.parquet", episodes(12, 12))
    write_parquet(folder / "data" / "test-00000-of-00001.parquet", episodes(24, 4))
    (folder / "small").mkdir()
    (folder / "small" / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in episodes(50, 2)))
    (folder / "README.md").write_text(CARD)
    (folder / ".gitattributes").write_text("*.parquet filter=lfs\n")
    return folder


def recipe(**dataset: object) -> Recipe:
    columns = {"id": "episode_id", "observation": "before", "action": "command", "next_observation": "after"}
    mapping = {"layout": "transitions", "columns": columns, **dataset}
    return Recipe.model_validate(
        {"name": "walks", "source": "walks", "domains": ["os"], "normalize": {"dataset": mapping}}
    )


def uris(raw: object, **chosen: object) -> list[str]:
    return [log.uri for log in make_plan(recipe(**chosen), [str(raw)]).inputs]


def test_the_default_configuration_is_read_and_its_companions_are_no_inputs(dataset):
    plan = make_plan(recipe(), [str(dataset)])
    assert [log.uri for log in plan.inputs] == [
        "data/test-00000-of-00001.parquet",
        "data/train-00000-of-00002.parquet",
        "data/train-00001-of-00002.parquet",
    ]
    assert {log.connector for log in plan.inputs} == {"table"}
    assert plan.unrecognized == ()


def test_a_configuration_and_a_split_can_be_chosen(dataset):
    assert uris(dataset, config="small") == ["small/rows.jsonl"]
    assert uris(dataset, splits=["test"]) == ["data/test-00000-of-00001.parquet"]


@pytest.mark.parametrize("form", ["{}\n", "[{}]"])
def test_rows_of_which_the_first_is_longer_than_the_head_are_rows(dataset, form):
    rows = dataset / "small" / "rows.jsonl"
    first = {**episodes(50, 1)[0], "before": "a long room " * 20_000}
    first = {"before": first.pop("before"), **first}
    rows.write_text(form.format(json.dumps(first)))
    assert uris(dataset, config="small") == ["small/rows.jsonl"]


@pytest.mark.parametrize(
    ("chosen", "message"),
    [({"config": "smal"}, "'small'"), ({"splits": ["tests"]}, "'test'")],
)
def test_an_unknown_configuration_or_split_is_answered_with_the_nearest(dataset, chosen, message):
    with pytest.raises(ConfigError, match=message):
        uris(dataset, **chosen)


def test_configurations_without_a_default_have_to_be_named(dataset):
    (dataset / "README.md").write_text(CARD.replace("config_name: default", "config_name: large"))
    with pytest.raises(ConfigError, match="large"):
        uris(dataset)
    assert uris(dataset, config="small") == ["small/rows.jsonl"]


def test_of_several_default_configurations_the_first_is_taken():
    walks, runs = (hub.Config(name, True, (("train", (f"{name}/*",)),)) for name in ("walks", "runs"))
    card = hub.Card(None, (hub.Config("small", False, ()), walks, runs))
    names = ["runs/a.jsonl", "walks/a.jsonl"]
    assert hub.choose_files(names, card, "", [], "hub") == ["walks/a.jsonl"]


def test_a_configuration_whose_files_are_not_there_is_a_config_error(dataset):
    (dataset / "small" / "rows.jsonl").unlink()
    with pytest.raises(ConfigError):
        uris(dataset, config="small")


def test_a_card_cannot_name_files_outside_its_folder(dataset):
    (dataset.parent / "secret.jsonl").write_text('{"episode_id": "x"}\n')
    (dataset / "README.md").write_text(CARD.replace("small/*.jsonl", "../secret.jsonl"))
    with pytest.raises(ConfigError):
        uris(dataset, config="small")


def test_without_configurations_splits_are_told_by_names(dataset):
    (dataset / "README.md").write_text("---\nlicense: mit\n---\n")
    write_parquet(dataset / "more" / "validation.parquet", episodes(30, 1))
    assert len(uris(dataset)) == 5
    assert uris(dataset, splits=["validation"]) == ["more/validation.parquet"]
    assert uris(dataset, splits=["test"]) == ["data/test-00000-of-00001.parquet"]


@pytest.mark.parametrize(
    ("front", "licence"),
    [
        ("license: apache-2.0", "Apache-2.0"),
        ("license: other\nlicense_name: house-terms", "house-terms"),
        ("license: [mit, cc-by-4.0]", "MIT AND CC-BY-4.0"),
        ("license: unknown", None),
        ("tags: [x]", None),
    ],
)
def test_the_licence_is_read_from_the_card(front, licence):
    card = hub.read_card(f"---\n{front}\n---\ntext".encode())
    assert card is not None
    assert card.licence == licence


@pytest.mark.parametrize(
    "front", ["# Walks\n---\na: b", "---\n- a", "---\na: [", "", "---\n\x00", "---\na: 2024-13-45"]
)
def test_a_readme_that_is_no_card_makes_no_data_set(front):
    assert hub.read_card(f"{front}\n---\n".encode()) is None


@pytest.mark.parametrize(("size", "licence"), [(4 * 1024 * 1024, "MIT"), (4 * 1024 * 1024 + 1, None)])
def test_a_card_whose_front_ends_behind_4_mebibytes_is_none(dataset, size, licence):
    (dataset / "README.md").write_text("---\nlicense: mit\n---\n".rjust(size + 1, "\n"))
    assert {file.licence for file in gather([str(dataset)])} == {licence}


def test_the_licence_of_the_card_stands_in_every_row_unless_the_recipe_states_one(dataset):
    first = make_plan(recipe(), [str(dataset)]).inputs[0]
    assert first.licence == "CC-BY-4.0"
    assert {origin.licence for _, origin in read_input(first, recipe())} == {"CC-BY-4.0"}
    stated = recipe().model_copy(update={"licence": "MIT"})
    assert {origin.licence for _, origin in read_input(first, stated)} == {"MIT"}


def test_what_save_to_disk_leaves_is_read_split_by_split(tmp_path):
    table = pa.Table.from_pylist(episodes(0, 2))
    for split in ("train", "held"):
        folder = tmp_path / "saved" / split
        folder.mkdir(parents=True)
        with pa.ipc.new_stream(str(folder / "data-00000-of-00001.arrow"), table.schema) as writer:
            writer.write_table(table)
        (folder / "dataset_info.json").write_text(json.dumps({"license": "mit"}))
        (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}))
    (tmp_path / "saved" / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "held"]}))
    assert uris(tmp_path / "saved") == ["held/data-00000-of-00001.arrow", "train/data-00000-of-00001.arrow"]
    assert uris(tmp_path / "saved", splits=["held"]) == ["held/data-00000-of-00001.arrow"]
    plan = make_plan(recipe(), [str(tmp_path / "saved" / "train")])
    assert [log.licence for log in plan.inputs] == ["MIT"]
    (tmp_path / "saved" / "train" / "dataset_info.json").write_text("{")
    assert [log.licence for log in make_plan(recipe(), [str(tmp_path / "saved" / "train")]).inputs] == [None]
    assert len(list(read_input(plan.inputs[0], recipe()))) == 2


def test_a_column_that_is_not_there_is_answered_with_the_nearest_before_anything_is_read(dataset):
    with pytest.raises(ConfigError, match="'command'"):
        uris(dataset, columns={"id": "episode_id", "observation": "before", "action": "comand"})
    with pytest.raises(ConfigError, match="'before'"):
        uris(dataset, config="small", columns={"id": "episode_id", "observation": "befor", "action": "command"})


def test_a_field_of_a_step_that_is_not_there_is_answered_with_the_nearest(tmp_path):
    write_parquet(tmp_path / "a.parquet", [{"trace": [{"observation": "x", "act": "y"}]}])
    columns = {"steps": "trace", "observation": "observation", "action": "action"}
    with pytest.raises(ConfigError, match="'action'"):
        uris(tmp_path, layout="steps", columns=columns)
    assert uris(tmp_path, layout="steps", columns={**columns, "action": "act"}) == ["a.parquet"]


def test_a_column_that_a_later_row_alone_has_is_there(tmp_path):
    (tmp_path / "rows.jsonl").write_text(json.dumps({"said": "a" * 99}) + "\n" + json.dumps({"act": "b"}) + "\n")
    columns = {"id": "said", "observation": "said", "action": "act"}
    assert uris(tmp_path, columns=columns) == ["rows.jsonl"]
    with pytest.raises(ConfigError, match="'act'"):
        uris(tmp_path, columns={**columns, "action": "acts"})


@pytest.mark.parametrize(("begin", "is_seen"), [(16 * 1024 * 1024 - 1, True), (16 * 1024 * 1024, False)])
def test_columns_are_told_by_rows_that_begin_in_the_first_16_mebibytes(tmp_path, begin, is_seen):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"said": "a" * (begin - len('{"said": ""}\n'))}) + '\n{"act": "b"}\n')
    asked = ColumnMapping(recipe(columns={"id": "said", "observation": "said", "action": "act"}))
    with nullcontext() if is_seen else pytest.raises(ConfigError):
        asked("rows.jsonl", Place(str(path)), path.read_bytes()[:HEAD_BYTES])


def test_fields_are_looked_for_four_names_deep_and_deeper_ones_are_taken_as_they_are(tmp_path):
    (tmp_path / "rows.jsonl").write_text(json.dumps({"o": "x", "a": {"b": {"c": {"d": {"e": "y"}}}}}) + "\n")
    assert uris(tmp_path, columns={"id": "o", "observation": "o", "action": "a.b.c.d.f"}) == ["rows.jsonl"]
    with pytest.raises(ConfigError, match=r"'a\.b\.c\.d'"):
        uris(tmp_path, columns={"id": "o", "observation": "o", "action": "a.b.c.f"})


def test_only_tables_that_the_recipe_speaks_of_are_compared_with_it(dataset):
    write_parquet(dataset / "extra" / "ids.parquet", [{"height": 1}])
    (dataset / "README.md").write_text("---\nlicense: mit\n---\n")
    with pytest.raises(ConfigError, match="height"):
        uris(dataset)
    plan = make_plan(recipe(files="data/*"), [str(dataset)])
    assert {log.why for log in plan.inputs if log.uri.startswith("data/")} == {
        "the recipe maps the columns of parquet tables"
    }


def test_a_compressed_table_and_one_in_an_archive_are_read_too(tmp_path):
    import gzip
    import zipfile

    stream = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(episodes(0, 2)), stream)
    (tmp_path / "a.parquet.gz").write_bytes(gzip.compress(stream.getvalue()))
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        archive.writestr("deep/b.parquet", stream.getvalue())
    plan = make_plan(recipe(), [str(tmp_path)])
    assert [log.uri for log in plan.inputs] == ["a.parquet.gz", "b.zip/deep/b.parquet"]
    for log in plan.inputs:
        records = [record for record, _ in read_input(log, recipe())]
        assert len(records) == 2
        assert not any(isinstance(record, Reject) for record in records)


@pytest.fixture
def hf(tmp_path, monkeypatch):
    """`hf://` served from a folder: what the Hub's own file system does, without the Hub."""

    class Hub(DirFileSystem):
        protocol = "hf"
        cachable = False

        def __init__(self, **_: object) -> None:
            super().__init__(path=str(tmp_path / "hub"), fs=LocalFileSystem())

    monkeypatch.setitem(import_module("fsspec.registry")._registry, "hf", Hub)


@pytest.mark.parametrize("raw", ["hf://owner/walks", "hf://datasets/owner/walks", "hf://owner/walks/data"])
def test_a_data_set_of_the_hub_is_named_by_owner_and_name(dataset, hf, raw):
    plan = make_plan(recipe(splits=["train"]), [raw])
    assert [log.uri for log in plan.inputs] == [
        "owner/walks/data/train-00000-of-00002.parquet",
        "owner/walks/data/train-00001-of-00002.parquet",
    ]
    assert plan.inputs[0].members == {"": Place("hf://datasets/owner/walks/data/train-00000-of-00002.parquet")}
    assert {log.licence for log in plan.inputs} == {"CC-BY-4.0"}
    assert len([record for record, _ in read_input(plan.inputs[0], recipe())]) == 12


def test_a_data_set_that_the_hub_does_not_have_is_a_config_error(dataset, hf):
    with pytest.raises(ConfigError, match="hf://datasets/owner/runs"):
        make_plan(recipe(), ["hf://owner/runs"])
    with pytest.raises(ConfigError):
        make_plan(recipe(), ["hf://owner"])


@pytest.mark.parametrize("error", ["HTTPError", "OSError"])
def test_a_hub_that_does_not_answer_is_a_config_error(monkeypatch, error):
    from huggingface_hub import HfFileSystem, errors

    def fail(*_: object, **__: object) -> bool:
        raise getattr(errors, error, OSError)("no route")

    monkeypatch.setattr(HfFileSystem, "exists", fail)
    with pytest.raises(ConfigError):
        make_plan(recipe(), ["hf://owner/walks"])


def shards_of(out: Path) -> dict[str, str]:
    files = sorted(path for path in (out / "shards").rglob("*") if path.is_file())
    return {str(path.relative_to(out / "shards")): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_example_of_the_pages_runs_and_shuffled_inputs_give_the_same_bytes(dataset, tmp_path):
    example = parse_recipe(EXAMPLE, "docs/dataset-recipe.yaml")
    Run(example, [str(dataset)], str(tmp_path / "whole")).run()
    names = [str(path) for path in (dataset / "data").iterdir()]
    random.Random(3).shuffle(names)
    licensed = example.model_copy(update={"licence": "CC-BY-4.0"})
    Run(licensed, [str(path) for path in names if "train" in path], str(tmp_path / "one")).run()
    Run(licensed, [str(path) for path in reversed(names) if "train" in path], str(tmp_path / "two")).run()
    assert shards_of(tmp_path / "one") == shards_of(tmp_path / "two")
    rows = scan_transitions(str(tmp_path / "whole")).collect()
    assert rows.height == 24 * 3
    provenance = rows["provenance"].struct
    assert set(provenance.field("licence")) == {"CC-BY-4.0"}
    assert set(provenance.field("uri")) == {f"data/train-0000{number}-of-00002.parquet" for number in (0, 1)}
    assert sorted(provenance.field("offset")) == sorted([*range(36)] * 2)
    assert set(rows["task"].struct.field("instruction")) == {f"Leave house {number}." for number in range(24)}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("layout: steps", "columns.steps"),
        ("layout: transitions\n    columns: {id: a, action: b}", "columns.observation"),
        ("columns: {id: a}", "layout"),
        ("layout: messages\n    columns: {messages: a, steps: b}", "columns.steps"),
        ("layout: log\n    columns: {content: a}", "format"),
        ("layout: log\n    format: asciicat\n    columns: {content: a}", "'asciicat'"),
        ("layout: mesages\n    columns: {messages: a}", "'messages'"),
        ("layout: messages\n    columns: {mesages: a}", "'messages'"),
        ("laout: messages", "'layout'"),
        ("layout: messages\n    kind: model\n    columns: {messages: a}", "world_model"),
        ("kind: model\n    world_model: m\n    sampling: {}", "name@revision"),
        ("layout: messages\n    columns: {messages: a}", "domain"),
        ("domain: web\n    layout: messages\n    columns: {messages: a}", "domain"),
    ],
)
def test_a_mapping_that_cannot_be_meant_is_refused_at_launch(values, message):
    text = f"name: a\nsource: a\ndomains: [swe, os]\nnormalize:\n  dataset:\n    {values}\n"
    with pytest.raises(ConfigError, match=message):
        parse_recipe(text, "recipe")
