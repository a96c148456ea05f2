"""Rules that formats of agent sessions share."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from connectors.terminal.dialogue import cut
from schemas import Action, Observation, Step


def test_a_step_that_is_cut_keeps_all_that_it_held() -> None:
    held: dict[str, Any] = {field.name: number for number, field in enumerate(fields(Step))}
    step = Step(**{**held, "action": Action("bash", "ls"), "observation": Observation("a"), "next_observation": None})
    assert cut(step) == replace(step, truncated=True)
