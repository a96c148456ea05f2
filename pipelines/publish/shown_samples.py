"""Samples in the form that a trainer sees, whatever their pool: the text before each answer, and the answer.

They are read from the files of a dataset folder alone. System prompts, which many samples share, are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from trajmill.pipelines.render.fixed_texts import ACTION, ASKING, BETWEEN, MARKER, heading
from trajmill.pipelines.storage.folders import Folder
from trajmill.pipelines.storage.parquet import read_batches

OWNED: Final = ("group", "trajectory_id", "task_hash", "instance_hash")
"""Values that only one pool's samples may have."""

_ENDING: Final = "\n"
"""End of a document."""


class Exchange(NamedTuple):
    """Text after the previous answer, the answer, and a flag for answers that are learned or asked for."""

    before: str
    answer: str
    taught: bool


@dataclass(frozen=True, slots=True)
class Shown:
    """A sample: its id, its keys (`OWNED`; None for a key that it lacks), and its exchanges."""

    id: str
    owned: Mapping[str, str | None]
    exchanges: Sequence[Exchange]

    def text(self) -> str:
        """Join its actions and answers.

        States before actions are left out, since they mostly repeat previous answers.
        """
        return "\n".join(
            part for exchange in self.exchanges for part in (exchange.before.rpartition(ACTION)[2], exchange.answer)
        )


def shown_samples(folder: Folder, pool: str, name: str) -> Iterator[Shown]:
    """Read the samples of one file of a dataset folder, in order."""
    for row in _rows(folder, pool, name):
        values = row["extra_info"] if pool == "rl" else row
        key = row["sample_id"] if pool == "eval" else values["id"]
        yield Shown(key, {kind: values.get(kind) for kind in OWNED}, list(_EXCHANGES[pool](row)))


def _rows(folder: Folder, pool: str, name: str) -> Iterator[dict[str, Any]]:
    if pool == "eval":
        yield from (json.loads(line) for line in folder.read(name).splitlines())
    else:
        for batch in read_batches(folder, name):
            yield from batch.to_pylist()


def _of_documents(row: Mapping[str, Any]) -> Iterator[Exchange]:
    """Yield the turns of a document, each from its heading to the next.

    A passage is a single answer without a text before it.
    """
    text: str = row["text"].removesuffix(_ENDING)
    markers = [span["begin"] for span in row["spans"] if text.startswith(MARKER, span["begin"])]
    begin = text.rfind(BETWEEN + heading(1), 0, markers[0]) if markers else -1
    if begin < 0:
        yield Exchange("", text, taught=True)
        return
    taught, number = set(markers), 1
    while begin >= 0:
        number += 1
        end = text.find(BETWEEN + heading(number), begin)
        turn = text[begin + len(BETWEEN) : end if end >= 0 else len(text)]
        begins = [marker for marker in markers if begin < marker < begin + len(BETWEEN) + len(turn)]
        before, answer = _split_turn(turn, begins[0] - begin - len(BETWEEN) if begins else None)
        yield Exchange(before, answer, taught=bool(taught.intersection(begins)))
        begin = end


def _split_turn(turn: str, marker: int | None) -> tuple[str, str]:
    """Split a turn into user and assistant text. The marker's position is known if the turn is learned."""
    marker_at = turn.find(BETWEEN + MARKER) + len(BETWEEN) if marker is None else marker
    return turn[: marker_at - len(BETWEEN)], turn[marker_at + len(MARKER) :]


def _of_conversations(row: Mapping[str, Any]) -> Iterator[Exchange]:
    before: list[str] = []
    for message in row["messages"]:
        if message["role"] == "assistant":
            answer = message["content"].removeprefix(MARKER)
            yield Exchange(BETWEEN.join(before), answer, taught=bool(message["loss"]))
            before = []
        elif message["role"] != "system":
            before.append(message["content"])


def _of_questions(row: Mapping[str, Any]) -> Iterator[Exchange]:
    contents = [message["content"] for message in row["prompt"] if message["role"] != "system"]
    for before, answer in zip(contents[:-1:2], contents[1::2], strict=True):
        yield Exchange(before, answer.removeprefix(MARKER), taught=False)
    truth = json.loads(row["reward_model"]["ground_truth"])["observation"]
    yield Exchange(contents[-1].removesuffix(ASKING), truth, taught=True)


def _of_benchmark_rows(row: Mapping[str, Any]) -> Iterator[Exchange]:
    last = len(row["prompt"]) - 1
    for number, (before, answer) in enumerate(zip(row["prompt"], row["response"], strict=True)):
        yield Exchange(before, answer.removeprefix(MARKER), taught=number == last)


_EXCHANGES: Final = {"cpt": _of_documents, "sft": _of_conversations, "rl": _of_questions, "eval": _of_benchmark_rows}
