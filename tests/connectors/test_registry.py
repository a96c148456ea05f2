import io
import pickle
import sqlite3
from collections.abc import Callable

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.conftest import ROOT
from trajmill.connectors.connector import HEAD_BYTES
from trajmill.connectors.registry import connectors, joining, sniff

FIXTURES = ROOT / "tests" / "fixtures"


def test_what_joins_the_files_of_a_fixture_is_asked_to():
    asked = 0
    for folder in sorted(path for path in FIXTURES.glob("*/*/*") if path.is_dir()):
        paths = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        for some in (paths, [f"deep/er/{path}" for path in paths]):
            could = {one.name for one in joining(connectors(), some)}
            for name, one in connectors().items():
                logs = list(one.join(some))
                asked += len(logs)
                assert not logs or name in could, (folder, name)
                for log in logs:
                    own = sorted(log.members.values())
                    assert name in {one.name for one in joining(connectors(), own)}, "each log holds such a file"
    assert asked > 100


def test_connectors_are_the_same_in_another_process():
    assert pickle.loads(pickle.dumps(connectors())) is connectors()


def in_parquet(rows: pa.Table) -> bytes:
    made = io.BytesIO()
    parquet.write_table(rows, made, compression="none", use_dictionary=False)
    return made.getvalue()


def in_arrow(rows: pa.Table, writer: Callable[..., pa.RecordBatchStreamWriter]) -> bytes:
    made = io.BytesIO()
    with writer(made, rows.schema) as stream:
        stream.write_table(rows)
    return made.getvalue()


def in_sqlite(rows: pa.Table) -> bytes:
    with sqlite3.connect(":memory:") as base:
        base.execute("create table session (text blob)")
        base.executemany("insert into session values (?)", [(row["text"],) for row in rows.to_pylist()])
        base.commit()
        return base.serialize()


@pytest.mark.parametrize(
    ("pack", "takers"),
    [
        (in_parquet, ["table"]),
        (lambda rows: in_arrow(rows, pa.ipc.new_file), ["table"]),
        (lambda rows: in_arrow(rows, pa.ipc.new_stream), ["table"]),
        (in_sqlite, ["refused"]),
    ],
)
def test_a_log_in_a_column_of_a_binary_file_is_never_taken_for_the_file_s_format(pack, takers):
    logs = [path for path in sorted(FIXTURES.glob("*/input/*")) if path.is_file()]
    assert len(logs) > 100
    for path in logs:
        text = b"\n" + path.read_bytes()[:32768].removeprefix(b"\xef\xbb\xbf") + b"\n"
        head = pack(pa.table({"text": pa.array([text, text], pa.binary())}))[:HEAD_BYTES]
        assert [one.name for one, _ in sniff(head, "data")] == takers, path
