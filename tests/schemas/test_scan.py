import json
import shutil

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import ROOT
from tests.make import batch_of, trajectory
from tests.rows import line
from trajmill import schemas
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_transitions, write_parquet
from trajmill.schemas import SCHEMA_VERSION, ConfigError, ShardError, scan_transitions
from trajmill.schemas.invariants import check
from trajmill.schemas.migrations import LACKING
from trajmill.schemas.transition import VERSION_KEY, encode_schema

GOLDEN = ROOT / "tests" / "golden"


@pytest.fixture
def out(tmp_path):
    batches = [batch_of(trajectory("a", None)), batch_of(trajectory("b", native_id="u"))]
    write_parquet(Folder(str(tmp_path)), "transitions/terminal/part-00000-x.parquet", encode_schema(), batches)
    return tmp_path


@pytest.mark.parametrize(
    "place", ["", "transitions", "transitions/terminal", "transitions/terminal/part-00000-x.parquet"]
)
def test_transitions_are_scanned_from_a_run_a_stage_a_domain_or_a_file(out, place):
    frame = scan_transitions(out / place)
    assert isinstance(frame, pl.LazyFrame)
    assert frame.select(pl.col("next_observation").struct.field("content")).collect().to_series().to_list() == [
        "a",
        None,
        "b",
    ]


def test_any_parquet_reader_sees_plain_types(out):
    schema = pq.read_schema(out / "transitions/terminal/part-00000-x.parquet")
    assert schema.field("domain").type == pa.string()
    assert schema.field("observation").type.field("content").type == pa.string()
    assert schema.metadata[VERSION_KEY] == SCHEMA_VERSION.encode()


def test_nothing_to_scan_is_a_config_error(tmp_path):
    with pytest.raises(ConfigError):
        scan_transitions(tmp_path)


def test_a_file_of_another_schema_version_is_refused(out):
    file = out / "transitions/terminal/part-00000-x.parquet"
    table = pq.read_table(file)
    pq.write_table(table.replace_schema_metadata({VERSION_KEY: b"99"}), file)
    with pytest.raises(ConfigError, match="99"):
        scan_transitions(out)


def test_every_schema_version_has_a_golden_file():
    assert {f"transitions-v{version}.parquet" for version in LACKING} == {
        file.name for file in GOLDEN.glob("transitions-*.parquet")
    }


def _without(batch, lacking):
    """A batch without columns, and without fields of structs (`observation.envelope`), which stand last."""
    result = batch.drop_columns([path for path in lacking if "." not in path])
    for path in lacking:
        name, _, inner = path.partition(".")
        if inner:
            index = result.schema.get_field_index(name)
            fields = list(result[name].type.fields)
            assert fields[-1].name == inner
            children = [result[name].field(number) for number in range(len(fields) - 1)]
            column = pa.StructArray.from_arrays(children, fields=fields[:-1], mask=result[name].is_null())
            result = result.set_column(index, pa.field(name, column.type), column)
    return result


@pytest.fixture
def of_version_2(tmp_path):
    """Two files as version 2 wrote them, in which trajectories stand twice in an input, and what they held."""
    batches = [batch_of(*[trajectory("a", "b")] * 2, trajectory("c"), uri=f"log-{number}") for number in range(2)]
    for number, batch in enumerate(batches):
        older = _without(batch, LACKING["2"]).replace_schema_metadata({VERSION_KEY: b"2"})
        groups = [older.slice(start, 2) for start in range(0, 5, 2)]
        write_parquet(Folder(str(tmp_path)), f"part-0000{number}.parquet", older.schema, groups)
    return tmp_path, [row for batch in batches for row in batch.to_pylist()]


def test_rows_of_an_older_version_get_the_ids_that_the_newest_would_give_them(of_version_2):
    folder, rows = of_version_2
    wanted = [row["row_id"] for row in rows]
    assert len(set(wanted)) == 10
    assert scan_transitions(folder).collect()["row_id"].to_list() == wanted
    files = [f"part-0000{number}.parquet" for number in range(2)]
    read = [row for name in files for batch in read_transitions(Folder(str(folder)), name) for row in batch.to_pylist()]
    assert read == rows


def test_files_of_several_schema_versions_are_scanned_together(tmp_path):
    for version in LACKING:
        shutil.copy(GOLDEN / f"transitions-v{version}.parquet", tmp_path / f"part-0000{version}.parquet")
    frame = scan_transitions(tmp_path).collect()
    assert frame.columns == schemas.TRANSITION_SCHEMA.names
    assert set(frame["scrubbed"]) > {None, 0}
    observations = frame["next_observation"].to_list()
    assert {observation["envelope"] for observation in observations if observation} == {
        None,
        '{"content": [{"type": "text", "text": "y"}], "isError": false}',
    }
    assert None in observations, "a row of an older version without an observation has none"


@pytest.mark.parametrize("version", LACKING)
def test_files_of_every_schema_version_are_read_as_when_they_were_written(version, tmp_path):
    shutil.copy(GOLDEN / f"transitions-v{version}.parquet", tmp_path / "part-00000.parquet")
    rows = [
        row
        for batch in read_transitions(Folder(str(tmp_path)), "part-00000.parquet")
        for row in check(batch).to_pylist()
    ]
    assert [line(row) for row in rows] == (GOLDEN / f"transitions-v{version}.jsonl").read_text("utf-8").splitlines()
    assert json.loads(line(rows[0]))["step"] == 0
    assert scan_transitions(tmp_path).collect()["row_id"].to_list() == [row["row_id"] for row in rows]


def test_a_damaged_file_is_told_by_its_name(out):
    (file,) = (out / "transitions" / "terminal").iterdir()
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(ShardError, match=file.name):
        scan_transitions(out)
