"""The headline figures, each as a ratio to a peer or a floor that was measured in the same run.

    python -m benchmarks.ratios               # under 15 minutes on two idle cores
    python -m benchmarks.ratios --long        # hours: the tables of `LONG` besides
    python -m benchmarks.ratios --only rollouts costs

The tables go into pages of docs, between the marks of this command. A figure that moved by more than 15 % since the
last commit of its page is named.
"""

from __future__ import annotations

import argparse
import ctypes
import re
import shutil
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import dedup, growth, kills, rollouts, scale, signals, skew, workers
from benchmarks.logs.documents import plant_documents
from benchmarks.logs.long_logs import write as write_long
from benchmarks.logs.mixed import write_mixed
from benchmarks.processes import Task, load_ours, measure_task, work
from trajmill.pipelines.plan.plan import make_plan
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.quality.registry import signals as known_signals

ROOT: Final = Path(__file__).resolve().parents[1]
MODULE: Final = "benchmarks.ratios"
SEED: Final = 7
MOVED: Final = 0.15
_CHILD_SUBREAPER: Final = 36
_COPIES: Final = 3


class Ratio(NamedTuple):
    """One figure.

    Attributes:
        name: what is measured.
        ours, peer: in `unit`; smaller is better for both.
        beside: what the peer is.
        unit: of both.
    """

    name: str
    ours: float
    peer: float
    beside: str
    unit: str = "CPU s"

    @property
    def ratio(self) -> float:
        """Cost of the peer divided by our cost."""
        return self.peer / self.ours


def find_duplicates(folder: Path) -> Iterator[Ratio]:
    """Compare the judge stage with datatrove's MinHash stages over planted copies."""
    count = 20_000
    ours, *peers = dedup.compare_peers(plant_documents(count, SEED), folder, list(dedup.AIMS))
    for peer in peers:
        recall = f"recall {ours['recall']:.3f} and {peer['recall']:.3f}"
        yield Ratio(f"near duplicates of {count:,} documents", ours["cpu"], peer["cpu"], f"{peer['name']}; {recall}")


def run_whole(folder: Path) -> Iterator[Ratio]:
    """Compare a run of every stage with reading the same logs and writing the same shards, and nothing else."""
    size = write_mixed(folder / "raw", 60_000_000, SEED) / 1e6
    stages, _ = growth.measure_run(folder)
    floor, _, _ = measure_task(MODULE, "floor", folder)
    whole = sum(stage["cpu"] for stage in stages.values())
    yield Ratio(f"raw logs to shards, {size:.0f} MB", whole, floor, "orjson, then Parquet of the same shards")


def run_plan(folder: Path) -> Iterator[Ratio]:
    """Compare planning many small files, the samples several times over, with reading the beginning of each."""
    for number in range(_COPIES):
        shutil.copytree(ROOT / "samples", folder / "raw" / str(number), ignore=shutil.ignore_patterns("*.py*", "__*"))
    count = sum(path.is_file() for path in (folder / "raw").rglob("*"))
    ours, heads = (measure_task(MODULE, task, folder)[0] * 1000 / count for task in ("plan", "heads"))
    yield Ratio(f"plan of {count:,} files", ours, heads, "reading each file's first 64 KB", "CPU ms a file")


def run_long(folder: Path) -> Iterator[Ratio]:
    """Compare a run over one long session with the same floor."""
    size = 60_000_000
    (folder / "raw").mkdir()
    write_long("claude_code", size, folder / "raw")
    stages, _ = growth.measure_run(folder)
    floor, _, _ = measure_task(MODULE, "floor", folder)
    whole = sum(stage["cpu"] for stage in stages.values())
    yield Ratio(f"one session of {size / 1e6:.0f} MB", whole, floor, "orjson, then Parquet of the same shards")


