"""Digests of what connectors and runs make of everything at hand, to compare before and after a change.

    python -m tests.golden.digests write FILE [--mutations 12] [NAME…]
    python -m tests.golden.digests run FILE [--out OUT]
    python -m tests.golden.digests compare BEFORE AFTER

Read are the fixtures (good and bad), the generated logs of `benchmarks.generate`, the real corpora where they are at
hand, and mutations of them all: cut, damaged, or with a value of another type. Mutations hang on the log and their
number alone. A line of FILE is one log as it comes out: transitions, a digest over them, rejects by reason and a digest
over those. The connector's version is no part of a digest, so that a change shows where transitions do.

`run` runs the recipe `all` over the samples and the real corpora, and writes a line for each column of each stage and
domain. With `--out` it reads finished runs instead, such as those of older code.
"""

import argparse
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow.parquet as pq

from tests.conftest import ROOT, corpora_folder
from tests.connectors.mutations import SIGNS, STRANGERS, documents, places, replaced, written
from tests.rows import RECIPE, blob_at, golden_line, recognized
from trajmill.connectors.connector import Connector, MemoryBlob
from trajmill.connectors.registry import connectors
from trajmill.pipelines.storage.stored_blob import StoredBlob
from trajmill.schemas import DOMAINS, Assembler, Origin, ParseError, Reject

VERSIONS: Final = ROOT / "tests" / "golden" / "versions.json"
"""For each connector its version, and a digest of all that it makes of its fixtures and of mutations of them."""

_LARGEST: Final = 400_000
"""Bytes of a log from which it is no longer mutated."""

_STRANGERS: Final = (*STRANGERS, float("nan"), float("inf"), 123456789012345678901, 2**53 + 1, 0.1 + 0.2)

_MUTATIONS: Final = 4
"""Of each fixture, for the digest that a connector's version stands for."""

_BATCH: Final = 500
"""Rows that are turned into values together; a batch costs as much as some hundred of them."""

Log = tuple[str, Connector, MemoryBlob]
"""A name, who reads it, and its bytes."""


def outcome(connector: Connector, blob: MemoryBlob) -> dict[str, Any]:
    """What a connector makes of a log, in the words of a digest file."""
    assembler, parents = Assembler(), dict[str, str]()
    origin = Origin(blob.uri, "digest", connector.name, "-", blob.digest)
    rejects: list[tuple[str, str | None, int]] = []
    rows = hashlib.sha256()
    count = 0

    def taken(most: int = 0) -> None:
        nonlocal count
        if assembler.num_rows <= most:
            return
        batch = assembler.take()
        count += batch.num_rows
        for row in batch.to_pylist():
            rows.update(golden_line(row).encode("utf-8", "surrogatepass") + b"\n")

    try:
        for record in connector.parse(blob):
            if isinstance(record, Reject):
                rejects.append((record.reason, record.member, record.offset))
            else:
                assembler.add(record, origin, parents)
                taken(_BATCH)
    except ParseError as error:
        rejects.append((error.reason, "raised", error.offset))
    except Exception as error:  # noqa: BLE001 - a bug is an outcome too
        rejects.append((f"bug: {type(error).__name__}", "", -1))
    taken()
    refused = hashlib.sha256(json.dumps(rejects).encode()).hexdigest()[:16]
    reasons = dict(sorted(Counter(reason for reason, _, _ in rejects).items()))
    return {"rows": count, "digest": rows.hexdigest()[:16], "rejects": reasons, "refused": refused}


def logs(names: Iterable[str]) -> Iterator[Log]:
    """Every log at hand that one of these connectors reads."""
    chosen = {name: connectors()[name] for name in names}
    yield from fixtures(chosen)
    with TemporaryDirectory() as folder:
        path = Path(folder)
        from benchmarks import generate  # which the tests of a format do without

        for name in sorted(generate.FORMATS):
            generate.write(name, 300_000, 5, path / name)
        yield from _found("generated", path, chosen)
    root = corpora_folder()
    if root is not None:
        yield from _found("corpora", root, chosen)


def fixtures(chosen: Mapping[str, Connector]) -> Iterator[Log]:
    """The fixtures of these connectors, good and bad."""
    for name, connector in chosen.items():
        for folder in ("input", "bad"):
            root = ROOT / "tests" / "fixtures" / name / folder
            for path in sorted(root.iterdir()) if root.is_dir() else ():
                if path.suffix != ".reason":
                    yield f"fixture/{name}/{folder}/{path.name}", connector, blob_at(path)


def digest_of(connector: Connector) -> str:
    """A digest of all that a connector makes of its fixtures, and of some mutations of each."""
    digest = hashlib.sha256()
    for name, _, blob in fixtures({connector.name: connector}):
        for variant in (blob, *(mutated(name, blob, number) for number in range(1, _MUTATIONS + 1))):
            digest.update(json.dumps(outcome(connector, variant)).encode())
    return digest.hexdigest()[:16]


def _found(kind: str, root: Path, chosen: Mapping[str, Connector]) -> Iterator[Log]:
    inputs, _ = recognized((path for path in sorted(root.rglob("*")) if path.is_file()), root)
    for log in inputs:
        if log.connector in chosen:
            with StoredBlob(log.uri, log.members, RECIPE.normalize.max_member_bytes) as blob:
                members = {member: blob.read(member) for member in blob.members}
            yield f"{kind}/{log.uri}", chosen[log.connector], MemoryBlob(log.uri, members)


