"""The card of a dataset and its Croissant file."""

import hashlib
import json
from fnmatch import fnmatch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from trajmill.pipelines.mix.sample_columns import SAMPLE_SCHEMAS
from trajmill.pipelines.publish.card import card, example_rows
from trajmill.pipelines.publish.dataset import Config, Dataset
from trajmill.pipelines.publish.licences import licences_of, on_hub
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.units import MANIFEST, finish_stage, finish_unit, read_manifest
from trajmill.schemas.manifest import FileEntry, Manifest

HOSTILE = "```\n---\nlicense: mit\n---\n# <script>alert(1)</script>\n\u202edesrever\u202c \x1b]0;title\x07 | cell | ![x](http://h/x.png)"


@pytest.fixture(scope="module")
def told(made):
    """The card of a run, and the values of its head."""
    text = (made / "shards" / "README.md").read_text("utf-8")
    return text, yaml.safe_load(text.split("---\n")[1])


def a_dataset(folder, rows, **more):
    """A dataset of CPT alone, written here."""
    shards = Folder(str(folder))
    schema = SAMPLE_SCHEMAS["cpt"]
    (folder / "cpt" / "web").mkdir(parents=True)
    empty = dict.fromkeys(schema.names) | {"num_tokens": 3, "spans": []}
    table = pa.Table.from_pylist([empty | row for row in rows], schema=schema)
    pq.write_table(table, folder / "cpt/web/train-00000-of-00001.parquet")
    files = (FileEntry("cpt/web/train-00000-of-00001.parquet", len(rows), 9, "ab"),)
    recipe = load_recipe("web").model_copy(update=more.pop("recipe", {}))
    mixture: dict[str, dict[str, int]] = {"pools": {}, "stages": {}}
    licences = more.pop("licences", {"": len(rows)})
    return Dataset(recipe, shards, files, {"samples.cpt.web": len(rows)}, (), "0" * 64, {}, mixture, licences, **more)


def sealed(folder, name):
    manifest = read_manifest(folder, name)
    assert manifest is not None
    return manifest


def head_of(dataset):
    return yaml.safe_load(card(dataset).split("---\n")[1])


def test_the_head_is_what_the_hubs_own_library_makes_of_it(told):
    from huggingface_hub import DatasetCard

    text, values = told
    read = DatasetCard(text).data.to_dict()
    assert read.pop("pretty_name") == values["pretty_name"]
    assert {name: values[name] for name in read} == read
    assert set(values) == {*read, "pretty_name"}
    assert values["size_categories"] == ["n<1K"]
    assert [config["config_name"] for config in values["configs"]] == ["sft", "cpt", "rl", "eval"]
    assert [config.get("default", False) for config in values["configs"]] == [True, False, False, False]


def test_equal_rows_of_eval_stand_as_lines_and_as_a_table(made):
    (lines,) = (made / "shards" / "eval").glob("*.jsonl")
    (table,) = (made / "shards" / "eval").rglob("*.parquet")
    assert pq.read_table(table).to_pylist() == [json.loads(line) for line in lines.read_text("utf-8").splitlines()]


def test_a_hostile_row_ends_no_fence_and_shows_what_cannot_be_seen(tmp_path):
    text = card(a_dataset(tmp_path, [{"text": HOSTILE, "id": HOSTILE, "source": HOSTILE}]))
    fences = [line for line in text.splitlines() if line.startswith("```")]
    assert fences == ["```python", "```", "```json", "```"]
    body = text.partition("```json\n")[2].partition("\n```")[0]
    assert json.loads(body)["text"] == HOSTILE
    assert "\\u202edesrever\\u202c" in body
    assert not any(character in text for character in "\u202e\u202c\x1b\x07")
    assert text.splitlines().count("---") == 2


