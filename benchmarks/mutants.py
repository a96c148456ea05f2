"""One-line changes of the core, drawn by hash and tried against its tests: how many of them the tests notice.

    make mutants
    make mutants ARGS='--each 12 --only quality'

Cosmic-ray's operators propose the changes. A room's tests are collected and run once, and the functions that each test
calls are recorded. Then each change is made in memory, in a fork of the process that collected the tests, and the tests
that call the changed function run there, the fastest first, until one fails. No file is changed. The draw depends on
the lines alone, so an edit elsewhere leaves it as it is.
"""

from __future__ import annotations

import argparse
import ast
import gc
import os
import pickle
import resource
import signal
import site
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import _lru_cache_wrapper
from hashlib import sha256
from importlib import import_module
from importlib.machinery import SourceFileLoader
from inspect import CO_OPTIMIZED, unwrap
from itertools import accumulate, islice
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, Final

import hypothesis
import pytest

ROOT: Final = Path(__file__).resolve().parents[1]
site.addsitedir(str(next(ROOT.glob(".venv/mutants/lib/python*/site-packages"))))

from cosmic_ray.ast import ast_nodes, get_ast  # noqa: E402
from cosmic_ray.mutating import mutate_code  # noqa: E402
from cosmic_ray.operators.provider import OperatorProvider  # noqa: E402

EQUIVALENT: Final = ROOT / "benchmarks" / "mutants.tsv"
"""Changes that change nothing, by path, line before and line after, each with its reason."""

PROVIDER: Final = OperatorProvider()
LEFT_OUT: Final = ("RemoveDecorator", "VariableReplacer", "VariableInserter", "Eq_Is", "NotEq_IsNot")
"""Operators that remove caches, which change speed alone, that need to be told names, or that compare by identity: two
equal strings or numbers are one object or two by chance."""

QUIETLY: Final = ("-n", "0", "-s", "-qq", "--no-summary", "-p", "no:cacheprovider", "-m", "not corpus")
SECONDS: Final = 20
"""CPU time of the tests that try one mutant: the slowest of those that take longer together are left out."""

MEMORY: Final = 8 << 30
"""Bytes that a test may ask for."""

OPERATORS: Final = [PROVIDER[name] for name in PROVIDER if not name.endswith(LEFT_OUT)]


@dataclass(frozen=True)
class Room:
    """Modules by pattern, and the tests that are to notice their changes."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


ROOMS: Final = {
    "judge": Room(
        ("pipelines/judge/*.py",),
        ("tests/pipelines/judge", "tests/pipelines/normalize/test_parts_by_hand.py", "tests/pipelines/test_run.py"),
    ),
    "mix": Room(("pipelines/mix/**/*.py",), ("tests/pipelines/mix", "tests/pipelines/test_run.py")),
    "render": Room(
        ("pipelines/render/*.py",),
        ("tests/pipelines/render", "tests/pipelines/mix/test_checks.py", "tests/pipelines/mix/test_mixture.py"),
    ),
    "quality": Room(("quality/*.py", "quality/signals/*.py", "quality/scrubbing/values.py"), ("tests/quality",)),
    "plan": Room(("pipelines/plan/*.py",), ("tests/pipelines/plan", "tests/pipelines/normalize/test_file_slices.py")),
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

    @property
    def file(self) -> str:
        """The module as it is imported."""
        return str(ROOT / "trajmill" / self.path)

    @property
    def known(self) -> tuple[str, str, str]:
        return self.path, self.before, self.after


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
        positions = operator().mutation_positions
        starts = [start for node in nodes for start, _ in positions(node)]
        for occurrence, start in enumerate(starts):
            changes.setdefault(start, []).append((operator.__name__, occurrence))
    alike: Counter[tuple[str, int]] = Counter()
    for (line, column), named in sorted(changes.items()):
        text = lines[line - 1].strip()
        alike[text, column] += 1
        rank = digest(f"{name}\0{text}\0{column}\0{alike[text, column]}")
        yield Place(name, line, rank, tuple(sorted(named, key=lambda change: digest(f"{rank}\0{change[0]}"))))


def mutant_at(room: str, location: Place) -> Mutant | None:
    """The first change of a place that means something else; None if none does."""
    source = (ROOT / location.path).read_text("utf-8")
    meaning = meaning_of(source)
    for name, occurrence in location.changes:
        code = mutate_code(source, PROVIDER[name](), occurrence)
        if meaning_of(code) not in ("", meaning):
            before, after = (text.splitlines()[location.line - 1].strip() for text in (source, code))
            return Mutant(room, location.path, location.line, name, code, before, after)
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


def draw_mutants(room: str, number: int) -> list[Mutant]:
    """The mutants of a room's places of the least ranks."""
    modules = sorted({path for pattern in ROOMS[room].modules for path in ROOT.glob(pattern)})
    places = sorted(
        (location for module in modules for location in places_of(module)), key=lambda location: location.rank
    )
    return [*islice(filter(None, (mutant_at(room, location) for location in places)), number)]