def run_signals(folder: Path) -> Iterator[Ratio]:
    """Compare all signals together with datatrove's Gopher quality filter over the next observations."""
    from datatrove.data import Document
    from datatrove.pipeline.filters import GopherQualityFilter

    batches = [*chain.from_iterable(signals.normalize_logs([signals.generate_logs(folder / "raw", 20)]).values())]
    names = [name for name in known_signals() if not any(word in name for word in signals.APART)]
    ours = signals.seconds(lambda: signals.together(batches, names), 3)
    shown = chain.from_iterable(batch["next_observation"].field("content").to_pylist() for batch in batches)
    texts, gopher = [text for text in shown if text], GopherQualityFilter()
    peer = signals.seconds(lambda: [gopher.filter(Document(text, "")) for text in texts], 1)
    sizes = signals.size_of(batches), sum(len(text.encode()) for text in texts) / 1e6
    yield Ratio("all signals", ours / sizes[0], peer / sizes[1], "datatrove's Gopher quality filter", "CPU s a MB")


def run_workers(folder: Path) -> Iterator[Ratio]:
    """Compare a run with two workers with one of one worker, by wall time."""
    ctypes.CDLL(None).prctl(_CHILD_SUBREAPER, 1)
    size = write_mixed(folder / "raw", 100_000_000, SEED) / 1e6
    (folder / "growth.yaml").write_text(growth.RECIPE)
    command = [sys.executable, "-m", "trajmill"]
    times = [[workers.measure_run(command, folder, count)[0] for count in (1, 2)] for _ in range(2)]
    single, two = map(min, zip(*times, strict=True))
    yield Ratio(f"two workers, {size:.0f} MB", two, single, "one worker", "wall s")


def _read(folder: Path) -> Iterator[str]:
    """Decode the JSON of all logs, read the other files and the shards, and write the shards anew."""
    for path in sorted((folder / "raw").rglob("*")):
        data = path.read_bytes() if path.is_file() else b""
        if path.suffix == ".json":
            orjson.loads(data)
        elif path.suffix in (".jsonl", ".cast"):
            deque(map(orjson.loads, data.splitlines()), 0)
    for path in sorted((folder / "out" / "shards").rglob("*.parquet")):
        pq.write_table(pq.read_table(path), pa.BufferOutputStream(), compression="zstd")
    yield "read and written"


def _read_heads(folder: Path) -> Iterator[str]:
    for path in sorted((folder / "raw").rglob("*")):
        if path.is_file():
            with path.open("rb") as stream:
                stream.read(1 << 16)
    yield "read"


def _plan(folder: Path) -> Iterator[str]:
    yield f"{len(make_plan(load_recipe('all'), [str(folder / 'raw')], workers=1).inputs)} inputs"


TASKS: Final[dict[str, Task]] = {
    "floor": (load_ours, _read),
    "heads": (load_ours, _read_heads),
    "plan": (load_ours, _plan),
}
MEASURES: Final[Sequence[Callable[[Path], Iterator[Ratio]]]] = (
    find_duplicates,
    run_whole,
    run_plan,
    run_long,
    run_signals,
    run_workers,
)


def table(ratios: Iterable[Ratio]) -> list[str]:
    """The lines of a Markdown table."""
    lines = ["| | ours | beside | | unit | times |", "|---|---:|---:|---|---|---:|"]
    lines += [f"| {r.name} | {r.ours:.3g} | {r.peer:.3g} | {r.beside} | {r.unit} | {r.ratio:.2f} |" for r in ratios]
    return lines


def measure_ratios(folder: Path | None) -> list[Ratio]:
    """Measure all ratios, and print each when it is there."""
    ratios: list[Ratio] = []
    for measure in MEASURES:
        with tempfile.TemporaryDirectory(prefix="ratios-", dir=folder) as temporary:
            rows = [*measure(Path(temporary))]
        print(*table(rows)[2:], sep="\n", flush=True)
        ratios += rows
    return ratios


def _marks(name: str) -> tuple[str, str]:
    return f"<!-- begin: python -m benchmarks.ratios, {name} -->", f"<!-- end: {name} -->"


