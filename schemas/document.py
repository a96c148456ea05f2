"""Reference documentation of the schema: every column with its type and meaning, as Markdown derived from the
schema.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from trajmill.schemas.transition import SCHEMA_VERSION, TRANSITION_SCHEMA


def _rows(field: pa.Field, path: str) -> Iterator[str]:
    doc = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
    kind = "struct" if pa.types.is_struct(field.type) else str(field.type).split("<")[0]
    if "options" in doc:
        kind = " \\| ".join(f"`{option}`" for option in doc["options"].split(","))
    yield f"| `{path}` | {kind} | {doc['doc']} | {doc.get('null', '')} |"
    inner = field.type
    if pa.types.is_list(inner):
        inner, path = inner.value_type, f"{path}[]"
    if pa.types.is_struct(inner):
        for child in inner.fields:
            yield from _rows(child, f"{path}.{child.name}")


def schema_markdown() -> str:
    """Return the text of docs/schema.md."""
    rows = [row for field in TRANSITION_SCHEMA for row in _rows(field, field.name)]
    head = [
        f"# The transition schema, version {SCHEMA_VERSION}",
        "",
        "A row is one transition. This page is written by `trajmill formats --markdown`; the schema itself is",
        "`schemas/transition.py`, and `trajmill formats --schema` prints it as JSON Schema. A column that says nothing",
        "under *null means* is never null.",
        "",
        "`row_id` is the key: it is unique in the table, and stays what it is when the same inputs are read again.",
        "`(trajectory_id, step)` is no key, since exact copies of a trajectory share an id. Verdicts, measures and",
        "spans bear the `row_id` of the transition that they are about, so a join on it has as many rows as each:",
        "",
        "```python",
        "import polars",
        "import trajmill",
        "",
        'verdicts = polars.scan_parquet("out/mine/verdicts/*/*.parquet").drop("trajectory_id", "step")',
        'judged = trajmill.scan_transitions("out/mine").join(verdicts, on="row_id")',
        "```",
        "",
        "| column | type | what it holds | null means |",
        "|---|---|---|---|",
    ]
    return "\n".join([*head, *rows]) + "\n"