Function = tuple[str, int, str]
"""A function by its file, first line and qualified name."""


def function_of(code: CodeType) -> Function:
    return code.co_filename, code.co_firstlineno, code.co_qualname


def codes_of(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and those within it, the outer first."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_of(constant)


def changed_functions(mutant: Mutant) -> dict[CodeType, CodeType]:
    """The new code by the old one of each function that a mutant changes, the outer first."""
    sources = ((ROOT / mutant.path).read_text("utf-8"), mutant.code)
    modules = [compile(source, mutant.file, "exec", dont_inherit=True) for source in sources]
    old, new = ([code for code in codes_of(module) if code.co_flags & CO_OPTIMIZED] for module in modules)
    return (
        {old_code: new_code for old_code, new_code in zip(old, new, strict=True) if old_code != new_code}
        if len(old) == len(new)
        else {}
    )


def code_of(function: Any) -> CodeType | None:
    """The code of a function, or of the one whose results a cache keeps; None if it is neither."""
    function = unwrap(function) if isinstance(function, _lru_cache_wrapper) else function
    return function.__code__ if isinstance(function, FunctionType) else None


def run_forked(work: Callable[[], object]) -> bool:
    """Do work in a fork without output, and return whether it came to its end."""
    sys.stdout.flush()
    child = os.fork()
    if not child:
        with suppress(BaseException):
            os.setsid()
            silence = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silence, 1)
            os.dup2(silence, 2)
            work()
            os._exit(0)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    return status == 0


class Recorder:
    """A plugin of pytest that notes which functions of some files each passing test calls, and its seconds of CPU.

    Args:
        files: that hold the functions.
        caches: of such functions, which are emptied before each test.
    """

    def __init__(self, files: Collection[str], caches: Collection[Any]) -> None:
        self.seconds: dict[str, float] = {}
        self.callers: dict[Function, set[str]] = {}
        self._files, self._caches = files, caches
        self._called: set[Function] = set()
        self._in_fixture: dict[Any, set[Function]] = {}

    def _trace(self, frame: FrameType, event: str, argument: object) -> None:
        if frame.f_code.co_filename in self._files:
            self._called.add(function_of(frame.f_code))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        failed, begun = item.session.testsfailed, time.process_time()
        for cached in self._caches:
            cached.cache_clear()
        self._called = set()
        threading.settrace(self._trace)
        sys.settrace(self._trace)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            if item.session.testsfailed == failed:
                self.seconds[item.nodeid] = time.process_time() - begun
                for function in self._called.union(
                    *(self._in_fixture.get(fixture, ()) for fixture in shared_fixtures(item))
                ):
                    self.callers.setdefault(function, set()).add(item.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, object, object]:
        """Count calls of a fixture that several tests share as calls of each of them."""
        outer, self._called = self._called, set()
        try:
            return (yield)
        finally:
            self._in_fixture[fixturedef] = self._called
            self._called = outer | self._called


def shared_fixtures(item: Any) -> list[Any]:
    """The fixtures of a test that are made once for a module."""
    known = item._fixtureinfo.name2fixturedefs.values()
    return [fixture for fixtures in known for fixture in fixtures if fixture.scope == "module"]


