"""The share of invented text of harnesses that is found, and of real output that is taken for it.

    python -m benchmarks.harness_frames OUT
    python -m benchmarks.harness_frames OUT --shares [BEFORE]

With `--shares` the share of real answers that looks like text of a harness, by agent and version, and its lines; beside
it that of BEFORE, a run over the same logs by other parsers. Otherwise, twenty agents are made of the real answers of a
finished run, each with wrappers of its own around them: five put theirs around one answer in twenty-five. The miner
sees the wrapped answers alone.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table
from rich.text import Text

from trajmill.quality.answer_edges import (
    EDGES_SCHEMA,
    PLACES,
    EdgeLines,
    Records,
    edge_records,
    find_example,
)
from trajmill.quality.harness_text import (
    count_framed,
    count_skeletons,
    find_frames,
    spans_in_frames,
)
from trajmill.quality.variety import Varying
from trajmill.schemas.transition import TRANSITION_SCHEMA, encode_schema

Row = dict[str, Any]
ANSWERS: Final = 250
OF_AGENT: Final = 300
RARE: Final = 0.04


WRAPPERS: Final = (
    ("Command executed in {seconds} s, status {digit}\n", ""),
    ("", "\n[done {id} after {number} ms]"),
    ("Tool: {tool}\nCall id: {id}{id}\n---\n", ""),
    ('<tool_result id="{id}">\n', "\n</tool_result>"),
    ("", "\nRemember: answer in the language of the task.\nTokens left: {number},{number}"),
    ("Result> ", ""),
    ("", " (exit status {digit}, {number} bytes)"),
    ("[/home/{id}/work] $ {command}\n", ""),
    ("2026-03-1{digit}T12:4{digit}:07Z INFO call finished\n", ""),
    ("", "\nSession {id}-{id} is still open; send keys with write_stdin."),
    ("### Output of `{command}`\n\n", ""),
    ("", "\n<environment_details>\n# Current time\n{digit}:1{digit} PM\n# Cost\n${seconds}\n</environment_details>"),
    ("Observation #{number}:\n", "\nEnd of observation #{number}."),
    ("Stdout and stderr of the process follow.\n", ""),
    ("", "\nNote: the output was saved to /tmp/{id}/{id}.log"),
    ("", "\nWarning: the context is {digit}{digit}% full"),
    ("<budget>{digit} calls left</budget>\n", ""),
    ("", "\n(output repeated from call {id})"),
    ("Heads up: the working tree has changes that are not committed.\n", ""),
    ("", "\n[linter] {number} new diagnostics in {digit} files"),
)
"""The texts before and behind the answers of each agent."""

FIRST_RARE: Final = 15


def all_rows(out: Path) -> Iterator[Row]:
    """The transitions of a run."""
    for path in sorted((out / "transitions").rglob("*.parquet")):
        yield from pq.read_table(path).to_pylist()


def real_rows(out: Path) -> list[Row]:
    """The transitions of a run whose answers are texts that an agent was given, in an order by hash."""
    rows = []
    for row in all_rows(out):
        after = row["next_observation"]
        if row["agent"]["name"] and after and after["content"] and after["origin"] == "environment":
            rows.append(row)
    rows = [row for row in rows if row["next_observation"]["form"] in ("response", "stream")]
    rows.sort(key=lambda row: hashlib.sha256(row["row_id"].encode()).digest())
    numbers: Counter[str] = Counter()
    chosen = []
    for row in rows:
        numbers[row["agent"]["name"]] += 1
        chosen += [row] if numbers[row["agent"]["name"]] <= OF_AGENT else []
    return chosen


def plant_frames(rows: list[Row]) -> Iterator[tuple[str, list[Row], list[tuple[int, int]]]]:
    """(name, rows with wrapped answers, characters before and behind each) of the invented agents."""
    for number, wrapper in enumerate(WRAPPERS):
        chance = random.Random(number)
        chosen = chance.sample(rows, min(ANSWERS, len(rows)))
        wrapped, around = [], []
        for row in chosen:
            fields = _fields(chance, row)
            before, behind = (text.format(**fields) for text in wrapper)
            if number >= FIRST_RARE and chance.random() >= RARE:
                before = behind = ""
            content = before + row["next_observation"]["content"] + behind
            after = {**row["next_observation"], "content": content, "envelope": None}  # no longer the object's text
            agent = {"name": f"agent-{number + 1:02}", "version": "1.0", "model": None}
            wrapped.append({**row, "agent": agent, "next_observation": after})
            around.append((len(before), len(behind)))
        yield f"agent-{number + 1:02}", wrapped, around


def _fields(chance: random.Random, row: Row) -> dict[str, str]:
    return {
        "digit": str(chance.randint(0, 9)),
        "number": str(chance.randint(1, 999)),
        "seconds": f"{chance.uniform(0, 9):.2f}",
        "id": "".join(chance.choices("0123456789abcdefghijklmnopqrstuvwxyz", k=10)),
        "tool": row["action"]["name"],
        "command": _command(row),
    }


def _command(row: Row) -> str:
    arguments = json.loads(row["action"]["arguments"] or "{}")
    command = arguments.get("command") if isinstance(arguments, dict) else None
    return command.split("\n", 1)[0] if isinstance(command, str) else row["action"]["name"]


def mine_frames(rows: list[Row]) -> tuple[pa.Table, dict[int, Records]]:
    """The edges of transitions, and the frames in them by group."""
    batch = pa.RecordBatch.from_pylist(rows, TRANSITION_SCHEMA).cast(encode_schema())
    edges = pa.Table.from_batches(EdgeLines().add(batch), EDGES_SCHEMA)
    counts = count_skeletons(edges, pa.Table.from_batches(Varying().add(batch)), 0)
    return edges, {group: find_frames(answers, some) for group, (answers, some) in counts.items()}


def shares(out: Path) -> dict[tuple[str, str], tuple[int, float, list[str]]]:
    """By agent and version: answers that are looked at, the share of their characters in frames, and the frames."""
    by_agent: dict[tuple[str, str], list[Row]] = {}
    for row in all_rows(out):
        name = row["agent"]["name"] or row["provenance"]["connector"]
        by_agent.setdefault((name, row["agent"]["version"] or ""), []).append(row)
    by_agent_shares = {}
    for agent, rows in sorted(by_agent.items()):
        edges, frames = mine_frames(rows)
        if size := pc.sum(edges["size"]).as_py():
            lines = [
                f"{PLACES[frame['place']]} {frame['answers']}: "
                + find_example(rows[int(frame["row"])], int(frame["place"]), int(frame["skeleton"]))[1][:80]
                for some in frames.values()
                for frame in np.sort(some, order="answers")[::-1]
            ]
            looked_at = int(np.count_nonzero(edges["group"].to_numpy()))
            by_agent_shares[agent] = looked_at, int(count_framed(edges, frames).sum()) / size, lines
    return by_agent_shares


def show_shares(now: Path, before: Path | None) -> None:
    """Print the shares of a run, and of another one."""
    table = Table("agent", "answers", "before", "now", "lines")
    others = {} if before is None else shares(before)
    for agent, (answers, share, lines) in shares(now).items():
        earlier = f"{others[agent][1]:.2%}" if agent in others else ""
        table.add_row(" ".join(agent).strip(), f"{answers:,}", earlier, f"{share:.2%}", Text("\n".join(lines)))
    Console(width=160).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--shares", nargs="?", type=Path, const=Path(), metavar="BEFORE")
    options = parser.parse_args()
    if options.shares is not None:
        show_shares(options.out, options.shares if options.shares.name else None)
        return
    rows = real_rows(options.out)
    table = Table("agent", "planted characters", "found", "real characters", "taken for the harness's")
    totals = np.zeros(4, np.int64)
    for name, wrapped, around in plant_frames(rows):
        edge_table, frames = mine_frames(wrapped)
        known = {(int(frame["place"]), int(frame["skeleton"])) for some in frames.values() for frame in some}
        numbers, records = edge_records(edge_table)
        counts = np.zeros(4, np.int64)
        for number, (row, (before, behind)) in enumerate(zip(wrapped, around, strict=True)):
            text = row["next_observation"]["content"]
            spans = spans_in_frames(records[numbers == number].tolist(), known)
            marked = {offset for begin, end in spans for offset in range(begin, end) if text[offset] != "\n"}
            edges = (*range(before), *range(len(text) - behind, len(text)))
            own = {offset for offset in edges if text[offset] != "\n"}
            counts += (len(own), len(own & marked), len(text) - len(own), len(marked - own))
        totals += counts
        table.add_row(name, *_cells(counts))
    table.add_row("all", *_cells(totals))
    Console(width=120).print(table)


def _cells(counts: npt.NDArray[np.int64]) -> tuple[str, ...]:
    planted, hits, real, wrong = counts.tolist()
    return f"{planted:,}", f"{hits / max(planted, 1):.3f}", f"{real:,}", f"{wrong / max(real, 1):.4%}"


if __name__ == "__main__":
    main()
