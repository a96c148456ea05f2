"""Measure how much of a screen is new after an action: the share of lines that change, or only renumber.

    python -m benchmarks.screen_changes --raw FOLDER_OF_LOGS

A line of the screen after an action has changed if it is not a line of the screen before in the same order (the longest
runs of equal lines are aligned). It is only renumbered if it has not changed but for its element's number. Screens are
those of the compact tree; each log counts with all its transitions that show one on both sides.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

from benchmarks.parsers import load_input, real_logs
from trajmill.connectors.registry import connector
from trajmill.connectors.screens.tree import DIALECT
from trajmill.schemas import ParseError, Step, Trajectory

_NUMBERED: Final = re.compile(r"(?m)^( *)#[0-9]+ ")


@dataclass(slots=True)
class Changes:
    """Of one format: pairs of screens, those that are equal, lines of the later ones, and how many of these changed.

    `renewed` are those that changed in more than their number.
    """

    pairs: int = 0
    equal: int = 0
    lines: int = 0
    changed: int = 0
    renewed: int = 0

    def add(self, before: str, after: str) -> None:
        """Counts one pair."""
        self.pairs += 1
        self.equal += before == after
        self.lines += after.count("\n") + 1
        self.changed += count_changed_lines(before, after)
        self.renewed += count_changed_lines(_NUMBERED.sub(r"\1", before), _NUMBERED.sub(r"\1", after))


def count_changed_lines(before: str, after: str) -> int:
    """Count the lines of the second text that are not aligned with equal lines of the first."""
    old, new = before.split("\n"), after.split("\n")
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    return len(new) - sum(block.size for block in matcher.get_matching_blocks())


def screens(steps: Sequence[Step]) -> Iterator[tuple[str, str]]:
    """The texts before and after each action that has a tree on both sides."""
    for step in steps:
        before, after = step.observation, step.next_observation
        if before is None or after is None or before.dialect != DIALECT or after.dialect != DIALECT:
            continue
        if before.content is not None and after.content is not None:
            yield before.content, after.content


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--raw", required=True, help="a folder of logs")
    by_format: dict[str, Changes] = {}
    for name, inputs in sorted(real_logs(parser.parse_args().raw).items()):
        for log in inputs:
            try:
                for record in connector(name).parse(load_input(log)):
                    for before, after in screens(record.steps) if isinstance(record, Trajectory) else ():
                        by_format.setdefault(name, Changes()).add(before, after)
            except ParseError:
                continue
    print("| format | pairs of screens | equal | lines | changed | only renumbered |\n|---|---:|---:|---:|---:|---:|")
    for name, all_of in by_format.items():
        shares = (all_of.changed / all_of.lines, (all_of.changed - all_of.renewed) / max(all_of.changed, 1))
        print(f"| {name} | {all_of.pairs} | {all_of.equal} | {all_of.lines:,} | {shares[0]:.1%} | {shares[1]:.1%} |")


if __name__ == "__main__":
    main()