def write_page(page: str, name: str, lines: Sequence[str]) -> None:
    """Write lines between the marks of that name in a page of the docs.

    Raises:
        SystemExit: the page does not have the marks.
    """
    path = ROOT / "docs" / page
    begin, end = _marks(name)
    text = path.read_text("utf-8")
    if begin not in text or end not in text:
        raise SystemExit(f"docs/{page} has no lines '{begin}' and '{end}'.")
    before, _, rest = text.partition(begin)
    path.write_text("\n".join((before + begin, *lines, end)) + rest.partition(end)[2], "utf-8")


def find_moved_rows(page: str, name: str, lines: Sequence[str]) -> Iterator[str]:
    """Say which last column of a row moved by more than 15 % since the last commit of the page."""
    shown = subprocess.run(["git", "show", f"HEAD:docs/{page}"], cwd=ROOT, capture_output=True, text=True, check=False)
    begin, end = _marks(name)
    before = dict(map(_last_figure, shown.stdout.partition(begin)[2].partition(end)[0].splitlines()))
    for row, figure in map(_last_figure, lines):
        old = before.get(row, "")
        is_number = all(re.fullmatch(r"[\d.]+", cell) for cell in (old, figure))
        if is_number and abs(float(figure) / float(old) - 1) > MOVED:
            yield f"{row}: {old} -> {figure}"


def _last_figure(line: str) -> tuple[str, str]:
    """A table row's name, with what it stands beside, and its last cell."""
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    return " / ".join(cells[:1] + [cell for cell in cells[1:-1] if not re.match(r"[\d,.]+$|$", cell)]), cells[-1]


def publish(page: str, name: str, lines: Sequence[str]) -> None:
    """Print a table, say what moved, and write the page."""
    print("\n".join(lines))
    for change in find_moved_rows(page, name, lines):
        print(f"moved: {change}")
    write_page(page, name, lines)


def _markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows)]


LONG: Final[dict[str, tuple[str, Callable[[Path, list[float]], list[str]]]]] = {
    "kills": ("endurance.md", lambda _, __: _markdown(kills.HEADS, kills.rows(40, [1, 2], SEED))),
    "growth": ("endurance.md", lambda folder, sizes: _markdown(growth.HEADS, growth.rows(sizes, folder, SEED))),
    "long logs": ("endurance.md", lambda folder, _: _markdown(skew.HEADS, skew.rows(skew.LOGS, [2], folder, SEED))),
    "rollouts": (
        "scaling.md",
        lambda folder, _: rollouts.make_tables(rollouts.measure_shares([0.001, 0.01], [1, 2], folder, SEED)),
    ),
    "costs": ("scaling.md", lambda folder, _: _markdown(scale.COST_HEADS, scale.cost_rows(1, folder, SEED))),
    "exchanges": ("scaling.md", lambda _, __: _markdown(scale.HEADS, scale.rows(scale.TEN_MILLION))),
}
"""Tables that take long: name → (page of the docs, what makes its lines in a folder, for sizes of `growth` in GB)."""


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true", help="make the tables that take long besides")
    parser.add_argument("--only", nargs="+", choices=LONG, default=[], help="make these tables and nothing else")
    parser.add_argument("--sizes", type=float, nargs="+", default=[0.1, 1, 10], metavar="GB", help="of growth")
    parser.add_argument("--folder", type=Path, help="where logs and output are made; removed when done")
    for name in ("task", "place"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        work(TASKS, options.task, Path(options.place))
        return
    if not options.only:
        publish("benchmarks.md", "ratios", table(measure_ratios(options.folder)))
    for name in options.only or (LONG if options.long else ()):
        page, make = LONG[name]
        with tempfile.TemporaryDirectory(prefix="ratios-", dir=options.folder) as temporary:
            publish(page, name, make(Path(temporary), options.sizes))


if __name__ == "__main__":
    main()
