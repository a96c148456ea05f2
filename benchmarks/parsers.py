"""Measure how fast each connector parses, beside the plain library that decodes its container: one row each.

    python -m benchmarks.parsers --raw FOLDER_OF_LOGS [NAME…]

Of each format the largest logs below the folder are taken, up to a limit of bytes, and none of a few kilobytes where
there are larger ones. Where they hold less than `ENOUGH`, logs of real sizes are generated for some formats
(`session_logs` and `screen_logs` say how long their texts are); of the others, and of formats that have no log there,
the fixtures are measured. All bytes are held in memory, decompressed, and worked on again and again until the figure is
steady; rounds of parser and plain decoders alternate, and the fastest of each counts. What connectors remember of what
they read (`lru_cache`) is forgotten before each time, and Python's collector runs as rarely as where the pipeline reads
logs. A megabyte is 10^6 bytes; a second is one of CPU time.

The plain decoder is that of the container, member by member: `json` for JSON and JSON Lines (and `orjson` beside it),
the C loader of `yaml`, `zipfile`, `lxml` for XML, `pyarrow` with Python values for Parquet, and decoding and splitting
of lines for text.

Parsing does more than decoding: it pairs, tells apart, and makes steps, so it costs by the step as well as by the byte:
small fixtures, whose steps hold a few words, are far from their decoder's speed. The formats below half of it are named
at the end, as a report and not as a goal: parsing is fast enough, and clarity decides. Nothing is assembled, scrubbed
or written here; see `bench`.
"""

from __future__ import annotations

import argparse
import codecs
import functools
import gc
import io
import json
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from lxml import etree
from rich.console import Console

from benchmarks.logs import screen_logs
from benchmarks.logs.session_logs import MADE, made_logs
from benchmarks.processes import cpu_seconds
from trajmill.connectors.connector import Blob, Connector, MemoryBlob
from trajmill.connectors.registry import connector, connectors
from trajmill.pipelines.plan.plan import Input, make_plan
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.storage.stored_blob import StoredBlob
from trajmill.schemas import ParseError, Trajectory

RECIPE: Final = Recipe(name="benchmark", source="benchmark")
FIXTURES: Final = Path(__file__).parents[1] / "tests" / "fixtures"
BYTES: Final = 24_000_000
"""Bytes of logs that are taken of a format."""

ENOUGH: Final = 100_000
"""Bytes of real logs that say something; with less than that, generated ones are measured if there are any."""

LEAST: Final = 10_000
"""Bytes of a log below which it tells what a log costs, and not what its bytes do.

Where larger ones hold `ENOUGH`, it is left out: such logs are the made-up ones of other programs' tests.
"""

FLOOR: Final = 0.5
"""Share of the plain decoder's speed below which a format is named at the end; no goal, since clarity decides."""

