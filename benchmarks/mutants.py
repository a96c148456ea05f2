"""One-line changes of the core, drawn by hash and tried against its tests: how many of them the tests notice.

    make mutants
    .venv/mutants/bin/python benchmarks/mutants.py --each 12 --only quality

Cosmic-ray's operators propose the changes. One is tried at a time, in a copy of the working tree: first against the
tests that name the module, then against the room's, and the first failure ends it. The draw depends on the lines alone,
so an edit elsewhere leaves it as it is.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import Any, ClassVar, Final

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.provider import OperatorProvider

ROOT: Final = Path(__file__).resolve().parents[1]
EQUIVALENT: Final = ROOT / "benchmarks" / "mutants.tsv"
"""Changes that change nothing, by path, line before and line after, each with its reason."""

PROVIDER: Final = OperatorProvider()
LEFT_OUT: Final = ("RemoveDecorator", "VariableReplacer", "VariableInserter")
"""Operators that remove caches, which change speed alone, or need to be told names."""

OPERATORS: Final = [PROVIDER[name] for name in PROVIDER if name not in LEFT_OUT]


@dataclass(frozen=True)
class Room:
    """Modules by pattern, and the tests that are tried when those that name a module pass."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


ROOMS: Final = {
    "judge": Room(("pipelines/judge/*.py",), ("tests/pipelines/judge", "tests/pipelines/test_run.py")),
    "mix": Room(("pipelines/mix/**/*.py",), ("tests/pipelines/mix", "tests/pipelines/test_run.py")),
    "render": Room(("pipelines/render/*.py",), ("tests/pipelines/render", "tests/pipelines/mix/test_mixture.py")),
    "quality": Room(("quality/*.py", "quality/signals/*.py", "quality/scrubbing/values.py"), ("tests/quality",)),
    "plan": Room(("pipelines/plan/*.py",), ("tests/pipelines/plan",)),
}


@dataclass(frozen=True)
class Mutant:
    """A change of one line of a module.

    Attributes:
        path: of the module, below the root.
        line: its number, from 1.
        operator: cosmic-ray's name of the change.
        code: the module with the change.
        before: the line, without its indentation.
        after: the line with the change.
    """

    room: str
    path: str
    line: int
    operator: str
    code: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}\t{self.operator}\t{self.before}\t{self.after}"


@dataclass(frozen=True)
class Place:
    """A place of a module that operators can change: each change is an operator with the number of its occurrence."""

    path: str
    line: int
    rank: str
    changes: tuple[tuple[str, int], ...]


def places_of(path: Path) -> Iterator[Place]:
    """Yield the places of a module, each ranked by its line's text, so that edits elsewhere leave the rank."""
    name = str(path.relative_to(ROOT))
    source = path.read_text("utf-8")
    nodes, lines = [*ast_nodes(get_ast(source))], source.splitlines()
    changes: dict[tuple[int, int], list[tuple[str, int]]] = {}
    for operator in OPERATORS:
        starts = [start for node in nodes for start, _ in operator().mutation_positions(node)]
        for occurrence, start in enumerate(starts):
            changes.setdefault(start, []).append((operator.__name__, occurrence))
    alike: Counter[tuple[str, int]] = Counter()
    for (line, column), named in sorted(changes.items()):
        text = lines[line - 1].strip()
        alike[text, column] += 1
        rank = digest(f"{name}\0{text}\0{column}\0{alike[text, column]}")
        yield Place(name, line, rank, tuple(sorted(named, key=lambda change: digest(f"{rank}\0{change[0]}"))))


def mutant_at(room: str, place: Place) -> Mutant | None:
    """The first change of a place that means something else; None if none does."""
    source = (ROOT / place.path).read_text("utf-8")
    meaning = meaning_of(source)
    for name, occurrence in place.changes:
        code = mutate_code(source, PROVIDER[name](), occurrence)
        if meaning_of(code) not in ("", meaning):
            before, after = (text.splitlines()[place.line - 1].strip() for text in (source, code))
            return Mutant(room, place.path, place.line, name, code, before, after)
    return None


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def meaning_of(source: str) -> str:
    """The syntax tree of a module without annotations and decorators, which compute nothing; empty if it has none."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return ""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            node.decorator_list = []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
    return ast.dump(tree)


def drawn(room: str, number: int) -> list[Mutant]:
    """The mutants of a room's places of the least ranks, without those known to change nothing."""
    known = {tuple(line.split("\t")[:3]) for line in EQUIVALENT.read_text("utf-8").splitlines()}
    modules = sorted({path for pattern in ROOMS[room].modules for path in ROOT.glob(pattern)})
    places = sorted((place for module in modules for place in places_of(module)), key=lambda place: place.rank)
    mutants = filter(None, (mutant_at(room, place) for place in places))
    return [*islice((one for one in mutants if (one.path, one.before, one.after) not in known), number)]


