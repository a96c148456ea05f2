"""Exceptions of connectors: how to recognize them, their rejects, and the summary at the end of a run.

Connectors meet unknown logs. An exception there is a bug and costs only that input. Failures of the machine (storage,
memory) and errors of the recipe end the run.
"""

from __future__ import annotations

import gzip
import io
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from trajmill.connectors.registry import connectors as known_connectors
from trajmill.pipelines.execution.dying_inputs import WORKER_DIED
from trajmill.pipelines.execution.environment import program_digest
from trajmill.pipelines.plan.connector_frames import frame_of
from trajmill.pipelines.plan.plan import Input, Plan
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_batches
from trajmill.quality.scrub import scrub_text
from trajmill.schemas import ContractError, ParseError, Reject, TrajmillError
from trajmill.schemas.manifest import Manifest

CONNECTOR_ERROR: Final = "connector_error"
COUNT: Final = f"rejected.input.{CONNECTOR_ERROR}"
DIED_COUNT: Final = f"rejected.input.{WORKER_DIED}"
NOTE: Final = "while connector '"
"""Beginning of the note that marks an exception as a connector's, in any process."""

_STORES: Final = frozenset(("aiohttp", "azure", "botocore", "gcsfs", "google", "huggingface_hub", "requests"))
"""Packages whose exceptions report a failed store without being an `OSError`."""

_LINE: Final = 300
_READ: Final = 4096


def is_connectors(error: BaseException) -> bool:
    """Return True if an exception while an input was read, checked or scrubbed is a connector's bug.

    Exceptions of storage and memory, and those meant for the user, are not. An `OSError` that the operating system did
    not raise, such as that of a codec for damaged bytes, is.
    """
    if isinstance(error, OSError):
        of_codec = isinstance(error, gzip.BadGzipFile | io.UnsupportedOperation)
        return of_codec or (type(error) is OSError and error.errno is None)
    if isinstance(error, TrajmillError):
        return isinstance(error, ContractError | ParseError)
    return isinstance(error, Exception) and not isinstance(error, MemoryError) and not of_store(error)


def add_note(error: BaseException, source: Input) -> None:
    """Add a note with the input that was being read, once, if the exception is a connector's."""
    if is_connectors(error) and not is_noted(error):
        error.add_note(f"{NOTE}{source.connector}' was reading {source.uri}")


def is_noted(error: BaseException) -> bool:
    """Return True if the exception has the note of `add_note`."""
    return any(note.startswith(NOTE) for note in getattr(error, "__notes__", ()))


def of_store(error: BaseException) -> bool:
    """Return True if a package that accesses a store raised the exception."""
    return type(error).__module__.partition(".")[0] in _STORES


def connector_error(source: Input, error: BaseException, salt: str) -> Reject:
    """Build the reject of an input on which its connector failed: a scrubbed line of the exception, and its place."""
    message = "".join(traceback.format_exception_only(error))[:_READ]
    lines = [line.strip() for line in scrub_text(message, salt=salt).splitlines() if line.strip()]
    line = lines[0] if lines else type(error).__name__
    where = frame_of(error, known_connectors()[source.connector])
    detail = f"{line[:_LINE]} (at {where})" if where else line[:_LINE]
    return Reject("input", CONNECTOR_ERROR, detail, source.uri, connector=source.connector)


def must_be_read_again(manifest: Manifest, *, strict: bool) -> bool:
    """Return True if inputs of a finished part failed, and the code has changed or the run is strict."""
    failed, died = manifest.counts.get(COUNT), manifest.counts.get(DIED_COUNT)
    return bool((strict and failed) or ((failed or died) and manifest.code != program_digest()))


@dataclass(frozen=True, slots=True)
class Broken:
    """Failures of one connector.

    Attributes:
        inputs: number of failed inputs.
        examples: the first three of them.
        raised: up to three distinct exceptions, with their places.
    """

    connector: str
    inputs: int
    examples: tuple[str, ...]
    raised: tuple[str, ...]


def broken_connectors(rejects: Iterable[Reject]) -> tuple[Broken, ...]:
    """Summarize the rejects of `CONNECTOR_ERROR` among those given, by connector."""
    by_connector: dict[str, list[Reject]] = {}
    for reject in rejects:
        if reject.reason == CONNECTOR_ERROR:
            by_connector.setdefault(reject.connector, []).append(reject)
    return tuple(
        Broken(
            name,
            len(rejects_of),
            tuple(reject.uri for reject in rejects_of[:3]),
            tuple(dict.fromkeys(reject.detail for reject in rejects_of))[:3],
        )
        for name, rejects_of in sorted(by_connector.items())
    )


def withdrawals(plan: Plan) -> list[Reject]:
    """List the failures of connectors while they recognized files, as rejects."""
    when = "when it was asked whether the file is its"
    return [
        Reject(
            "input",
            CONNECTOR_ERROR,
            f"{withdrawal.error} (at {withdrawal.raised_at}), {when}",
            withdrawal.uri,
            connector=withdrawal.connector,
        )
        for withdrawal in plan.withdrawn
    ]


def read_failures(rejects: Folder, manifests: Iterable[Manifest]) -> list[Reject]:
    """Read the rejects of inputs on which connectors failed, from the parts whose counts show any."""
    failures = []
    for manifest in manifests:
        if manifest.counts.get(COUNT):
            for batch in read_batches(rejects, f"{manifest.unit}.parquet"):
                failures += [Reject(**row) for row in batch.to_pylist() if row["reason"] == CONNECTOR_ERROR]
    return failures
