"""The record of a run, `run.json`: its settings, results, duration and ending.

It is written when the run begins to work, and again when it ends, successfully or not; a killed run leaves the first
one. It belongs to no dataset and no digest depends on it, so it may hold time, machine and command line. Its recipe can
be run again; the salt, which is a secret, has to be provided then.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from trajmill.pipelines.execution.execution import Execution
from trajmill.pipelines.plan.planned_before import LISTED
from trajmill.pipelines.recipe.recipe import Recipe
from trajmill.pipelines.recipe.recipe_file import SALTED, VERSION_KEY
from trajmill.pipelines.run_record.endings import Code
from trajmill.pipelines.run_record.summary import Summary
from trajmill.quality.scrub import scrub_text
from trajmill.schemas import SCHEMA_VERSION
from trajmill.schemas.manifest import PROGRAM_VERSION

RECORD_VERSION: Final = 1


class Record:
    """Facts of a run at its beginning.

    Args:
        command: the command line; empty if there is none.
    """

    def __init__(self, recipe: Recipe, execution: Execution, command: Sequence[str]) -> None:
        self._recipe, self._execution, self._command = recipe, execution, command
        self._begun = time.time()
        self.listed: float | None = None
        """Time when the raw files were listed for the plan; None if the plan was given."""

    def to_json(self, summary: Summary, code: Code | None = None, error: str = "") -> bytes:
        """Serialize the record of the run with this summary.

        Args:
            summary: summary of the work so far.
            code: exit code at the end; None while the run works, which records it as killed in case it is.
            error: line of explanation of the ending.
        """
        recipe = self._recipe.model_dump(mode="json")
        if recipe["normalize"]["scrub_salt"] is not None:
            recipe["normalize"]["scrub_salt"] = SALTED
        values: dict[str, Any] = {
            VERSION_KEY: RECORD_VERSION,
            "version": PROGRAM_VERSION,
            "schema_version": SCHEMA_VERSION,
            "python": platform.python_version(),
            "command": [scrub_text(word) for word in self._command],
            "recipe": recipe,
            "recipe_digest": self._recipe.digest(),
            "runner": self._execution.runner,
            "workers": self._execution.workers,
            "part_bytes": self._execution.part_bytes,
            "limit": self._execution.limit,
            "last_stage": summary.last,
            "exit_code": Code.KILLED if code is None else code,
            "error": scrub_text(error) or None,
            "begun": self._begun,
            LISTED: self.listed,
            "finished": None if code is None else time.time(),
            "seconds": summary.seconds,
            "counts": {line.unit: asdict(line) for line in summary.lines},
            "tokens": {"all": summary.tokens, "target": summary.target_tokens},
            "samples": summary.samples,
            "warnings": list(summary.warnings),
        }
        return json.dumps(values, indent=1).encode() + b"\n"
