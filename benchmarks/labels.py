"""Judgements of drops, made by reading the raw logs around each: one JSON line a drop, one file a rule."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

LABELS: Final = Path(__file__).parent / "labels"
VERDICTS: Final = ("right", "wrong")


class Place(NamedTuple):
    """Place of a label: a raw file relative to the corpora, a trajectory's id, a step (-1: all of it), a rule."""

    file: str
    trajectory: str
    step: int
    rule: str


@dataclass(frozen=True, slots=True)
class Label:
    """A judgement: whether the drop is right, and why, in the judge's own words."""

    place: Place
    verdict: str
    reason: str

    @property
    def right(self) -> bool:
        return self.verdict == "right"


def read_labels(folder: Path) -> dict[Place, Label]:
    """The labels of all files of a folder, by place.

    Raises:
        ValueError: a place is judged twice, or a verdict is none of `VERDICTS`.
    """
    labels: dict[Place, Label] = {}
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            values = json.loads(line)
            location = Place(values["file"], values["trajectory"], values["step"], values["rule"])
            if values["verdict"] not in VERDICTS:
                raise ValueError(f"{path.name}: a verdict is {values['verdict']!r}, not one of {VERDICTS}.")
            if location in labels or location.rule != path.stem:
                raise ValueError(f"{path.name}: {location} is judged twice, or stands in another rule's file.")
            labels[location] = Label(location, values["verdict"], values["reason"])
    return labels
