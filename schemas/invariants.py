"""Invariants of every batch of transitions, checked where rows are stored and where they are read back.

A breach is a bug of trajmill, so it raises `ContractError` with the column and the first offending row. Errors of a log
are rejected earlier, by its connector.
"""

from __future__ import annotations

import json
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.schemas.errors import ContractError
from trajmill.schemas.row_ids import KEY
from trajmill.schemas.trajectory import WORLD_MODEL
from trajmill.schemas.transition import TRANSITION_SCHEMA, encode_schema

_JSON_COLUMNS: Final = (
    ("action", "arguments"),
    ("next_observation", "envelope"),
    ("context", "action_space"),
    ("environment", "sampling"),
    ("interleaved",),
)

_SAMPLED: Final = r'^\{"token_ids": \[[0-9, ]+\], "logprobs": (null|\[[0-9eE+., -]+\])\}$'


def check(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch itself, if every invariant of the schema holds for it.

    Checked: types, nulls, closed sets, ids, that no row's own is there twice, the order and completeness of steps,
    turns and calls, that a predicted environment names its world model by revision and its sampling, and no other does,
    JSON text, sampled token ids, durations. Whole trajectories are expected: rows of one are contiguous.

    Raises:
        ContractError: the first breach found.
    """
    if batch.schema != encode_schema(batch.schema) or batch.schema.names != TRANSITION_SCHEMA.names:
        raise ContractError(f"a batch has columns {batch.schema.names}, wanted {TRANSITION_SCHEMA.names}")
    for field, column in zip(TRANSITION_SCHEMA, batch.columns, strict=True):
        _check_field(field, column, field.name, None)
    if batch.num_rows:
        _check_ids(batch)
        _check_row_ids(batch)
        _check_order(batch)
        _check_model(batch)
        _check_json(batch)
        sampled = pc.struct_field(batch["action"], "sampled")
        _require("action.sampled", pc.match_substring_regex(sampled, _SAMPLED), "be what `sampled_text` makes")
        _require("duration_s", pc.greater_equal(batch["duration_s"], 0.0), "be at least 0 seconds")
        _require("time_limit_s", pc.greater(batch["time_limit_s"], 0.0), "be more than 0 seconds")
    return batch


def _require(path: str, holds: Any, wanted: str) -> None:
    """Raise unless `holds` (one boolean a row; null counts as true) is true everywhere."""
    if pc.all(holds, min_count=0).as_py() is False:
        row = pc.index(pc.fill_null(holds, True), False).as_py()
        raise ContractError(f"column {path}, row {row} of the batch: should {wanted}. This is a bug in a connector.")


def _check_field(field: pa.Field, column: pa.Array, path: str, parent: pa.Array | None) -> None:
    if not field.nullable and column.null_count:
        present = column.is_valid()
        _require(path, present if parent is None else pc.or_(present, pc.invert(parent)), "not be null")
    options = (field.metadata or {}).get(b"options")
    if options is not None and pa.types.is_dictionary(column.type):
        allowed = pa.array(options.decode().split(","))
        _require(path, _look_up(pc.is_in(column.dictionary, allowed), column), f"be one of {allowed.to_pylist()}")
    if pa.types.is_struct(field.type):
        inner = column.is_valid() if column.null_count else None
        for child, name in zip(column.flatten(), [f.name for f in field.type.fields], strict=True):
            _check_field(field.type.field(name), child, f"{path}.{name}", inner)


def _look_up(of_dictionary: pa.Array, column: pa.Array) -> pa.Array:
    return of_dictionary.take(column.indices)


def _matches(column: pa.DictionaryArray, pattern: str) -> pa.Array:
    return _look_up(pc.match_substring_regex(column.dictionary, pattern), column)


def _check_ids(batch: pa.RecordBatch) -> None:
    key = batch["trajectory_id"]
    _require("trajectory_id", _matches(key, "^[0-9a-f]{32}$"), "be 32 hex digits")
    digest = pc.struct_field(batch["provenance"], "sha256")
    _require("provenance.sha256", _matches(digest, "^[0-9a-f]{64}$"), "be 64 hex digits")


def _check_row_ids(batch: pa.RecordBatch) -> None:
    key, step, row_id = batch["trajectory_id"], batch["step"], batch[KEY]
    copies = pc.utf8_slice_codeunits(row_id, 33, 49)
    _require(KEY, pc.match_substring_regex(copies, "^[0-9a-f]{16}$"), "name the copy by 16 hex digits")
    expected = pc.binary_join_element_wise(key.cast(pa.string()), copies, step.cast(pa.string()), "-")
    _require(KEY, pc.equal(row_id, expected), "be made of trajectory_id, copy and step")
    begins = pc.or_(pc.equal(step[1:], 0), pc.not_equal(key.indices[1:], key.indices[:-1]))
    _require(KEY, pc.or_(begins, pc.equal(copies[1:], copies[:-1])), "name one copy in all rows of a trajectory")
    if pc.count_distinct(row_id).as_py() < batch.num_rows:
        raise ContractError(f"column {KEY}: is not unique in the batch. This is a bug in what makes the ids.")


def _check_order(batch: pa.RecordBatch) -> None:
    step, count = batch["step"], batch["num_steps"]
    turn, call, calls = batch["turn"], batch["call_index"], batch["num_calls"]
    segment, segments = batch["segment"], batch["num_segments"]
    _require("step", pc.and_(pc.greater_equal(step, 0), pc.less(step, count)), "lie in 0 … num_steps-1")
    _require("segment", pc.and_(pc.greater_equal(segment, 0), pc.less(segment, segments)), "be under num_segments")
    _require("call_index", pc.and_(pc.greater_equal(call, 0), pc.less(call, calls)), "lie in 0 … num_calls-1")
    if batch.num_rows < 2:
        return
    key = batch["trajectory_id"].indices
    same = pc.and_(pc.equal(key[1:], key[:-1]), pc.greater(step[1:], 0))
    _require("step", pc.or_(pc.invert(same), pc.equal(step[1:], pc.add(step[:-1], 1))), "run without a gap")
    begins = pc.or_(same, pc.or_(pc.equal(step[1:], 0), pc.greater(segment[1:], 0)))
    _require("step", begins, "begin at 0")
    forward = pc.subtract(turn[1:], turn[:-1])
    _require("turn", pc.or_(pc.invert(same), pc.is_in(forward, pa.array([0, 1], pa.int32()))), "grow by 0 or 1")
    together = pc.and_(same, pc.equal(forward, 0))
    ordered = pc.equal(call[1:], pc.add(call[:-1], 1))
    _require("call_index", pc.or_(pc.invert(together), ordered), "count the calls of a turn in order")


def _check_model(batch: pa.RecordBatch) -> None:
    environment = batch["environment"]
    kind, model, sampling = (pc.struct_field(environment, name) for name in ("kind", "world_model", "sampling"))
    if not {"model"} & set(kind.dictionary.to_pylist()) and model.null_count == sampling.null_count == len(batch):
        return
    predicted = _look_up(pc.equal(kind.dictionary, "model"), kind)
    named = pc.fill_null(pc.match_substring_regex(model.cast(pa.string()), WORLD_MODEL), False)
    wanted = "be name@revision where the kind is model, and null elsewhere"
    _require(
        "environment.world_model", pc.and_(pc.equal(predicted, model.is_valid()), pc.equal(predicted, named)), wanted
    )
    _require(
        "environment.sampling", pc.equal(predicted, sampling.is_valid()), "be stated where the kind is model alone"
    )
    is_object = pc.fill_null(pc.starts_with(pc.utf8_ltrim_whitespace(sampling.cast(pa.string())), "{"), False)
    _require("environment.sampling", pc.or_(pc.invert(predicted), is_object), "be an object where the kind is model")


def _check_json(batch: pa.RecordBatch) -> None:
    for path in _JSON_COLUMNS:
        column: Any = batch[path[0]]
        for name in path[1:]:
            column = pc.struct_field(column, name)
        texts = column.dictionary if pa.types.is_dictionary(column.type) else column
        for row, text in enumerate(texts.to_pylist()):
            if text is not None and not _is_json(text):
                raise ContractError(f"column {'.'.join(path)}, text {row}: not JSON: {text[:80]!r}")


def _is_json(text: str) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        pass  # orjson is faster, but takes neither lone surrogates nor deep nesting
    else:
        return True
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