def mutated(name: str, blob: MemoryBlob, number: int) -> MemoryBlob:
    """The log with one of its members changed, the same for the same name and number."""
    random = Random(f"{name}/{number}")
    content = {member: blob.read(member) for member in blob.members}
    member = random.choice(blob.members)
    values = documents(content[member]) if number % 2 else None
    content[member] = _strange(values, random) if values else _damaged(content[member], random)
    return MemoryBlob(blob.uri, content)


def _strange(values: list[Any], random: Random) -> bytes:
    index = random.randrange(len(values))
    path = random.choice([*places(values[index])])
    return written([*values[:index], replaced(values[index], path, random.choice(_STRANGERS)), *values[index + 1 :]])


def _damaged(data: bytes, random: Random) -> bytes:
    offset, kind = random.randint(0, len(data)), random.choice(("cut", "put", "take", "number"))
    if kind == "cut":
        return data[:offset]
    if kind == "take":
        return data[:offset] + data[offset + random.randint(1, 40) :]
    return data[:offset] + (random.choice(SIGNS) if kind == "put" else b"NaN") + data[offset:]


def write(out: Path, names: Iterable[str], mutations: int) -> None:
    """Writes a line of JSON for each log and mutation."""
    with out.open("w", encoding="utf-8") as file:
        for name, connector, blob in logs(names):
            size = sum(len(blob.read(member)) for member in blob.members)
            numbers = range(1, mutations + 1) if 0 < size <= _LARGEST else ()
            versions = [("", blob), *((f"#{number}", mutated(name, blob, number)) for number in numbers)]
            for version, variant in versions:
                row = {"log": name + version, "connector": connector.name, **outcome(connector, variant)}
                file.write(json.dumps(row) + "\n")


def write_runs(file: Path, outs: Iterable[Path]) -> None:
    """Write a line of JSON for each column of transitions, verdicts, rejects and shards of finished runs."""
    with file.open("w", encoding="utf-8") as lines:
        for out in outs:
            tables: dict[str, list[Path]] = {}
            for stage in ("transitions", "verdicts", "rejects", "shards"):
                for path in sorted((out / stage).rglob("*.parquet")):
                    tables.setdefault(f"{out.name}/{path.parent.relative_to(out)}", []).append(path)
            for name, paths in sorted(tables.items()):
                for column, rows, digest in _columns(paths):
                    row = {"log": f"{name}:{column}", "connector": name, "rows": rows, "digest": digest}
                    lines.write(json.dumps(row) + "\n")


def _columns(paths: Iterable[Path]) -> Iterator[tuple[str, int, str]]:
    """Yield (column, rows, digest of its values in order) over files of one schema."""
    digests: dict[str, Any] = {}
    rows = 0
    for path in paths:
        table = pq.ParquetFile(path).read()
        rows += table.num_rows
        for column in table.column_names:
            digest = digests.setdefault(column, hashlib.sha256())
            for value in table[column].to_pylist():
                if column == "provenance":
                    value.pop("connector_version")
                digest.update(repr(value).encode("utf-8", "surrogatepass") + b"\n")
    for column, digest in sorted(digests.items()):
        yield column, rows, digest.hexdigest()[:16]


def run_all(folder: Path) -> list[Path]:
    """Run the recipe `all` over the samples and, where they are at hand, the real corpora."""
    from trajmill.pipelines.recipe.recipe_file import load_recipe
    from trajmill.pipelines.run import Run

    raws = {"samples": [str(ROOT / "samples" / domain) for domain in DOMAINS]}
    if (corpora := corpora_folder()) is not None:
        raws["corpora"] = [str(corpora)]
    for name, raw in raws.items():
        Run(load_recipe("all"), raw, str(folder / name)).run()
    return [folder / name for name in raws]


def compare(before: Path, after: Path) -> bool:
    """Prints, by connector, the logs that come out otherwise, and says whether there are none."""
    old, new = ({row["log"]: row for row in map(json.loads, path.open(encoding="utf-8"))} for path in (before, after))
    changed: dict[str, list[str]] = {}
    for name in sorted(old.keys() | new.keys()):
        earlier, now = old.get(name), new.get(name)
        if earlier != now:
            words = [
                f"{key} {(earlier or {}).get(key)} → {(now or {}).get(key)}"
                for key in ("rows", "digest", "rejects", "refused")
                if (earlier or {}).get(key) != (now or {}).get(key)
            ]
            changed.setdefault((earlier or now or {})["connector"], []).append(f"{name}: {', '.join(words)}")
    for connector, lines in changed.items():
        sys.stdout.write(f"{connector}: {len(lines)}\n")
        sys.stdout.writelines(f"  {line}\n" for line in lines)
    sys.stdout.write(
        f"{len(old)} logs before, {len(new)} after; {sum(map(len, changed.values()))} come out otherwise\n"
    )
    return not changed


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    writing = actions.add_parser("write")
    writing.add_argument("out", type=Path)
    writing.add_argument("names", nargs="*", default=sorted(connectors()))
    writing.add_argument("--mutations", type=int, default=12)
    running = actions.add_parser("run")
    running.add_argument("file", type=Path)
    running.add_argument("--out", type=Path, nargs="+")
    comparing = actions.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    chosen = parser.parse_args()
    if chosen.action == "write":
        write(chosen.out, chosen.names, chosen.mutations)
    elif chosen.action == "run":
        with TemporaryDirectory() as folder:
            write_runs(chosen.file, chosen.out or run_all(Path(folder)))
    elif not compare(chosen.before, chosen.after):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
