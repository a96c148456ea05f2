r"""AgentWorldBench (Qwen-AgentWorld, arXiv 2606.24597), recognized and refused: it is held out from every training set.

>>> show(AgentWorldBench(), r'''
... {"task": "terminal", "id": 1, "prompt": ["### Turn 1\n**Action:**\n…"], "response": ["notes.txt"], '''
... r'''"current_prompt": "### Turn 1\n**Action:**\n…", "system_str": "…", "turn_idx": 1, "total_turns": 1}
... ''')
refused | benchmark

There is one file per domain, `<domain>_test.jsonl`, with one sample per line: `task`, `id`, `prompt` and `response`
(lists that hold all turns of the trajectory), `current_prompt`, `system_str`, `turn_idx` (1-based) and `total_turns`.
As raw input each row is a reject of reason `benchmark`; the evaluation split that trajmill writes has the same form and
is refused too. `items` reads a file for evaluation and decontamination. It is never made into a trajectory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from trajmill.connectors.connector import Blob, Connector, Sniff
from trajmill.connectors.published.tables import Table
from trajmill.connectors.reading.documents import opening
from trajmill.connectors.reading.fields import plain_text
from trajmill.schemas import DOMAINS, ParseError, Reject, Trajectory

COLUMNS: Final = frozenset({"prompt", "response", "current_prompt", "system_str", "turn_idx"})
"""Columns of the benchmark, in JSON Lines or Parquet; any table with them is the benchmark."""

_KEYS: Final = COLUMNS | {"task", "id", "total_turns"}
_TURN: Final = b"### Turn "
_FILE: Final = "_test.jsonl"


@dataclass(frozen=True, slots=True)
class Item:
    """One sample of the benchmark.

    Attributes:
        id: the benchmark's id, unique within a domain.
        domain: one of the seven domains, or the benchmark's own word for another one.
        prompts: the actions of all turns, as prompted, including the evaluated one.
        responses: the real answers of the environment to each; a context must cut prompts and responses at `turn`.
        system: the system prompt of the sample, most of which is the same in all samples of a domain.
        turn: the evaluated turn, from 0.
        place: byte offset of the row in JSON Lines, number of the row in Parquet.
    """

    id: str
    domain: str
    prompts: tuple[str, ...]
    responses: tuple[str, ...]
    system: str
    turn: int
    place: int

    @property
    def texts(self) -> tuple[str, ...]:
        """Texts that must not occur in a training set: every prompt and response, later turns too, in order."""
        return (*self.prompts, *self.responses)


class AgentWorldBench(Connector):
    """The benchmark's files; every row is rejected."""

    name: ClassVar[str] = "agentworldbench"
    version: ClassVar[str] = "2"
    domains: ClassVar[tuple[str, ...]] = DOMAINS
    title: ClassVar[str] = "AgentWorldBench samples (JSONL; rejected: held out for evaluation)"

    def sniff(self, head: bytes, uri: str) -> Sniff | None:
        if b'"prompt"' not in head and b'"system_str"' not in head:
            return None
        start = opening(head)
        first = start.values[0] if start is not None else None
        if isinstance(first, list):
            first = first[0] if first else None
        if not isinstance(first, dict):
            return None
        if first.keys() >= COLUMNS:
            return Sniff(0.95, "samples with prompt, response, current_prompt, system_str and turn_idx")
        begins = first.keys() >= {"task", "id"} and bool(first.keys() & {"prompt", "system_str"})
        if begins and first.keys() <= _KEYS and (uri.endswith(_FILE) or _TURN in head):
            return Sniff(0.9, "begins as a sample does, with task, id and turns")
        return None

    def parse(self, blob: Blob) -> Iterator[Trajectory | Reject]:
        empty = True
        for position, row in Table(blob).rows():
            empty = False
            yield (
                Reject.of(row, "record", self.name)
                if isinstance(row, ParseError)
                else self._refused(blob, position, row)
            )
        if empty:
            raise ParseError(blob.uri, 0, "empty", "wanted samples of AgentWorldBench, met nothing")

    def _refused(self, blob: Blob, position: int, row: Mapping[str, Any]) -> Reject:
        if row.keys() >= COLUMNS:
            return refusal(blob, self.name, position)
        detail = f"wanted a sample with {', '.join(sorted(COLUMNS - row.keys()))}"
        return Reject("record", "bad_sample", detail, blob.uri, offset=position, connector=self.name)


def refusal(blob: Blob, name: str, position: int) -> Reject:
    """Return the reject of a sample that is raw input of a training set."""
    detail = "a sample of AgentWorldBench is held out for evaluation and never trained on"
    return Reject("trajectory", "benchmark", detail, blob.uri, offset=position, connector=name, transitions=1)


def items(blob: Blob) -> Iterator[Item]:
    """Yield the samples of a file of the benchmark, in order, for evaluation and for decontamination.

    Args:
        blob: one file: JSON Lines, a JSON array, Parquet or Arrow.

    Raises:
        ParseError: a row is no sample of the benchmark. An unread part of it could not be held out.
    """
    for position, row in Table(blob).rows():
        if isinstance(row, ParseError):
            raise row
        if not row.keys() >= COLUMNS:
            detail = f"wanted a sample of AgentWorldBench with {', '.join(sorted(COLUMNS - row.keys()))}"
            raise ParseError(blob.uri, position, "bad_sample", detail)
        yield _item(blob, position, row)


def _item(blob: Blob, position: int, row: Mapping[str, Any]) -> Item:
    prompts, responses = _texts(row["prompt"]), _texts(row["response"])
    current, turn = row["current_prompt"], row["turn_idx"]
    if isinstance(current, str) and current and current not in prompts:
        prompts = (*prompts, current)
    task = row.get("task")
    named = blob.uri.rpartition("/")[2].removesuffix(_FILE)
    return Item(
        id=plain_text(row.get("id", "")),
        domain=task.rpartition("/")[2] if isinstance(task, str) and task else named,
        prompts=prompts,
        responses=responses,
        system=row["system_str"] if isinstance(row["system_str"], str) else "",
        turn=turn - 1 if isinstance(turn, int) and turn > 0 else 0,
        place=position,
    )


def _texts(value: Any) -> tuple[str, ...]:
    """Return the texts of a list of turns; a bare text is a list of one."""
    listed = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(entry for entry in listed if isinstance(entry, str))