def tests_of(mutant: Mutant) -> list[list[str]]:
    """The tests of a mutant in the order in which they are tried: those that name the module, then the room's."""
    module = "trajmill." + mutant.path.removesuffix(".py").replace("/", ".")
    package, _, name = module.rpartition(".")
    names = re.compile(rf"{re.escape(module)}\b|from {re.escape(package)} import .*\b{name}\b")
    whole = ROOMS[mutant.room].tests
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    own = [path for path in files if path.name == f"test_{name}.py" or names.search(path.read_text("utf-8"))]
    own.sort(key=lambda path: path.name != f"test_{name}.py")
    return [*([[str(path.relative_to(ROOT)) for path in own]] if own else []), list(whole)]


def copied(folder: Path) -> Path:
    """A copy of the working tree: what git tracks and what is new, links as links."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listed.stdout.splitlines():
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    return folder


class Trials:
    """Mutants tried in a copy of the tree.

    Args:
        tree: the copy.
        python: that the tests run with.
        timeout: seconds for the tests of one mutant.
    """

    passing: ClassVar[set[tuple[str, ...]]] = set()
    """Tests that pass without a mutant: only by these is one noticed."""

    def __init__(self, tree: Path, python: str, timeout: float) -> None:
        self._tree, self._timeout = tree, timeout
        self._command = [python, "-m", "pytest", "-n", "0", "-x", "-q", "-p", "no:cacheprovider", "-m", "not corpus"]

    def is_noticed(self, mutant: Mutant) -> bool:
        """Return whether tests fail, or come to no end, over a mutant.

        Raises:
            RuntimeError: they fail without it.
        """
        path = self._tree / mutant.path
        original = path.read_bytes()
        for tests in tests_of(mutant):
            path.write_text(mutant.code, "utf-8")
            try:
                passes = self._passes(tests)
            finally:
                path.write_bytes(original)
            if not passes:
                if tuple(tests) not in self.passing and not self._passes(tests):
                    raise RuntimeError(f"These tests fail without a mutant: {' '.join(tests)}")
                self.passing.add(tuple(tests))
                return True
        return False

    def _passes(self, tests: list[str]) -> bool:
        names = [*self._command, *tests]
        silent: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with suppress(subprocess.TimeoutExpired):
            done = subprocess.run(
                names, check=False, cwd=self._tree, env=environment(self._tree), timeout=self._timeout, **silent
            )
            return done.returncode == 0
        return False


def environment(tree: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", "TRAJMILL_CORPORA": "/nowhere"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=60, help="mutants of each room")
    parser.add_argument("--only", choices=ROOMS, nargs="+", default=list(ROOMS), help="rooms")
    parser.add_argument("--jobs", type=int, default=2, help="mutants that are tried at once")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one mutant's tests")
    parser.add_argument("--python", default=str(ROOT / ".venv" / "bin" / "python"), help="that the tests run with")
    told = parser.parse_args()
    mutants = [mutant for room in told.only for mutant in drawn(room, told.each)]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(told.jobs) as pool:
        trials: SimpleQueue[Trials] = SimpleQueue()
        for number in range(told.jobs):
            trials.put(Trials(copied(Path(folder, str(number))), told.python, told.timeout))

        def tried(mutant: Mutant) -> bool:
            trial = trials.get()
            begun = time.monotonic()
            noticed = trial.is_noticed(mutant)
            trials.put(trial)
            print(f"{'killed' if noticed else 'survived'}\t{mutant}\t{time.monotonic() - begun:.0f} s", flush=True)
            return noticed

        fates = [*pool.map(tried, mutants)]
    print()
    for room in told.only:
        ours = [noticed for mutant, noticed in zip(mutants, fates, strict=True) if mutant.room == room]
        dead = sum(ours)
        print(f"{room:<10}{len(ours):>6}{dead:>6} killed{100 * dead / len(ours):>8.1f} %")
    dead = sum(fates)
    print(f"{'all':<10}{len(fates):>6}{dead:>6} killed{100 * dead / len(fates):>8.1f} %")
    sys.exit(dead < 0.85 * len(fates))


if __name__ == "__main__":
    main()
