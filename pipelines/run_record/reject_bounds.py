"""How much may be rejected before a run ends: the bounds of the recipe's section `normalize`."""

from __future__ import annotations

from trajmill.pipelines.normalize.connector_errors import Broken
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.run_record.conservation import Line
from trajmill.schemas import TrajmillError


class TooManyRejectsError(TrajmillError):
    """More was rejected than the recipe allows; the counts are in the line it carries.

    Args:
        line: of what too much was rejected.
        share: of it.
        limit: the share that the recipe allows.
        name: of the limit in the recipe.
        broken: connectors that failed, which may be why.
    """

    def __init__(self, line: Line, share: float, limit: float, name: str, broken: tuple[Broken, ...] = ()) -> None:
        super().__init__(line, share, limit, name, broken)
        self.line, self.share, self.limit, self.name, self.broken = line, share, limit, name, broken

    def __str__(self) -> str:
        what = "were not recognized" if self.line.unit == "files" else "could not be read"
        return (
            f"{self.share:.1%} of {self.line.entered:,} {self.line.unit} {what}, the recipe allows {self.limit:.1%} "
            f"({self.name}); not kept: {self.line.dropped}. See rejects/ in the output folder: "
            "trajmill inspect OUT/rejects shows them."
        )


def check_rejects(files: Line, inputs: Line, records: Line, recipe: Recipe, broken: tuple[Broken, ...] = ()) -> None:
    """Ends the run where too much was rejected.

    Too much is more than `max_reject_ratio` of inputs or of records that could not be read, more files than
    `max_unrecognized_ratio` that no connector recognized, and, whatever the reasons, everything, unless the recipe
    allows that all is rejected.

    Raises:
        TooManyRejectsError: the first of these that holds.
    """
    limit, unrecognized = recipe.normalize.max_reject_ratio, recipe.normalize.max_unrecognized_ratio
    name = "normalize.max_reject_ratio"
    share = 1 - files.kept / max(1, files.entered)
    if unrecognized is not None and share > unrecognized:
        raise TooManyRejectsError(files, share, unrecognized, "normalize.max_unrecognized_ratio", broken)
    for line in (inputs, records):
        if line.unreadable > limit:
            raise TooManyRejectsError(line, line.unreadable, limit, name, broken)
    for line in (inputs, files):
        if line.entered and not line.kept and limit < 1:
            raise TooManyRejectsError(line, 1.0, limit, name, broken)