REBUILT: Final = frozenset({"asciicast", "script", "ttyrec", "terminal_bench", "rrweb", "playwright_trace"})
"""Formats whose logs tell the changes of a screen that is shown whole at each step, told in MB/s alone.

Parsing is mostly the emulation of a terminal, or the rebuilding of a DOM.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """Measurements of a format, in MB per CPU-second; None where a decoder cannot read its container.

    `origin` is empty for real logs, or `(generated)` or `(fixtures)`. `steps` counts the transitions in the
    `megabytes`; what a parser costs beyond decoding, it costs by the transition.
    """

    name: str
    container: str
    megabytes: float
    origin: str
    steps: int
    parse: float
    plain: float
    orjson: float | None


def json_values(data: bytes, load: Callable[[bytes], Any]) -> Any:
    """Parse a document, or each of its lines, with `load`."""
    try:
        return load(data)
    except ValueError:
        return [load(line) for line in data.split(b"\n") if line and not line.isspace()]


def zip_members(data: bytes) -> list[bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return [archive.read(name) for name in archive.namelist()]


def text_lines(data: bytes) -> list[str]:
    return data.decode("utf-8", "replace").split("\n")


def yaml_value(data: bytes) -> Any:
    return yaml.load(data, yaml.CSafeLoader)


def xml_tree(data: bytes) -> Any:
    return etree.fromstring(data, etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True))


def table_rows(data: bytes) -> Any:
    return pq.read_table(io.BytesIO(data)).to_pylist()


DECODERS: Final[dict[str, Callable[[bytes], Any]]] = {
    "json": lambda data: json_values(data, json.loads),
    "zip": zip_members,
    "xml": xml_tree,
    "yaml": yaml_value,
    "parquet": table_rows,
    "text": text_lines,
}


def container(name: str, data: bytes) -> str:
    """Choose the reader in `DECODERS` of a member: the first that fits its name or its beginning, and can read it."""
    start = data[:64].lstrip(b"\xef\xbb\xbf \t\r\n")
    spoken = {
        "json": start[:1] in (b"{", b"["),
        "zip": start.startswith(b"PK\3\4"),
        "xml": start.startswith(b"<"),
        "parquet": data.startswith(b"PAR1"),
        "yaml": name.endswith((".yaml", ".yml")),
    }
    for kind in (kind for kind, speaks in spoken.items() if speaks):
        try:
            DECODERS[kind](data)
        except (ValueError, RecursionError, SyntaxError, yaml.YAMLError, zipfile.BadZipFile, pa.ArrowException):
            continue
        return kind
    return "text"


def forgetter() -> Callable[[], None]:
    """Return a function that empties the caches of all functions of the connectors."""
    kind = type(functools.lru_cache(len))
    caches = [
        candidate
        for candidate in gc.get_objects()
        if isinstance(candidate, kind) and candidate.__module__.startswith("connectors")
    ]

    def forget() -> None:
        for cache in caches:
            cache.cache_clear()

    return forget


def parse(reader: Connector, blobs: Sequence[Blob]) -> int:
    """Parses all blobs, drops what comes, and counts the transitions."""
    steps = 0
    for blob in blobs:
        try:
            for record in reader.parse(blob):
                steps += len(record.steps) if isinstance(record, Trajectory) else 0
        except ParseError:
            continue
    return steps


def repeat_work(work: Callable[[], Any], times: int) -> Callable[[], None]:
    """The work, done so many times."""

    def works() -> None:
        for _ in range(times):
            work()

    return works


def fastest(works: Sequence[Callable[[], None]], seconds: float) -> list[float]:
    """The least CPU seconds that each work took, in rounds that alternate until each has had `seconds` of them."""
    best = [float("inf")] * len(works)
    spent, rounds = 0.0, 0
    while spent < seconds * len(works) or rounds < 3:
        for index, work in enumerate(works):
            took = cpu_seconds(work)
            best[index] = min(best[index], took)
            spent += took
        rounds += 1
    return best


def measure_connector(reader: Connector, blobs: Sequence[MemoryBlob], origin: str, seconds: float) -> Row:
    """The row of a connector over its logs."""
    members = [
        (blob.read(member), container(member or blob.uri, blob.read(member)))
        for blob in blobs
        for member in blob.members
    ]
    sizes: Counter[str] = Counter()
    for data, kind in members:
        sizes[kind] += len(data)
    total = sum(sizes.values())
    jsons = [data.removeprefix(codecs.BOM_UTF8) for data, kind in members if kind == "json"]
    forget = forgetter()
    steps = parse(reader, blobs)

    def parsed() -> None:
        forget()
        parse(reader, blobs)

    def plain() -> None:
        for data, kind in members:
            DECODERS[kind](data)

    def fast() -> None:
        for data in jsons:
            json_values(data, orjson.loads)

    repeat = max(1, 2_000_000 // max(1, total))
    took = [max(best, 1e-9) for best in fastest([repeat_work(work, repeat) for work in (parsed, plain, fast)], seconds)]
    size = total * repeat / 1e6
    fastest_json = size / took[2] if sizes["json"] >= 0.95 * total else None
    kind = sizes.most_common(1)[0][0]
    return Row(reader.name, kind, total / 1e6, origin, steps, size / took[0], size / took[1], fastest_json)


def load_input(log: Input) -> MemoryBlob:
    """An input with all its bytes in memory."""
    stored = StoredBlob(log.uri, log.members, RECIPE.normalize.max_member_bytes)
    return MemoryBlob(log.uri, {member: stored.read(member) for member in stored.members})


def real_logs(raw: str) -> dict[str, list[Input]]:
    """The recognized inputs below a folder by connector, the largest first."""
    by_connector: dict[str, list[Input]] = {}
    for log in make_plan(RECIPE, [raw]).inputs:
        by_connector.setdefault(log.connector, []).append(log)
    return {name: sorted(inputs, key=lambda log: (-log.bytes, log.uri)) for name, inputs in by_connector.items()}


def take_largest(inputs: Sequence[Input]) -> list[MemoryBlob]:
    """The largest inputs that hold together at most `BYTES`; always one."""
    blobs: list[MemoryBlob] = []
    size = 0
    for log in inputs:
        if blobs and size + log.bytes > BYTES:
            continue
        blobs.append(load_input(log))
        size += log.bytes
    return blobs


def fixtures(name: str) -> list[MemoryBlob]:
    """A format's own fixtures."""
    blobs = []
    for path in sorted((FIXTURES / name / "input").iterdir()):
        files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else []
        members = {str(file.relative_to(path)): file.read_bytes() for file in files}
        blobs.append(MemoryBlob(path.name, members if path.is_dir() else path.read_bytes()))
    return blobs


