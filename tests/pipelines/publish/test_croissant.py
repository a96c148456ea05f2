"""The Croissant description: every file with its digest, every column with its place, none that leads nowhere."""

import hashlib
import json
from fnmatch import fnmatch

import pytest

from trajmill.pipelines.mix.sample_columns import SAMPLE_SCHEMAS


@pytest.fixture(scope="module")
def described(made):
    return json.loads((made / "shards" / "croissant.json").read_text("utf-8"))


def fields_of(fields):
    for field in fields:
        yield field
        yield from fields_of(field.get("subField", ()))


def test_every_file_of_samples_is_there_as_it_is(made, described):
    files = {one["@id"]: one for one in described["distribution"] if one["@type"] == "cr:FileObject"}
    shards = made / "shards"
    assert set(files) == {str(path.relative_to(shards)) for path in shards.glob("*/**/*") if path.is_file()}
    for name, one in files.items():
        data = (shards / one["contentUrl"]).read_bytes()
        assert one["sha256"] == hashlib.sha256(data).hexdigest(), name
        assert one["contentSize"] == f"{len(data)} B"


def test_each_pool_is_a_set_of_records_with_the_columns_of_its_rows(made, described):
    sets = {one["@id"]: one for one in described["distribution"] if one["@type"] == "cr:FileSet"}
    assert {one["@id"] for one in described["recordSet"]} == set(SAMPLE_SCHEMAS)
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
    ids = [one["@id"] for one in (*described["distribution"], *described["recordSet"])]
    ids += [field["@id"] for records in described["recordSet"] for field in fields_of(records["field"])]
    assert len(ids) == len(set(ids))
    used = {key for one in fields_of(described["recordSet"][0]["field"]) for key in one}
    assert {key for key in used if not key.startswith("@")} <= {*described["@context"]}


def test_places_within_a_column_are_paths_in_its_values(described):
    fields = {field["@id"]: field for one in described["recordSet"] for field in fields_of(one["field"])}
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
