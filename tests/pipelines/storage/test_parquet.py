"""Files of transitions hold the texts of their rows, and the same rows come back."""

import random

from tests.make import batch_of, trajectory
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import ParquetSink, read_rows, read_transitions
from trajmill.schemas.transition import encode_schema


def written(folder, batch):
    sink = ParquetSink(Folder(str(folder)), "part.parquet", encode_schema())
    sink.write(batch)
    return sink.close()


def test_texts_that_no_observation_shows_are_not_written_for_it(tmp_path):
    texts = [random.Random(number).randbytes(8_000).hex() for number in range(100)]
    batch = batch_of(*(trajectory(text, native_id=text[:9]) for text in texts))
    shared = batch["observation"].field("content").dictionary  # with next observations
    assert 1 << 20 < shared.nbytes < 2 << 20
    assert written(tmp_path, batch).bytes < 1_200_000
    (again,) = read_transitions(Folder(str(tmp_path)), "part.parquet")
    assert again.to_pylist() == batch.to_pylist()


def test_rows_come_in_their_order_in_batches_of_any_size(tmp_path):
    batch = batch_of(*(trajectory(f"text {number}", native_id=str(number)) for number in range(7)))
    written(tmp_path, batch)
    batches = list(read_rows(Folder(str(tmp_path)), "part.parquet", 3))
    assert [some.num_rows for some in batches] == [3, 3, 1]
    assert [row["row_id"] for some in batches for row in some.to_pylist()] == batch["row_id"].to_pylist()