def logs_of(name: str, known: Mapping[str, Sequence[Input]]) -> tuple[list[MemoryBlob], str]:
    """The logs to measure a connector on, and their origin as `Row` has it."""
    logs = known.get(name, ())
    large = [log for log in logs if log.bytes >= LEAST]
    if sum(log.bytes for log in large) >= ENOUGH:
        return take_largest(large), ""
    if sum(log.bytes for log in logs) < ENOUGH:
        if name in MADE:
            return made_logs(name), "(generated)"
        if name in screen_logs.LOGS:
            return [MemoryBlob("generated", screen_logs.log(name))], "(generated)"
    return (take_largest(logs), "") if logs else (fixtures(name), "(fixtures)")


def rows(names: Sequence[str], raw: str | None, seconds: float) -> Iterator[Row]:
    """The row of each named connector, in order."""
    known = real_logs(raw) if raw else {}
    for name in names:
        blobs, origin = logs_of(name, known)
        yield measure_connector(connector(name), blobs, origin, seconds)


def line(row: Row) -> str:
    """The row as one of a Markdown table; formats of plain text have no container to compare with."""
    cells = [
        row.name,
        row.container,
        f"{row.megabytes:.2f} {row.origin}".rstrip(),
        f"{row.parse:,.1f}",
        f"{1e6 * row.megabytes / row.parse / row.steps:,.0f}" if row.steps else "",
        f"{row.plain:,.1f}",
        f"{row.parse / row.plain:.2f}" if is_comparable(row) else "",
        f"{row.orjson:,.0f}" if row.orjson is not None else "",
        f"{row.parse / row.orjson:.2f}" if row.orjson is not None and is_comparable(row) else "",
    ]
    return f"| {' | '.join(cells)} |"


def is_comparable(row: Row) -> bool:
    """Check that the ratio means something: the decoder does a part of the parser's work, which yielded steps."""
    return row.name not in REBUILT and row.container != "text" and row.steps > 0


def main() -> None:
    """Prints the table, and below it the formats under `FLOOR`, the slowest in ratio first."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("names", nargs="*", help="connectors; all if none is named")
    asked.add_argument("--raw", help="folder of real logs")
    asked.add_argument("--seconds", type=float, default=1.0, help="CPU seconds of each figure")
    options = asked.parse_args()
    console = Console(width=160)
    console.print(
        "| connector | container | MB | parse MB/s | µs a step | plain MB/s | ratio | orjson MB/s | ratio to orjson |"
    )
    console.print("|---|---|---:|---:|---:|---:|---:|---:|---:|")
    slow: list[Row] = []
    for row in rows(options.names or list(connectors()), options.raw, options.seconds):
        console.print(line(row), soft_wrap=True)
        if is_comparable(row) and row.parse < FLOOR * row.plain:
            slow.append(row)
    for row in sorted(slow, key=lambda row: row.parse / row.plain):
        console.print(f"{row.name} is at {row.parse / row.plain:.2f} of its plain decoder, below {FLOOR}")


if __name__ == "__main__":
    main()
