"""Outcomes of instances by SWE-bench, and the evaluation files beside trajectories.

Three forms are read: the `report.json` of one instance, flat or keyed by its id; a summary with a list `instances`; a
summary with lists of ids by outcome. The quality of the tests is not checked. Files are matched only by name: a report
belongs to the trajectory of the same id in the same run folder. If it could belong to two trajectories, it belongs to
neither.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from trajmill.connectors.connector import Blob, Log, MemoryBlob
from trajmill.connectors.reading.documents import json_document
from trajmill.schemas import Outcome, ParseError, Reject, Trajectory

Made = Iterator[Trajectory | Reject]

VERIFIER: Final = "swe-bench tests"

SUMMARIES: Final = ("results_summary.json", "results.json")
_REPORT: Final = "report.json"
_NOT_RESOLVED: Final = ("unresolved_ids", "error_ids", "empty_patch_ids")
_LEVELS_TO_RUN: Final = 3
_LEVELS_TO_REPORT: Final = 6
"""Levels of folders below a run: `trajs/<id>/<file>`, `logs/run_evaluation/<run>/<model>/<id>/report.json`."""


def outcomes(value: Any, instance: str | None = None) -> dict[str, Outcome]:
    """Return the outcome of each instance in a report or a summary.

    Args:
        value: the JSON value.
        instance: id of the instance of a flat report, which its file does not name.
    """
    if not isinstance(value, dict):
        return {}
    if isinstance(value.get("resolved"), bool):
        return {instance: _outcome(value)} if instance is not None else {}
    rows = value.get("instances")
    if isinstance(rows, list):
        named = [row for row in rows if isinstance(row, dict) and isinstance(row.get("instance_id"), str)]
        return {row["instance_id"]: _outcome(row) for row in named if isinstance(row.get("resolved"), bool)}
    by_instance = {
        name: _outcome(row)
        for name, row in value.items()
        if isinstance(row, dict) and isinstance(row.get("resolved"), bool)
    }
    for key in _NOT_RESOLVED:
        by_instance.update({name: Outcome(False, None, VERIFIER) for name in _texts(value.get(key))})
    for key in ("resolved_ids", "resolved"):
        by_instance.update({name: Outcome(True, None, VERIFIER) for name in _texts(value.get(key))})
    return by_instance


def _outcome(row: Mapping[str, Any]) -> Outcome:
    return Outcome(row["resolved"], None, VERIFIER)


def _texts(value: Any) -> list[str]:
    return [entry for entry in value if isinstance(entry, str)] if isinstance(value, list) else []


EVALUATION_FILES: Final = re.compile(
    r"(?:.*/)?(?:run_instance\.log|test_output\.txt|eval\.sh|patch\.diff|report\.json|(?:build|prepare)_image\.log)"
)
"""Files that the harness of SWE-bench leaves in the folder of an instance."""


def _reporting_instance(path: str) -> str | None:
    """Return the instance of a report's path: the name of the folder of a `report.json`."""
    folder, _, name = path.rpartition("/")
    return _name(folder) or None if name == _REPORT else None


def read_run(blob: Blob, connector: str, ending: str, read: Callable[[Blob, str, Mapping[str, Outcome]], Made]) -> Made:
    """Yield the results of a trajectory file, judged by the report and the summary that `runs` matched with it.

    Args:
        blob: the file, alone or with the report and summary.
        read: returns the contents of a member, given the outcome of each instance.

    Raises:
        ParseError: raised by `read`, or there is no trajectory (`no_transitions`).
    """
    member = next((name for name in blob.members if name.endswith(ending) or not name), None)
    if member is None:
        raise ParseError(blob.uri, -1, "no_transitions", "there is no trajectory beside what judges it")
    known, rejects = _read_outcomes(blob, connector, _name(member).removesuffix(ending))
    yield from rejects
    yield from read(blob, member, known)


def _read_outcomes(blob: Blob, connector: str, instance: str) -> tuple[dict[str, Outcome], list[Reject]]:
    """Return the outcomes in a log's summary and report, and a reject for each file that cannot be read."""
    known: dict[str, Outcome] = {}
    rejects: list[Reject] = []
    for member in sorted(blob.members, key=lambda name: _name(name) == _REPORT):
        try:
            if _name(member) in SUMMARIES:
                known.update(_summary(blob, member))
            elif _name(member) == _REPORT:
                known.update(outcomes(json_document(blob, member)[0], instance))
        except ParseError as error:
            rejects.append(Reject.of(error, "record", connector))
    return known, rejects


def _summary(blob: Blob, member: str) -> Mapping[str, Outcome]:
    try:
        return _summary_of(blob.read(member))
    except ParseError:
        return outcomes(json_document(blob, member)[0])


@lru_cache(maxsize=4)
def _summary_of(data: bytes) -> Mapping[str, Outcome]:
    """Return the outcomes of a summary, cached because each trajectory of its run needs the same."""
    return outcomes(json_document(MemoryBlob("", data))[0])


def runs(paths: Sequence[str], ending: str) -> Iterator[Log]:
    """Yield each trajectory (`<id><ending>`) with the report of its instance and the summary of its run folder.

    Both are shared: a summary judges all of its run, and a report also remains part of its evaluation folder, whose
    patch it judges. The names of members are relative to the run folder; the log is named by the trajectory's own path.
    """
    trajectories = [path for path in paths if path.endswith(ending) and len(_name(path)) > len(ending)]
    reports: dict[str, list[str]] = {}
    for path in paths:
        if (instance := _reporting_instance(path)) is not None:
            reports.setdefault(instance, []).append(path)
    summaries = {path.rpartition("/")[0]: path for path in paths if _name(path) in SUMMARIES}
    judges: dict[str, tuple[str, str | None]] = {}
    claims: Counter[str] = Counter()
    for path in trajectories if reports or summaries else ():
        folder, report = _judge_of(path, reports.get(_name(path)[: -len(ending)], ()), summaries)
        if folder is not None:
            judges[path] = folder, report
            claims.update([report] if report is not None else ())
    for path, (folder, report) in judges.items():
        if report is None or claims[report] == 1:
            start = len(folder) + 1 if folder else 0
            shared = {
                path_beside[start:]: path_beside
                for path_beside in (report, summaries.get(folder))
                if path_beside is not None
            }
            yield Log(path, {path[start:]: path, **shared}, path[start:], frozenset(shared))


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _judge_of(path: str, reports: Iterable[str], summaries: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Return (run folder, report) of a trajectory: the nearest report of its id, else the nearest summary above it."""
    above = path.split("/")[:-1]
    near: dict[str, int] = {}
    for report in reports:
        theirs = report.split("/")
        common = next((i for i, (a, b) in enumerate(zip(above, theirs, strict=False)) if a != b), len(above))
        if len(above) + 1 - common <= _LEVELS_TO_RUN and len(theirs) - common <= _LEVELS_TO_REPORT:
            near[report] = common
    nearest = [report for report, common in near.items() if common == max(near.values())]
    if len(nearest) == 1:
        return "/".join(above[: near[nearest[0]]]), nearest[0]
    for depth in range(len(above), max(-1, len(above) - _LEVELS_TO_RUN), -1):
        folder = "/".join(above[:depth])
        if folder in summaries:
            return folder, None
    return None, None