def test_hostile_names_of_licences_and_sources_stay_in_their_cells(tmp_path):
    recipe = {"source": "a | b\n# <img src=x>", "licence": HOSTILE}
    dataset = a_dataset(tmp_path, [{"text": "a"}], recipe=recipe, licences={HOSTILE: 1})
    text = card(dataset)
    (row,) = [line for line in text.splitlines() if line.endswith(" | 1 |") and "license: mit" in line]
    assert row.startswith("| \\`\\`\\` --- license: mit --- \\# \\<script\\>alert\\(1\\)")
    assert "<img" not in text.replace("\\<img", "")
    assert head_of(dataset)["license"] == "other"


def test_a_pool_without_rows_in_its_first_file_shows_one_of_the_next(tmp_path):
    schema = SAMPLE_SCHEMAS["cpt"]
    rows = dict.fromkeys(schema.names) | {"text": "here"}
    pq.write_table(schema.empty_table(), tmp_path / "0.parquet")
    pq.write_table(pa.Table.from_pylist([rows], schema=schema), tmp_path / "1.parquet")
    files = (FileEntry("0.parquet", 0, 1, ""), FileEntry("1.parquet", 1, 1, ""))
    config = Config("cpt", "train", "*", files, 1, 0, 0)
    assert '"text": "here"' in example_rows(Folder(str(tmp_path)), [config])["cpt"]


@pytest.mark.parametrize(
    ("licences", "values"),
    [
        ([], {"license": "unknown"}),
        ([""], {"license": "unknown"}),
        (["CC-BY-4.0"], {"license": "cc-by-4.0"}),
        (["MIT", "CC-BY-4.0", "MIT"], {"license": ["cc-by-4.0", "mit"]}),
        (["Apache-2.0 AND (MIT OR GPL-3.0-or-later)"], {"license": ["apache-2.0", "mit", "gpl-3.0"]}),
        (["ODbL-1.0", ""], {"license": ["unknown", "odbl"]}),
        (
            ["BUSL-1.1"],
            {"license": "other", "license_name": "busl-1.1", "license_link": "https://spdx.org/licenses/BUSL-1.1.html"},
        ),
        (["MIT", "LicenseRef-Own"], {"license": ["mit", "other"], "license_name": "licenseref-own"}),
        (
            ["GPL-2.0-only WITH Classpath-exception-2.0"],
            {"license": "other", "license_name": "gpl-2.0-only-with-classpath-exception-2.0"},
        ),
    ],
)
def test_licences_are_told_by_the_hubs_names(licences, values):
    assert on_hub(licences) == values


def test_the_licence_of_the_recipe_stands_in_card_and_counts(raw, tmp_path):
    recipe = load_recipe("terminal").model_copy(update={"licence": "CC-BY-4.0"})
    Run(recipe, [str(next(raw.iterdir()))], str(tmp_path / "out")).run()
    text = (tmp_path / "out" / "shards" / "README.md").read_text("utf-8")
    assert yaml.safe_load(text.split("---\n")[1])["license"] == "cc-by-4.0"
    manifest = sealed(Folder(str(tmp_path / "out" / "shards")), MANIFEST)
    assert manifest.counts["licences.CC-BY-4.0"] == sum(
        count for name, count in manifest.counts.items() if name.startswith("samples.")
    )


def licensed_rows(folder, name, rows):
    """A file of transitions of these trajectories and licences, a row group each, sealed."""
    (folder / "transitions").mkdir(parents=True, exist_ok=True)
    schema = pa.schema([("trajectory_id", pa.string()), ("provenance", pa.struct([("licence", pa.string())]))])
    with pq.ParquetWriter(folder / "transitions" / name, schema) as writer:
        for group in rows:
            licensed = [{"trajectory_id": key, "provenance": {"licence": licence}} for key, licence in group]
            writer.write_table(pa.Table.from_pylist(licensed, schema=schema))
    stage = Folder(str(folder / "transitions"))
    size = (folder / "transitions" / name).stat().st_size
    finish_unit(stage, Manifest("normalize", "a", "", "", (FileEntry(name, 0, size, ""),)))
    finish_stage(stage, "normalize", "", ["a"])


