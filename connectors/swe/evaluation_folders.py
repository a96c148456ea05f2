"""Pairing of folders of SWE-bench's harness with the predictions that they evaluate, and with trajectories that tell
their issues.

A prediction belongs to the folders of its instance and model below `run_evaluation/<run>/<model>/<instance>`, wherever
they lie; where the path names no model, to the folder of its instance below the folder that the predictions lie in. The
harness of 2024 left no folder but one file, `<instance>.<model>.eval.log`, which stands for one here; since it names no
run, predictions of its instance and model are meant that lie in a folder above it.
Where several predictions could be meant, the nearest by its path is, and none where two are equally near.
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
    """A prediction of a file: its number there, where it begins, and what it names."""

    path: str
    number: int
    offset: int
    instance: str
    model: str | None


@dataclass(slots=True)
class Folder:
    """An evaluation folder, or the log of one evaluation.

    Attributes:
        path: of the folder or of the log.
        files: its files by name.
        instance: that it evaluates.
        model: as the harness writes it in paths; None if the path does not tell.
        log: name of the log, if it is one.
        claims: the predictions that may be meant by it.
    """

    path: str
    files: dict[str, str]
    instance: str
    model: str | None
    log: str | None = None
    claims: list[Prediction] = field(default_factory=list)

    @property
    def answer(self) -> str | None:
        """The path of the file that tells what came of a patch."""
        return next((self.files[name] for name in (REPORT, OUTPUT, self.log) if name in self.files), None)

    def meant(self) -> Prediction | None:
        """The prediction that was evaluated here."""
        near = [common_depth(claim.path, self.path) for claim in self.claims]
        nearest = [claim for claim, depth in zip(self.claims, near, strict=True) if depth == max(near)]
        return nearest[0] if len(nearest) == 1 else None


def evaluation_folders(paths: Sequence[str]) -> list[Folder]:
    """The folders that hold files of an evaluation, then the logs of evaluations, each in the order of paths."""
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
    """The model of `…/run_evaluation/<run>/<model>/<instance>`."""
    parts = path.split("/")
    return parts[-2] if len(parts) > 3 and parts[-4] == "run_evaluation" else None


def meet(folders: Iterable[Folder], predictions: Iterable[Prediction]) -> None:
    """Notes in each folder the predictions that may be meant by it."""
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
    """Instance → the trajectories that are named by it."""
    by_instance: dict[str, list[str]] = {}
    for path in paths:
        ending = next((suffix for suffix in _TRAJECTORIES if path.endswith(suffix)), None)
        if ending is not None:
            by_instance.setdefault(path.rpartition("/")[2].removesuffix(ending), []).append(path)
    return by_instance


def nearest(folder: Folder, known: Mapping[str, list[str]]) -> str | None:
    """The trajectory of a folder's instance that lies nearest to it; the first by its path of several."""
    return min(known.get(folder.instance, ()), key=lambda path: (-common_depth(path, folder.path), path), default=None)


def common_depth(path: str, other_path: str) -> int:
    """Count the folders that two paths have in common."""
    above, theirs = path.split("/")[:-1], other_path.split("/")
    return next(
        (n for n, (a, b) in enumerate(zip(above, theirs, strict=False)) if a != b), min(len(above), len(theirs))
    )
