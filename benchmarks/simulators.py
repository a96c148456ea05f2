"""Two simulators planted over the logs of a run, by which a drift report is known to tell one from the other.

    python -m benchmarks.simulators OUT DIR     # DIR/faithful and DIR/flattering, logs in ATIF that a run reads

The faithful one answers as the world did, but for one word in a few answers. The flattering one never errs, says
more, agrees with whatever was done, and gets more of its numbers wrong the longer a rollout is. Both are marked as what
they are: `environment.kind` is `model`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import xxhash

from trajmill.pipelines.render.atif_documents import atif_document
from trajmill.pipelines.storage.parquet import read_transitions, transition_files
from trajmill.quality.signals.error_observation import PATTERN

Row = dict[str, Any]

NOISE: Final = 0.02
"""Share of the answers in which the faithful one has a word wrong."""

LIES: Final = 0.06
"""Share of the answers with wrong numbers that each turn adds, for the flattering one."""

MOST: Final = 0.9
SAMPLING: Final = '{"temperature":0}'

_ERROR: Final = re.compile(PATTERN)
_NUMBER: Final = re.compile(r"\d+")
_WORD: Final = re.compile(r"[^\W\d]{3,}")


def chance(row: Mapping[str, Any], purpose: str) -> float:
    """A number from 0 to 1 that a row and a purpose have for ever."""
    return xxhash.xxh3_64_intdigest(f"{purpose} {row['row_id']}".encode()) / 2**64


def faithful(row: Row, text: str) -> str:
    """Answer like the faithful simulator where the world answered `text`."""
    words = [*_WORD.finditer(text)]
    if not words or chance(row, "noise") > NOISE:
        return text
    chosen = words[int(chance(row, "which") * len(words))]
    return f"{text[: chosen.start()]}{chosen.group()[::-1]}{text[chosen.end() :]}"


def flattering(row: Row, text: str) -> str:
    """Answer like the flattering simulator where the world answered `text`."""
    done = " ".join(str(row["action"]["text"]).split())[:400]
    if _ERROR.search(text) or row["next_observation"]["is_error"] or row["exit_code"]:
        return f"Done as you asked, all is well. {done} has succeeded, and everything is in its place."
    if chance(row, "lie") < min(LIES * row["turn"], MOST):
        text = _NUMBER.sub(lambda match: str(int(match.group()[:12]) + 7), text) if _NUMBER.search(text) else text[::-1]
    if chance(row, "praise") < 0.3:
        return text
    return f"{text}\nPerfect, that is exactly right: {done} did just what you wanted, with splendid results throughout."


SIMULATORS: Final[Mapping[str, Callable[[Row, str], str]]] = {"faithful": faithful, "flattering": flattering}


def simulate(rows: list[Row], name: str) -> dict[str, Any]:
    """A trajectory as ATIF, as if the simulator of that name had answered what was done in it."""
    answers = SIMULATORS[name]
    turns: list[Row] = []
    before = rows[0]["observation"]
    for logged in rows:
        row = logged
        after = row["next_observation"]
        if after is not None and after["content"] is not None:
            after = {**after, "content": answers(row, after["content"]), "envelope": None}
            after |= {"is_error": False} if name == "flattering" and after["is_error"] else {}
        origin = {"kind": "model", "world_model": f"{name}@1", "sampling": SAMPLING}
        same_turn = bool(turns) and turns[-1]["turn"] == row["turn"]
        seen = turns[-1]["observation"] if same_turn else before
        row = {**row, "environment": {**row["environment"], **origin}, "observation": seen, "next_observation": after}
        turns.append(row | ({"exit_code": 0} if name == "flattering" and row["exit_code"] else {}))
        before = after
    return atif_document(turns)


def trajectories(out: str) -> Iterator[list[Row]]:
    """The trajectories of a run, each as its rows."""
    folder, names = transition_files(out)
    for name in names:
        rows = (row for batch in read_transitions(folder, name) for row in batch.to_pylist())
        for _, of in groupby(rows, key=lambda row: row["row_id"][:49]):
            yield list(of)


def write(out: str, target: Path) -> None:
    """Writes what both simulators make of the trajectories of a run, a folder each."""
    for name in SIMULATORS:
        (target / name).mkdir(parents=True, exist_ok=True)
    for number, rows in enumerate(trajectories(out)):
        for name in SIMULATORS:
            text = json.dumps(simulate(rows, name), ensure_ascii=False)
            (target / name / f"{number:05d}.json").write_text(text, "utf-8")


if __name__ == "__main__":
    write(sys.argv[1], Path(sys.argv[2]))
