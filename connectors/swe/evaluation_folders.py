"""Pairing of evaluation folders of SWE-bench's harness with the predictions that they evaluate, and with trajectories
that state their issues.

A prediction belongs to the folders of its instance and model below `run_evaluation/<run>/<model>/<instance>`, at any
location. If the path names no model, it belongs to the folder of its instance below the folder of the predictions. The
harness of 2024 left a single file in place of a folder, `<instance>.<model>.eval.log`, which counts as a folder here.
Since it names no run, it matches predictions of its instance and model in a folder above it. If several predictions
match, the nearest by its path is used, and none if two are equally near.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

PATCH: Final = "patch.diff"
REPORT: Final = "report.json"
OUTPUT: Final = "test_output.txt"
RUN: Final = "run_instance.log"
MEMBERS: Final = (PATCH, REPORT, OUTPUT, RUN, "eval.sh")

_LOG: Final = re.compile(r"(?:.*/)?(([^/]+?-[0-9]{1,9})\.([^/]+)\.eval\.log)")
_TRAJECTORIES: Final = (".traj.json", ".traj")


@dataclass(frozen=True, slots=True)
class Prediction:
    """A prediction in a file: its number and offset there, and the instance and model that it names."""

    path: str
    number: int
    offset: int
    instance: str
    model: str | None


@dataclass(slots=True)
class Folder:
    """An evaluation folder, or the log of one evaluation.

    Attributes:
        path: path of the folder or of the log.
        files: its files by name.
        instance: the evaluated instance.
        model: the model as the harness writes it in paths; None if the path does not state it.
        log: name of the log, if it is one.
        claims: the predictions that match it.
    """

    path: str
    files: dict[str, str]
    instance: str
    model: str | None
    log: str | None = None
    claims: list[Prediction] = field(default_factory=list)

    @property
    def answer(self) -> str | None:
        """The path of the file that states the result of a patch."""
        return next((self.files[name] for name in (REPORT, OUTPUT, self.log) if name in self.files), None)

    def meant(self) -> Prediction | None:
        """Return the prediction that was evaluated here."""
        near = [common_depth(claim.path, self.path) for claim in self.claims]
        nearest = [claim for claim, depth in zip(self.claims, near, strict=True) if depth == max(near)]
        return nearest[0] if len(nearest) == 1 else None


def evaluation_folders(paths: Sequence[str]) -> list[Folder]:
    """Return the folders with files of an evaluation, then the logs of evaluations, each in the order of paths."""
    files_by_folder: dict[str, dict[str, str]] = {}
    logs: list[Folder] = []
    for path in paths:
        folder, _, name = path.rpartition("/")
        if name in MEMBERS:
            files_by_folder.setdefault(folder, {})[name] = path
        elif (log := _LOG.fullmatch(path)) is not None:
            logs.append(Folder(path, {log[1]: path}, log[2], log[3], log[1]))
    return [
        Folder(path, files, path.rpartition("/")[2], model_of(path)) for path, files in files_by_folder.items()
    ] + logs


def model_of(path: str) -> str | None:
    """Return the model of `…/run_evaluation/<run>/<model>/<instance>`."""
    parts = path.split("/")
    return parts[-2] if len(parts) > 3 and parts[-4] == "run_evaluation" else None


def meet(folders: Iterable[Folder], predictions: Iterable[Prediction]) -> None:
    """Record in each folder the predictions that match it."""
    by_instance: dict[str, list[Folder]] = {}
    for folder in folders:
        if folder.answer is not None:
            by_instance.setdefault(folder.instance, []).append(folder)
    for prediction in predictions:
        for folder in by_instance.get(prediction.instance, ()):
            below = folder.path.startswith("".join(prediction.path.rpartition("/")[:2]))
            is_meant = prediction.model is not None and folder.model == prediction.model.replace("/", "__")
            if (is_meant and (below or folder.log is None)) or (below and folder.model is None):
                folder.claims.append(prediction)


def trajectories(paths: Iterable[str]) -> Mapping[str, list[str]]:
    """Map instances to the trajectories named after them."""
    by_instance: dict[str, list[str]] = {}
    for path in paths:
        ending = next((suffix for suffix in _TRAJECTORIES if path.endswith(suffix)), None)
        if ending is not None:
            by_instance.setdefault(path.rpartition("/")[2].removesuffix(ending), []).append(path)
    return by_instance


def nearest(folder: Folder, known: Mapping[str, list[str]]) -> str | None:
    """Return the nearest trajectory of a folder's instance; of several, the first by its path."""
    return min(known.get(folder.instance, ()), key=lambda path: (-common_depth(path, folder.path), path), default=None)


def common_depth(path: str, other_path: str) -> int:
    """Count the folders that two paths have in common."""
    above, theirs = path.split("/")[:-1], other_path.split("/")
    return next(
        (n for n, (a, b) in enumerate(zip(above, theirs, strict=False)) if a != b), min(len(above), len(theirs))
    )
