"""How SWE-bench judged instances, and which evaluation files stand beside which trajectories.

Three forms are read: the `report.json` of one instance, flat or keyed by its id; a summary with a list `instances`; a
summary with lists of ids by outcome. Whether the tests were good is not asked. Files are laid together by names alone:
a report belongs to the trajectory of the same id in the same run folder, and where two could be meant, to neither.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from connectors.connector import Blob, Log
from connectors.reading.documents import json_document
from schemas import Outcome, ParseError, Reject, Trajectory

Made = Iterator[Trajectory | Reject]

VERIFIER: Final = "swe-bench tests"

SUMMARIES: Final = ("results_summary.json", "results.json")
_REPORT: Final = re.compile(r"(.*/)?([^/]+)/report\.json")
_NOT_RESOLVED: Final = ("unresolved_ids", "error_ids", "empty_patch_ids")
_LEVELS_TO_RUN: Final = 3
_LEVELS_TO_REPORT: Final = 6
"""Parts of paths below a run: `trajs/<id>/<file>`, `logs/run_evaluation/<run>/<model>/<id>/report.json`."""


def outcomes(value: Any, instance: str | None = None) -> dict[str, Outcome]:
    """The outcome of each instance that a report or a summary judges.

    Args:
        value: the JSON value.
        instance: the id that a flat report is about; its file does not name it.
    """
    if not isinstance(value, dict):
        return {}
    if isinstance(value.get("resolved"), bool):
        return {instance: _outcome(value)} if instance is not None else {}
    rows = value.get("instances")
    if isinstance(rows, list):
        named = [row for row in rows if isinstance(row, dict) and isinstance(row.get("instance_id"), str)]
        return {row["instance_id"]: _outcome(row) for row in named if isinstance(row.get("resolved"), bool)}
    found = {
        name: _outcome(row)
        for name, row in value.items()
        if isinstance(row, dict) and isinstance(row.get("resolved"), bool)
    }
    for key in _NOT_RESOLVED:
        found.update({name: Outcome(False, None, VERIFIER) for name in _texts(value.get(key))})
    for key in ("resolved_ids", "resolved"):
        found.update({name: Outcome(True, None, VERIFIER) for name in _texts(value.get(key))})
    return found


def _outcome(row: Mapping[str, Any]) -> Outcome:
    return Outcome(row["resolved"], None, VERIFIER)


def _texts(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


EVALUATION_FILES: Final = re.compile(
    r"(?:.*/)?(?:run_instance\.log|test_output\.txt|eval\.sh|patch\.diff|report\.json|(?:build|prepare)_image\.log)"
)
"""What the harness of SWE-bench leaves in the folder of an instance."""


def _reported(path: str) -> str | None:
    """The instance whose report a path is: the name of the folder of a `report.json`."""
    found = _REPORT.fullmatch(path)
    return found[2] if found is not None else None


def read_runs(
    blob: Blob, connector: str, ending: str, read: Callable[[Blob, str, Mapping[str, Outcome]], Made]
) -> Made:
    """The trajectories of a run folder as `runs` lays it together, judged by its reports, or of a file by itself.

    Args:
        blob: the folder or the file.
        connector: name of the connector, for rejects.
        ending: of trajectories.
        read: gives what a member holds, by the outcome of each instance.

    Raises:
        ParseError: the file is none, or no trajectory of the folder holds an action (`no_transitions`).
    """
    if blob.members == ("",):
        yield from read(blob, "", {})
        return
    known, rejects = _judged(blob, connector)
    yield from rejects
    empty = True
    for member in blob.members:
        if not member.endswith(ending):
            continue
        try:
            for found in read(blob, member, known):
                empty = empty and isinstance(found, Reject)
                yield found
        except ParseError as error:
            yield Reject.of(error, "record", connector)
    if empty:
        raise ParseError(blob.uri, -1, "no_transitions", "no trajectory of the run holds an action")


def _judged(blob: Blob, connector: str) -> tuple[dict[str, Outcome], list[Reject]]:
    """The outcomes of all reports and summaries among a log's members, and a reject for each that cannot be read."""
    found: dict[str, Outcome] = {}
    rejects: list[Reject] = []
    # a run folder that is the instance's own holds its report by that name alone
    about = {member: _reported(f"{blob.uri}/{member}") for member in blob.members}
    for member in sorted(blob.members, key=lambda name: about[name] is not None):
        if about[member] is None and _name(member) not in SUMMARIES:
            continue
        try:
            found.update(outcomes(json_document(blob, member)[0], about[member]))
        except ParseError as error:
            rejects.append(Reject.of(error, "record", connector))
    return found, rejects


def runs(paths: Sequence[str], ending: str) -> Iterator[Log]:
    """Each run folder with its trajectories (`<id><ending>`) and the reports and summaries that judge them.

    A report stays a file of its evaluation folder too, whose patch it judges.
    """
    trajectories = [path for path in paths if path.endswith(ending) and len(_name(path)) > len(ending)]
    reports: dict[str, list[str]] = {}
    for path in paths:
        if (instance := _reported(path)) is not None:
            reports.setdefault(instance, []).append(path)
    summaries = {path.rpartition("/")[0]: path for path in paths if _name(path) in SUMMARIES}
    folder_of: dict[str, str] = {}
    claims: dict[str, list[str]] = {}
    for path in trajectories if reports or summaries else ():
        folder, report = _judge_of(path, reports.get(_name(path)[: -len(ending)], ()), summaries)
        if folder is not None:
            folder_of[path] = folder
            if report is not None:
                claims.setdefault(report, []).append(path)
    files: dict[str, list[str]] = {}
    disputed = {path for rivals in claims.values() if len(rivals) > 1 for path in rivals}
    for path, folder in folder_of.items():
        if path not in disputed:
            files.setdefault(folder, []).append(path)
    anchors = {folder: own[0] for folder, own in files.items()}
    for report, rivals in claims.items():
        if len(rivals) == 1:
            files[folder_of[rivals[0]]].append(report)
    for folder, own in sorted(files.items()):
        start = len(folder) + 1 if folder else 0
        judges = [summaries[folder]] if folder in summaries else []
        members = {path[start:]: path for path in sorted([*own, *judges])}
        shared = frozenset(member for member, path in members.items() if path in claims)
        yield Log(folder, members, anchors[folder][start:], shared)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _judge_of(path: str, reports: Iterable[str], summaries: Mapping[str, str]) -> tuple[str | None, str | None]:
    """(run folder, report) of a trajectory: the nearest report of its id, else the nearest summary above it."""
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
