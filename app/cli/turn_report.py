"""How the turns of a run fall into the categories of the published turn-level loss mask (see `quality.turns`)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from trajmill.pipelines.storage.parquet import read_transitions, transition_files
from trajmill.quality.signal import Measured
from trajmill.quality.tokens import TokenCounter
from trajmill.quality.turns import category_counts

DEFINITIONS: Final = ("measured", "literal")
"""measured: values of the action against what is new in the observation; literal: both texts as they are written."""


@dataclass(frozen=True, slots=True)
class MaskReport:
    """Turns by (domain, definition) and category."""

    counts: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)

    def share(self, domain: str, definition: str, category: str) -> float:
        """The share of the domain's turns that are of the category."""
        counts = self.counts[domain, definition]
        return counts[category] / max(counts.total(), 1)


def mask_report(path: str) -> MaskReport:
    """The categories of all transitions of a run's folder, or of its transitions folder.

    Raises:
        ConfigError: there are no transitions.
    """
    folder, names = transition_files(path)
    report = MaskReport()
    for name in names:
        for batch in read_transitions(folder, name):
            view = Measured.of(batch, TokenCounter())
            for definition in DEFINITIONS:
                found = report.counts.setdefault((name.split("/")[0], definition), Counter())
                found.update(category_counts(view, literal=definition == "literal"))
    return report
