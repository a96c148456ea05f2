"""Folders in the layout of `save_to_disk` of `datasets`, written here so that equal samples give equal bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Final

import orjson
import pyarrow as pa

from trajmill.pipelines.publish.forms.job import Job

FILE: Final = "data-00000-of-00001.arrow"


def write_split(
    job: Job, folder: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch], *words: object, name: str = "train"
) -> int:
    """Write one split that `load_from_disk` opens; return its number of rows.

    Args:
        schema: schema of strings, int32 and lists of int32, or of structs of strings.
        words: values that the rows depend on, besides shards and tokenizer.
    """
    features = {field.name: _feature(field.type) for field in schema}
    described_schema = schema.with_metadata({"huggingface": orjson.dumps({"info": {"features": features}})})
    with job.out.writing(f"{folder}/{FILE}") as output, pa.OSFile(output.path, "wb") as sink:
        with pa.ipc.new_stream(sink, described_schema) as stream:
            for batch in batches:
                stream.write_batch(batch.replace_schema_metadata(described_schema.metadata))
                output.rows += batch.num_rows
        rows = output.rows
    content = f"{job.shards.digest}{job.tokenizing.digest}{''.join(map(str, words))}"
    state: dict[str, object] = {
        "_data_files": [{"filename": FILE}],
        "_fingerprint": hashlib.sha256(content.encode()).hexdigest()[:16],
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": name,
    }
    job.write_json(f"{folder}/state.json", state)
    info = {"citation": "", "description": "", "features": features, "homepage": "", "license": ""}
    job.write_json(f"{folder}/dataset_info.json", info)
    return rows


def _feature(kind: pa.DataType) -> Any:
    """Describe a type in the form of `datasets`."""
    if pa.types.is_list(kind):
        return {"feature": _feature(kind.value_type), "_type": "List"}
    if pa.types.is_struct(kind):
        return {field.name: _feature(field.type) for field in kind}
    return {"dtype": str(kind), "_type": "Value"}
