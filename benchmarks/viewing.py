"""`python -m benchmarks.viewing`: how long the viewer takes to open a run of many trajectories, for a page, for a step.

The run is that of the samples, with every trajectory as often as it takes, under ids of its own.
"""

from __future__ import annotations

import argparse
import http.client
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import polars as pl
import pyarrow.parquet as pq
from starlette.testclient import TestClient

from trajmill.app.pages.contents import RunContents
from trajmill.app.viewer.app import prepare, viewer
from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.run import Run
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import ParquetSink

_COPIES_A_FILE = 25
_STARTS = 5
_TOKEN = "t"


def enlarge_run(small: Path, large: Path, copies: int) -> None:
    """Writes a run of so many copies of another one's rows."""
    for file in sorted(small.glob("*/*/*.parquet")):
        stage, domain = file.parts[-3:-1]
        table = pq.read_table(file)
        if stage not in {"transitions", "verdicts", "rejects"} or not table.num_rows:
            continue
        for number in range(-(-copies // _COPIES_A_FILE)):
            sink = ParquetSink(Folder(str(large)), f"{stage}/{domain}/{file.stem}-{number:05d}.parquet", table.schema)
            for copy in range(number * _COPIES_A_FILE, min(copies, (number + 1) * _COPIES_A_FILE)):
                frame = pl.DataFrame(table)
                named = [
                    (pl.lit(f"{copy:08x}") + pl.col(name).str.slice(8)).alias(name)
                    for name in ("row_id", "trajectory_id")
                    if name in frame.columns
                ]
                changed = frame.with_columns(named).select(table.schema.names).to_arrow().cast(table.schema)
                sink.write(changed.combine_chunks().to_batches()[0])
            sink.close()
    (large / "run.json").write_bytes((small / "run.json").read_bytes())


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trajectories", type=int, default=100_000)
    parser.add_argument("--out", help="where the run is kept, and taken from if it is there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        large = Path(arguments.out or f"{scratch}/large")
        if not large.is_dir():
            small = Path(scratch) / "small"
            raws = [f"samples/{name}" for name in ("mcp", "search", "terminal", "swe", "web", "os", "android")]
            Run(load_recipe("all"), raws, str(small), Execution()).run()
            enlarge_run(small, large, -(-arguments.trajectories // len(RunContents(str(small)).index)))
        _measure_starts(str(large))
        _measure(large)


def _measure_starts(out: str) -> None:
    """From the command to its first page, by the script that is installed, as often as `_STARTS`."""
    taken = []
    for _ in range(_STARTS):
        begin = time.perf_counter()
        with _command(out) as (process, address):
            announced = time.perf_counter() - begin
            page = _first_page(address)
            taken.append((time.perf_counter() - begin, _cpu_of(process.pid), announced, b"/t/" in page))
    middle = sorted(taken)[len(taken) // 2]
    assert all(start[-1] for start in taken)
    print(
        f"from the command to the first page: {middle[0]:.2f} s ({middle[1]:.2f} s CPU), the address after"
        f" {middle[2]:.2f} s; from {min(taken)[0]:.2f} to {max(taken)[0]:.2f} s"
    )


@contextmanager
def _command(out: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`trajmill view`, and the address that it tells."""
    script = Path(sys.executable).with_name("trajmill")
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(
        [str(script), "view", out], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=plain
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().split()[-1]
    finally:
        process.terminate()
        process.communicate()


def _first_page(address: str) -> bytes:
    """The page that a browser shows who opens the address: behind the token, and the page that sets the cookie."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port)
    connection.request("GET", f"{parts.path}?{parts.query}")
    answer = connection.getresponse()
    cookie = str(answer.headers["set-cookie"]).partition(";")[0]
    answer.read()
    connection.request("GET", parts.path, headers={"cookie": cookie})
    return connection.getresponse().read()


def _cpu_of(pid: int) -> float:
    """Seconds that a process has computed, without what came before its last words in parentheses."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _measure(large: Path) -> None:
    begin, cpu = time.perf_counter(), _cpu()
    contents = RunContents(str(large))
    rows = int(contents.index["steps"].sum())
    opened = time.perf_counter() - begin
    print(f"{len(contents.index):,} trajectories, {rows:,} transitions")
    print(f"read in {opened:.2f} s ({_cpu() - cpu:.2f} s CPU), held in {contents.index.estimated_size('mb'):.0f} MB")
    client = TestClient(viewer(contents, _TOKEN, 80), base_url="http://localhost:80", headers={"host": "localhost:80"})
    client.get("/", params={"token": _TOKEN})
    prepare(contents)
    keys = contents.index["key"].gather_every(len(contents.index) // 40)
    pages = {
        "first page": ["/"],
        "a page of a choice": ["/?domain=web&fate=dropped", "/?reason=no_op", "/?q=calendar"],
        "a step": [f"/t/{key}/0" for key in keys],
        "rejects": ["/rejects", "/rejects?reason=no_op", "/rejects/7"],
        "copies": ["/copies"],
        "a search of every step": ["/search?q=calendar", "/search?q=nowhere+in+it"],
    }
    for name, paths in pages.items():
        taken, used = zip(*(_time_page(client, path) for path in paths), strict=True)
        middle = sorted(taken)[len(taken) // 2]
        print(
            f"{name}: {middle * 1000:.0f} ms, at most {max(taken) * 1000:.0f} ms"
            f" ({sum(used) / len(used) * 1000:.0f} ms CPU, at most {max(used) * 1000:.0f})"
        )
    print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _time_page(client: TestClient, path: str) -> tuple[float, float]:
    """Seconds, and seconds of a processor, until a page is there."""
    begin, cpu = time.perf_counter(), time.process_time()
    answer = client.get(path)
    assert answer.status_code == 200, (path, answer.status_code)
    return time.perf_counter() - begin, time.process_time() - cpu


if __name__ == "__main__":
    main()
