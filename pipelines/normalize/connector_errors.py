"""Exceptions of connectors: which are theirs, the reject that one becomes, and what a run tells of them at its end.

A connector meets logs that nobody has seen before. What it then raises is a bug and costs that input alone; what the
machine does not give (storage, memory) and what the recipe asks wrongly ends the run.
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
from trajmill.pipelines.plan.connector_frames import raised_at
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
"""How the note begins by which an exception is known for a connector's, in whichever process it came up."""

_STORES: Final = frozenset(("aiohttp", "azure", "botocore", "gcsfs", "google", "huggingface_hub", "requests"))
"""Packages whose exceptions say that a store failed, and are no `OSError`."""

_LINE: Final = 300
_READ: Final = 4096


def is_connectors(error: BaseException) -> bool:
    """Whether an exception that came up while an input was read, checked or scrubbed is a connector's bug.

    Not so are those of storage and memory and those that tell the user something. An `OSError` that the operating
    system did not raise, such as of a codec about damaged bytes, is one.
    """
    if isinstance(error, OSError):
        of_codec = isinstance(error, gzip.BadGzipFile | io.UnsupportedOperation)
        return of_codec or (type(error) is OSError and error.errno is None)
    if isinstance(error, TrajmillError):
        return isinstance(error, ContractError | ParseError)
    return isinstance(error, Exception) and not isinstance(error, MemoryError) and not of_store(error)


def noted(error: BaseException, one: Input) -> None:
    """Adds the note that says which input was being read, once, where the exception is a connector's."""
    if is_connectors(error) and not is_noted(error):
        error.add_note(f"{NOTE}{one.connector}' was reading {one.uri}")


def is_noted(error: BaseException) -> bool:
    """Whether the exception bears the note of `noted`."""
    return any(note.startswith(NOTE) for note in getattr(error, "__notes__", ()))


def of_store(error: BaseException) -> bool:
    """Whether a package that reaches a store raised it."""
    return type(error).__module__.partition(".")[0] in _STORES


def connector_error(one: Input, error: BaseException, salt: str) -> Reject:
    """The reject of an input that its connector failed on: a scrubbed line of what it raised, and where in the code."""
    told = "".join(traceback.format_exception_only(error))[:_READ]
    lines = [line.strip() for line in scrub_text(told, salt=salt).splitlines() if line.strip()]
    line = lines[0] if lines else type(error).__name__
    where = raised_at(error, known_connectors()[one.connector])
    detail = f"{line[:_LINE]} (at {where})" if where else line[:_LINE]
    return Reject("input", CONNECTOR_ERROR, detail, one.uri, connector=one.connector)


def must_be_read_again(manifest: Manifest, *, strict: bool) -> bool:
    """Whether inputs of a part that is done failed, and other code, or a strict run, reads it now."""
    failed, died = manifest.counts.get(COUNT), manifest.counts.get(DIED_COUNT)
    return bool((strict and failed) or ((failed or died) and manifest.code != program_digest()))


@dataclass(frozen=True, slots=True)
class Broken:
    """What went wrong with one connector.

    Attributes:
        connector: its name.
        inputs: how many it cost.
        examples: the first three of them.
        raised: what it raised and where, each once; at most three.
    """

    connector: str
    inputs: int
    examples: tuple[str, ...]
    raised: tuple[str, ...]


def broken_connectors(rejects: Iterable[Reject]) -> tuple[Broken, ...]:
    """What the rejects of `CONNECTOR_ERROR` among those given say, by connector."""
    found: dict[str, list[Reject]] = {}
    for one in rejects:
        if one.reason == CONNECTOR_ERROR:
            found.setdefault(one.connector, []).append(one)
    return tuple(
        Broken(
            name,
            len(of),
            tuple(one.uri for one in of[:3]),
            tuple(dict.fromkeys(one.detail for one in of))[:3],
        )
        for name, of in sorted(found.items())
    )


def withdrawals(plan: Plan) -> list[Reject]:
    """What connectors failed on when they were asked whether a file is theirs, in the form of rejects."""
    when = "when it was asked whether the file is its"
    return [
        Reject("input", CONNECTOR_ERROR, f"{one.error} (at {one.raised_at}), {when}", one.uri, connector=one.connector)
        for one in plan.withdrawn
    ]


def failed_inputs(rejects: Folder, manifests: Iterable[Manifest]) -> list[Reject]:
    """The rejects of inputs that connectors failed on, read from the files of the parts whose counts tell of any."""
    found = []
    for manifest in manifests:
        if manifest.counts.get(COUNT):
            for batch in read_batches(rejects, f"{manifest.unit}.parquet"):
                found += [Reject(**row) for row in batch.to_pylist() if row["reason"] == CONNECTOR_ERROR]
    return found