class Limits:
    """A plugin of pytest that writes the name of the test that runs into a file, and bounds its time and memory.

    Args:
        seconds: for each test, without a mutant.
    """

    def __init__(self, running: Path, seconds: Mapping[str, float]) -> None:
        self._running, self._seconds = running, seconds

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._running.write_text(nodeid, "utf-8")
        most = 20 + 5 * self._seconds.get(nodeid, 0)
        signal.alarm(int(10 * most))
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + most), resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, resource.RLIM_INFINITY))


class Trials:
    """A plugin of pytest that tries mutants by the tests that were collected, instead of running these.

    Args:
        mutants: of one room.
        report: a file for whether each mutant was noticed, in their order.
    """

    def __init__(self, mutants: Sequence[Mutant], report: Path) -> None:
        self._mutants, self._report = mutants, report
        modules = {path for pattern in ROOMS[mutants[0].room].modules for path in (ROOT / "trajmill").glob(pattern)}
        self._files = {str(path) for path in modules}
        self._items: dict[str, pytest.Item] = {}
        self._seconds: dict[str, float] = {}
        self._callers: dict[Function, set[str]] = {}
        self._sound: set[str] = set()
        self._functions: list[Any] = []

    def pytest_configure(self) -> None:
        phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
        hypothesis.settings.register_profile("mutants", hypothesis.settings(), phases=phases)
        hypothesis.settings.load_profile("mutants")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        gc.unfreeze()
        self._items = {item.nodeid: item for item in session.items}
        self._look_up_functions()
        run_forked(self._record)
        self._seconds, self._callers, modules = pickle.loads(self._report.read_bytes())
        for name in modules:  # what a function imports is changed in memory too
            with suppress(Exception):
                import_module(name)
        self._look_up_functions()
        print(f"{len(self._seconds)} tests of {self._mutants[0].room}: {sum(self._seconds.values()):.0f} s", flush=True)
        self._report.write_bytes(pickle.dumps([self._is_noticed(mutant) for mutant in self._mutants]))
        return True

    def _look_up_functions(self) -> None:
        codes = ((candidate, code_of(candidate)) for candidate in gc.get_objects())
        self._functions = [function for function, code in codes if code is not None and code.co_filename in self._files]

    @property
    def _caches(self) -> list[Any]:
        return [function for function in self._functions if isinstance(function, _lru_cache_wrapper)]

    def _change(self, mutant: Mutant) -> bool:
        """Change the functions of this process, and return whether it has any that the mutant changes."""
        changes, has_any = changed_functions(mutant), False
        for function in self._functions:
            if isinstance(function, FunctionType) and function.__code__ in changes:
                has_any = True
                with suppress(ValueError):  # a closure over other names is made anew by the function around it
                    function.__code__ = changes[function.__code__]
        return has_any

    def _record(self) -> None:
        recorder = Recorder(self._files, self._caches)
        config = next(iter(self._items.values())).config
        config.pluginmanager.register(recorder)
        self._run([*self._items.values()], stops=False)
        self._report.write_bytes(pickle.dumps((recorder.seconds, recorder.callers, [*sys.modules])))

    def _is_noticed(self, mutant: Mutant) -> bool:
        begun, killer = time.monotonic(), self._killer(mutant)
        fate = "survived" if killer is None else "killed"
        print(fate, mutant, f"{time.monotonic() - begun:.0f} s", killer or "", sep="\t", flush=True)
        return killer is not None

    def _killer(self, mutant: Mutant) -> str | None:
        """The first test that fails, or comes to no end, over a mutant and passes without."""
        tests = self._tests_of(mutant)
        while tests and (failing := self._first_failure(tests, mutant)) is not None:
            if failing not in self._sound and self._first_failure([failing], None) is not None:
                tests.remove(failing)
                continue
            self._sound.add(failing)
            return failing
        return None

    def _tests_of(self, mutant: Mutant) -> list[str]:
        """The tests that call the changed function, or any of the module if none is changed, the fastest first."""
        changed = [function_of(code) for code in changed_functions(mutant)][-1:]
        functions = changed or [function for function in self._callers if function[0] == mutant.file]
        callers = {test for function in functions for test in self._callers.get(function, ())}
        callers = callers if callers or changed else {*self._seconds}
        groups: dict[str, list[str]] = {}
        for test in sorted(callers, key=lambda test: (self._seconds[test], test)):
            together = test.partition("::")[0] if shared_fixtures(self._items[test]) else test
            groups.setdefault(together, []).append(test)
        ordered = sorted(groups.values(), key=lambda group: sum(self._seconds[test] for test in group))
        seconds = accumulate(self._seconds[test] for group in ordered for test in group)
        tests = [test for group in ordered for test in group]
        return [test for test, total in zip(tests, seconds, strict=True) if total <= SECONDS] or tests[:1]

    def _first_failure(self, tests: Sequence[str], mutant: Mutant | None) -> str | None:
        """The first of some tests that fails over a mutant, or without one."""
        with tempfile.TemporaryDirectory(dir=self._report.parent) as folder:
            running = Path(folder, "running")
            passed = run_forked(lambda: self._try(tests, mutant, running))
            return None if passed else running.read_text("utf-8")

    def _try(self, tests: Sequence[str], mutant: Mutant | None, running: Path) -> None:
        limits = Limits(running, self._seconds)
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(running.parent)
        if mutant is not None and not self._change(mutant):
            running.write_text("import", "utf-8")
            run_anew(mutant, tests, limits)
            return
        for cached in self._caches:
            cached.cache_clear()
        items = [self._items[test] for test in tests]
        if items:
            items[0].config.pluginmanager.register(limits)
            self._run(items)

    def _run(self, items: Sequence[pytest.Item], *, stops: bool = True) -> None:
        """Run tests.

        Raises:
            AssertionError: one fails, and that stops them.
        """
        for item, following in zip(items, (*items[1:], None), strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if stops and item.session.testsfailed:
                raise AssertionError(item.nodeid)


def run_anew(mutant: Mutant, tests: Sequence[str], limits: Limits) -> None:
    """Import all that is tested anew, with the mutant, and run tests.

    Raises:
        AssertionError: one fails.
    """
    for name in [*sys.modules]:
        if name.partition(".")[0] in ("trajmill", "tests"):
            del sys.modules[name]
    unchanged = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, name: str) -> CodeType | None:
        if loader.path == mutant.file:
            return compile(mutant.code, mutant.file, "exec", dont_inherit=True)
        return unchanged(loader, name)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign,assignment]
    if pytest.main([*QUIETLY, "-x", *tests], [limits]):
        raise AssertionError(mutant)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=60, help="mutants of each room")
    parser.add_argument("--only", choices=ROOMS, nargs="+", default=list(ROOMS), help="rooms")
    options = parser.parse_args()
    os.chdir(ROOT)
    os.environ |= {"PYTHONPATH": str(ROOT), "TRAJMILL_CORPORA": os.devnull}
    known = {tuple(line.split("\t")[:3]) for line in EQUIVALENT.read_text("utf-8").splitlines()}
    rows: list[tuple[str, int, int, int]] = []
    for room in options.only:
        mutants = draw_mutants(room, options.each)
        tried = [mutant for mutant in mutants if mutant.known not in known]
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder, "report")
            if not os.fork():
                pytest.main([*QUIETLY, *ROOMS[room].tests], [Trials(tried, report)])
                os._exit(0)
            os.wait()
            fates = pickle.loads(report.read_bytes())
        rows.append((room, len(mutants), len(mutants) - len(tried), sum(fates)))
    rows.append(("all", sum(row[1] for row in rows), sum(row[2] for row in rows), sum(row[3] for row in rows)))
    print("\n| | drawn | equivalent | killed | survived | share |\n|---|--:|--:|--:|--:|--:|")
    for name, number, alike, killed in rows:
        share = killed / (number - alike)
        print(f"| {name} | {number} | {alike} | {killed} | {number - alike - killed} | {100 * share:.1f} % |")
    sys.exit(share < 0.85)


if __name__ == "__main__":
    main()
