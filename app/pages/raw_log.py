"""A raw log in the form of the normalize stage: read by the connector that recognizes it, and scrubbed.

Nothing is judged. The rows are kept in a temporary folder that is removed with the process. Only the beginning of a
large log is read.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import polars as pl
import pyarrow as pa

from trajmill.app.pages.contents import Contents
from trajmill.app.pages.index import SoFar, trajectory_index
from trajmill.app.pages.raw_bytes import RawPlaces
from trajmill.app.pages.rejects import rejects_at_hand
from trajmill.app.pages.run_files import Judged
from trajmill.app.pages.trajectory_rows import Rows
from trajmill.connectors.reading.attached import hand_to
from trajmill.pipelines.normalize.attachments import Attachments
from trajmill.pipelines.normalize.connector_errors import connector_error, is_connectors
from trajmill.pipelines.normalize.input_reading import read_input
from trajmill.pipelines.plan.plan import Input, make_plan
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import ROW_GROUP_BYTES, ParquetSink
from trajmill.quality.scrub import scrub, scrub_reject
from trajmill.quality.scrubbing.sensitive_values import sensitive_values
from trajmill.schemas import Assembler, ConfigError, Reject
from trajmill.schemas.invariants import check
from trajmill.schemas.row_ids import KEY, RowIds
from trajmill.schemas.transition import encode_schema

READ_TRAJECTORIES: Final = 5000
READ_BYTES: Final = 512 << 20
"""Bytes of text after which reading stops. A note says that the rest is left out, as after `READ_TRAJECTORIES`."""

_NAME: Final = "transitions/part-00000.parquet"

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class RawLog(Contents):
    """Raw log.

    Args:
        path: A file, a folder or an archive.

    Raises:
        ConfigError: No connector reads it.
    """

    def __init__(self, path: str) -> None:
        self.title = Path(path).name or path
        self.rules = {}
        self.files = None
        self._folder = tempfile.TemporaryDirectory(prefix="trajmill-view-")
        recipe = Recipe(name="view", source="raw log")
        plan = make_plan(recipe, [path])
        if not plan.inputs:
            reasons = "; ".join(f"{reject.uri}: {reject.detail}" for reject in plan.unrecognized[:3])
            raise ConfigError(f"No connector reads '{path}'. {reasons}")
        self._read(plan.inputs, list(plan.unrecognized), recipe)
        files = [Judged(1, Path(self._folder.name) / _NAME, None, None)]
        self.searchable = files
        self.rows = Rows(files)
        self._index = trajectory_index(files)
        self.places = RawPlaces.of({log.uri: log.members for log in plan.inputs})

    def _read(self, inputs: list[Input], rejects: list[Reject], recipe: Recipe) -> None:
        blobs = Attachments(Folder(self._folder.name))
        sink = ParquetSink(Folder(self._folder.name), _NAME, encode_schema())
        assembler, parents, ids = Assembler(), dict[str, str](), RowIds()
        sensitive: dict[str, tuple[str, ...]] = {}
        read = taken = nbytes = 0
        for log in inputs:
            for record, origin in _read_records(log, recipe, blobs):
                if isinstance(record, Reject):
                    rejects.append(replace(record, connector=log.connector))
                    continue
                sensitive[assembler.add(record, origin, parents)] = sensitive_values(record)
                blobs.settle(assembler.attached)
                read += 1
                if assembler.nbytes > ROW_GROUP_BYTES:
                    nbytes += assembler.nbytes
                    sink.write(_finish_batch(assembler, ids, sensitive))
                if read >= READ_TRAJECTORIES or nbytes >= READ_BYTES:
                    break
            else:
                blobs.forget()
                taken += 1
                continue
            break
        sink.write(_finish_batch(assembler, ids, sensitive))
        sink.close()
        values = dict.fromkeys(value for some in sensitive.values() for value in some)
        scrubbed = [scrub_reject(reject, sensitive=values) for reject in rejects]
        self._rejects = rejects_at_hand(scrubbed)
        self._excerpts = [reject.excerpt for reject in scrubbed]
        words = f"A raw log, before any run: read as {', '.join(sorted({log.connector for log in inputs}))}."
        left = f" Only its first {read:,} trajectories are shown." if taken < len(inputs) else ""
        self.notes = (words + left,)

    @property
    def index(self) -> pl.DataFrame:
        return self._index

    @property
    def rejects(self) -> pl.DataFrame:
        return self._rejects

    def so_far(self, patience: float = 0.0) -> SoFar:
        return SoFar(self.index, 1, 1, 0.0)

    def excerpt(self, reject: Mapping[str, Any]) -> str:
        return self._excerpts[reject["row"]]

    def attachment(self, sha256: str) -> bytes | None:
        file = Path(self._folder.name) / sha256
        return file.read_bytes() if _DIGEST.fullmatch(sha256) and file.is_file() else None


def _read_records(log: Input, recipe: Recipe, blobs: Attachments) -> Iterator[Any]:
    """Read the records of an input with its connector; a bug of the connector becomes a reject, as in a run."""
    with hand_to(blobs):
        try:
            yield from read_input(log, recipe)
        except Exception as error:
            if not is_connectors(error):
                raise
            yield connector_error(log, error, ""), None


def _finish_batch(assembler: Assembler, ids: RowIds, sensitive: Mapping[str, Iterable[str]]) -> pa.RecordBatch:
    batch = scrub(check(assembler.take()), sensitive=sensitive)[0]
    return batch.set_column(batch.schema.get_field_index(KEY), batch.schema.field(KEY), ids.of(batch))
