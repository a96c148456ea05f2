"""How many lines of each package the tests reach, told at the end of `make coverage`.

Counted is what runs in the processes of pytest; what a test starts in a process of its own is not. SlipCover takes its
probes out where they were met, so that a long run is hardly longer; a tracer made it longer by a third.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import slipcover

PACKAGES: Final = ("schemas", "connectors", "quality", "pipelines", "worlds", "synthesis", "app")

Seen = dict[str, set[int]]
"""Lines by file, as the compiler names it."""

LINES_OF_CODE: Final = slipcover.Slipcover.lines_from_code


class LineCoverage:
    """A plugin of pytest that counts from when it is made, in this process and in the workers of xdist.

    Which lines there are to be reached takes as long to find as to count what is reached, and is the same in every
    process: only the one that tells it finds it, at the end.

    Args:
        root: the folder that the packages lie in.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._sources = [str(root / package) for package in PACKAGES]
        self._probes = slipcover.Slipcover()
        self._seen: Seen = {}
        slipcover.Slipcover.lines_from_code = staticmethod(lambda code: ())
        slipcover.ImportManager(self._probes, slipcover.FileMatcher(sources=self._sources)).__enter__()

    def _add(self, seen: Mapping[str, Iterable[int]]) -> None:
        for file, lines in seen.items():  # modules are loaded by the links in trajmill/
            self._seen.setdefault(str(Path(file).resolve()), set()).update(lines)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        for seen in (self._probes.all_seen, self._probes.newly_seen):
            self._add(seen)
        output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["coverage"] = {file: sorted(lines) for file, lines in self._seen.items()}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._add(getattr(node, "workeroutput", {}).get("coverage", {}))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for line in table(self.by_package()):
            terminalreporter.write_line(line)

    def by_package(self) -> dict[str, tuple[int, int]]:
        """(lines, lines that ran) of each package, by its dotted name; those of a package within are its own."""
        totals: dict[str, tuple[int, int]] = {}
        for file, numbers in sorted(self._lines().items()):
            package = ".".join(Path(file).relative_to(self._root).parent.parts)
            lines, reached = totals.get(package, (0, 0))
            totals[package] = lines + len(numbers), reached + len(numbers & self._seen.get(file, set()))
        return dict(sorted(totals.items()))

    def _lines(self) -> Seen:
        """All lines that can be reached, of every module of the packages."""
        slipcover.Slipcover.lines_from_code = staticmethod(LINES_OF_CODE)
        coverage = slipcover.Slipcover(source=self._sources).get_coverage()["files"]
        return {
            str(Path.cwd() / file): {*lines["executed_lines"], *lines["missing_lines"]}
            for file, lines in coverage.items()
        }


def table(packages: dict[str, tuple[int, int]]) -> list[str]:
    """One line a package, and one for all."""
    total = sum(lines for lines, _ in packages.values()), sum(reached for _, reached in packages.values())
    rows = [
        f"{name:<26}{lines:>8,}{reached:>9,}{100 * reached / max(1, lines):>10.1f}"
        for name, (lines, reached) in {**packages, "all": total}.items()
    ]
    return [f"{'package':<26}{'lines':>8}{'covered':>9}{'per cent':>10}", *rows]