@pytest.mark.parametrize(
    ("groups", "found"),
    [
        ([[("a", "MIT"), ("b", "MIT")], [("c", "MIT")]], {"MIT": 3}),
        ([[("a", None), ("b", None), ("c", None)]], {"": 3}),
        ([[("a", "MIT"), ("b", "ISC")], [("c", None), ("d", "0BSD")]], {"": 1, "ISC": 1, "MIT": 1}),
        ([[("a", "MIT"), ("a", "ISC"), ("b", "MIT"), ("c", "MIT")]], {"ISC": 1, "MIT": 3}),
    ],
    ids=["one", "none", "of-what-is-drawn-alone", "read-under-two"],
)
def test_samples_are_counted_by_the_licence_of_their_trajectory(tmp_path, groups, found):
    licensed_rows(tmp_path, "part.parquet", groups)
    dataset = a_dataset(tmp_path / "shards", [{"trajectory_id": name} for name in "abc"])
    assert licences_of([Folder(str(tmp_path))], dataset.shards, dataset.files, 3) == found


@pytest.fixture(scope="module")
def described(made):
    return json.loads((made / "shards" / "croissant.json").read_text("utf-8"))


def fields_of(fields):
    for field in fields:
        yield field
        yield from fields_of(field.get("subField", ()))


def test_every_file_of_samples_is_there_as_it_is(made, described):
    files = {entry["@id"]: entry for entry in described["distribution"] if entry["@type"] == "cr:FileObject"}
    shards = made / "shards"
    assert set(files) == {str(path.relative_to(shards)) for path in shards.glob("*/**/*") if path.is_file()}
    for name, entry in files.items():
        data = (shards / entry["contentUrl"]).read_bytes()
        assert entry["sha256"] == hashlib.sha256(data).hexdigest(), name
        assert entry["contentSize"] == f"{len(data)} B"


def test_each_pool_is_a_set_of_records_with_the_columns_of_its_rows(made, described):
    sets = {entry["@id"]: entry for entry in described["distribution"] if entry["@type"] == "cr:FileSet"}
    assert {entry["@id"] for entry in described["recordSet"]} == set(SAMPLE_SCHEMAS)
    for records in described["recordSet"]:
        schema = SAMPLE_SCHEMAS[records["@id"]]
        assert [field["@id"] for field in records["field"]] == [f"{records['@id']}/{name}" for name in schema.names]
        for field in fields_of(records["field"]):
            if "source" in field:
                files = sets[field["source"]["fileSet"]["@id"]]
                names = [str(path.relative_to(made / "shards")) for path in (made / "shards").rglob("*.parquet")]
                assert any(fnmatch(name, files["includes"]) for name in names)
                assert field["source"]["extract"]["column"] in schema.names
                assert field["dataType"].partition(":")[0] in ("sc", "cr")
            else:
                assert field["subField"]


def test_ids_are_told_once_and_every_short_name_is_of_the_context(described):
    ids = [entry["@id"] for entry in (*described["distribution"], *described["recordSet"])]
    ids += [field["@id"] for records in described["recordSet"] for field in fields_of(records["field"])]
    assert len(ids) == len(set(ids))
    used = {key for field in fields_of(described["recordSet"][0]["field"]) for key in field}
    assert {key for key in used if not key.startswith("@")} <= {*described["@context"]}


def test_places_within_a_column_are_paths_in_its_values(described):
    fields = {field["@id"]: field for entry in described["recordSet"] for field in fields_of(entry["field"])}
    inner = fields["rl/reward_model/ground_truth"]["source"]
    assert inner["extract"] == {"column": "reward_model"}
    assert inner["transform"] == {"jsonPath": "ground_truth"}
    assert fields["sft/messages"]["isArray"]
    assert "source" not in fields["sft/messages"]
    assert fields["eval/prompt"]["isArray"]


def test_it_names_version_licence_and_no_place_of_this_machine(made, described):
    assert described["conformsTo"] == "http://mlcommons.org/croissant/1.1"
    assert described["license"] == ["unknown"]
    assert str(made) not in json.dumps(described)
