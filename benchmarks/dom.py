"""Measure how fast a DOM is rebuilt and shown as the compact tree, in MB of its source per CPU-second.

    python -m benchmarks.dom --raw FOLDER_OF_LOGS

Pages of HTML are those in the real HAR, CDP and MHTML logs below the folder, and those of Mind2Web; beside each the
library that parses it, alone. Recordings of changes (rrweb, Playwright traces) are generated, see `screen_logs`: there
every step shows a whole page anew, so that pages a second and their size are what tells. Caches are emptied each time.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from benchmarks.inner import pages_read
from benchmarks.logs import screen_logs
from benchmarks.parsers import fastest, forgetter, parse, real_logs, take_largest
from trajmill.connectors.connector import MemoryBlob
from trajmill.connectors.registry import connector
from trajmill.connectors.screens.page import page_of
from trajmill.connectors.web.markup import html_document
from trajmill.connectors.web.mind2web.page_snapshot import snapshot
from trajmill.schemas import Trajectory

HTML: Final = ("har", "cdp")
RECORDINGS: Final = ("rrweb", "playwright_trace")


def pages_of(names: Sequence[str], raw: str) -> list[tuple[bytes, Callable[[bytes], Any]]]:
    """The pages that the logs of these formats hold, each with what parses it."""
    logs = real_logs(raw)
    forgetter()()
    with pages_read() as pages:
        for name in names:
            parse(connector(name), take_largest(logs[name]))
    return pages


def html_lines(title: str, names: Sequence[str], raw: str, read: Callable[[str], Any], seconds: float) -> Iterator[str]:
    """The row of the pages of some formats."""
    pages = pages_of(names, raw)
    texts = [data.decode() for data, _ in pages]
    size = sum(len(data) for data, _ in pages) / 1e6

    def rebuilt() -> None:
        for text in texts:
            read(text)

    def shown() -> None:
        for text in texts:
            page_of(read(text))

    def plain() -> None:
        for data, parser in pages:
            parser(data)

    speeds = [size / took for took in fastest([plain, rebuilt, shown], seconds)]
    yield f"| {title} | {len(pages)} | {size:.2f} | {' | '.join(f'{speed:.1f}' for speed in speeds)} |"


def recording_line(name: str, seconds: float) -> str:
    """The row of a generated recording: MB of what its pages show, beside MB of the log."""
    blob = MemoryBlob("generated", screen_logs.log(name))
    reader, forget = connector(name), forgetter()
    steps = [step for record in reader.parse(blob) if isinstance(record, Trajectory) for step in record.steps]
    texts = [step.next_observation.content or "" for step in steps if step.next_observation is not None]
    size, shown = len(blob.read()) / 1e6, sum(map(len, texts)) / 1e6

    def parsed() -> None:
        forget()
        parse(reader, [blob])

    took = fastest([parsed], seconds)[0]
    speeds = f"{size / took:.2f} | {len(texts) / took:.0f} | {shown / took:.1f}"
    return f"| {name} | {size:.2f} | {len(texts)} | {shown:.1f} | {speeds} |"


def main() -> None:
    """Prints both tables."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--raw", required=True, help="folder of real logs")
    asked.add_argument("--seconds", type=float, default=1.0, help="CPU seconds of each figure")
    options = asked.parse_args()
    print("| pages | number | MB | parsed by the library, MB/s | as a DOM, MB/s | as a tree, MB/s |")
    print("|---|---:|---:|---:|---:|---:|")
    for row in html_lines("HTML in HAR, CDP, MHTML", HTML, options.raw, html_document, options.seconds):
        print(row)
    for row in html_lines("Mind2Web", ["mind2web"], options.raw, lambda text: snapshot(text).document, options.seconds):
        print(row)
    print()
    print("| recording (generated) | MB | pages | MB of trees | MB of log/s | pages/s | MB of trees/s |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name in RECORDINGS:
        print(recording_line(name, options.seconds))


if __name__ == "__main__":
    main()
