"""Samples of shards in their training form: messages cut into runs of text with and without loss.

They are built from the shards alone (`spans`, and `loss` of messages); nothing is rendered anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from trajmill.app.pages.run_files import RunFiles

_FACT_CHARACTERS: Final = 80
"""Largest size of a fact about a sample. Longer texts belong to its content."""


class Run(NamedTuple):
    """Run of text: a flag of the loss, and the class of its characters if measured."""

    text: str
    loss: bool
    label: str | None = None


class Said(NamedTuple):
    """Message of a sample: its role, and its text in runs. A document is one message without a role."""

    role: str
    runs: Sequence[Run]

    @property
    def bears_loss(self) -> bool:
        """True if a run of the message is under loss."""
        return any(run.loss for run in self.runs)


@dataclass(frozen=True, slots=True)
class Rendered:
    """Sample in its training form.

    Attributes:
        pool: cpt, sft, rl or eval, or the name of another stage of the shards.
        number: Its row number within the pool and domain.
        trajectory_id: Trajectory of the sample; None for a passage or an instruction.
        facts: Other short values of its row.
        messages: Messages in order. The last message of rl and eval is the expected answer, and is under loss.
    """

    pool: str
    domain: str
    number: int
    id: str
    trajectory_id: str | None
    facts: Mapping[str, Any]
    messages: Sequence[Said]

    @property
    def labels(self) -> set[str]:
        """Classes of its text under loss; the empty one if none was measured."""
        return {run.label or "" for message in self.messages for run in message.runs if run.loss}


def runs(text: str, spans: Iterable[Mapping[str, Any]]) -> list[Run]:
    """Cut a text into runs by the spans under loss, each with `begin`, `end` (code points) and `label`."""
    parts: list[Run] = []
    done = 0
    for span in sorted(spans, key=lambda labelled: labelled["begin"]):
        begin, end = max(span["begin"], done), min(span["end"], len(text))
        if done < begin:
            parts.append(Run(text[done:begin], loss=False))
        if begin < end:
            parts.append(Run(text[begin:end], loss=True, label=span["label"]))
        done = max(done, end)
    if done < len(text):
        parts.append(Run(text[done:], loss=False))
    return parts


def sample_counts(files: RunFiles) -> dict[tuple[str, str], int]:
    """Count the samples of each (pool, domain)."""
    return {component: sum(map(_count, paths)) for component, paths in files.shards.items()}


def _count(path: Path) -> int:
    if path.suffix == ".jsonl":
        with path.open("rb") as stream:
            return sum(1 for _ in stream)
    import polars as pl  # here, since a report shows samples without it

    return int(pl.scan_parquet(path, glob=False).select(pl.len()).collect().item())


def sample_at(files: RunFiles, pool: str, domain: str, number: int) -> Rendered | None:
    """Load the sample with that number in a pool and domain; None if there are fewer."""
    rest = number
    for path in files.shards.get((pool, domain), ()):
        size = _count(path)
        if rest < size:
            return render_row(pool, domain, number, _row(path, rest))
        rest -= size
    return None


def _row(path: Path, number: int) -> dict[str, Any]:
    if path.suffix == ".jsonl":
        with path.open("rb") as stream:
            line = next(line for index, line in enumerate(stream) if index == number)
        row: dict[str, Any] = json.loads(line)
        return row
    import polars as pl

    return pl.scan_parquet(path, glob=False).slice(number, 1).collect().to_dicts()[0]


def samples_of(files: RunFiles, trajectory_id: str, domain: str, most: int = 8) -> list[tuple[str, str, int]]:
    """List (pool, domain, number) of at most `most` samples made from a trajectory of a domain."""
    addresses = []
    for (pool, of), paths in files.shards.items():
        if of == domain:
            ids = [shown_id for path in paths for shown_id in _trajectories(path)]
            addresses += [(pool, of, number) for number, shown_id in enumerate(ids) if shown_id == trajectory_id]
    return addresses[:most]


def _trajectories(path: Path) -> list[str | None]:
    if path.suffix == ".jsonl":
        return [json.loads(line).get("trajectory_id") for line in path.read_bytes().splitlines()]
    import polars as pl

    scan = pl.scan_parquet(path, glob=False)
    names = scan.collect_schema().names()
    if "trajectory_id" in names:
        return scan.select("trajectory_id").collect()["trajectory_id"].to_list()
    ids = scan.select(pl.col("extra_info").struct.field("trajectory_id")) if "extra_info" in names else None
    return ids.collect()["trajectory_id"].to_list() if ids is not None else []


def render_row(pool: str, domain: str, number: int, row: Mapping[str, Any]) -> Rendered:
    """Convert a row of a shard to its training form."""
    info = row.get("extra_info") or row
    key = str(row.get("sample_id") or info.get("id") or number)
    facts = {
        name: value
        for name, value in {**row, **info}.items()
        if isinstance(value, str | int | float | bool) and len(str(value)) <= _FACT_CHARACTERS
    }
    return Rendered(pool, domain, number, key, info.get("trajectory_id"), facts, _messages(row))


def _messages(row: Mapping[str, Any]) -> list[Said]:
    if isinstance(row.get("text"), str):
        return [Said("", runs(row["text"], row.get("spans") or ()))]
    if row.get("messages"):
        return [
            Said(message["role"], _message_runs(number, message, row.get("spans")))
            for number, message in enumerate(row["messages"])
        ]
    if "reward_model" in row:
        asked = [Said(message["role"], [Run(message["content"], loss=False)]) for message in row["prompt"]]
        truth = json.loads(row["reward_model"]["ground_truth"])["observation"]
        return [*asked, Said("answer", [Run(truth, loss=True)])]
    pairs = list(zip(row.get("prompt") or (), row.get("response") or (), strict=False))
    system = row.get("system_str")
    messages = [Said("system", [Run(system, loss=False)])] if system else []
    for number, (before, answer) in enumerate(pairs):
        messages.append(Said("user", [Run(before, loss=False)]))
        messages.append(Said("assistant", [Run(answer, loss=number == len(pairs) - 1)]))
    return messages


def _message_runs(number: int, message: Mapping[str, Any], spans: Iterable[Mapping[str, Any]] | None) -> list[Run]:
    content = message["content"] or ""
    mine = [span for span in spans or () if span["message"] == number]
    if mine or spans is not None:
        return runs(content, mine)
    return [Run(content, loss=bool(message["loss"]))]
