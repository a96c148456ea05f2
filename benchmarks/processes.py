"""Tasks that are measured in a process of their own, one after the other: CPU seconds, peak memory, time by stage.

A module that measures so has tasks by name and hands its command line to `work` when it is called with `--task`.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

Task = tuple[Callable[[], None], Callable[[Path], Iterator[str]]]
"""What loads all code that is needed, and what works in a folder and tells the name of each stage when it is done."""


def load_ours() -> None:
    """Loads all that our stages need."""
    import trajmill.pipelines.run  # noqa: F401
    from trajmill.connectors.registry import connectors
    from trajmill.pipelines.execution.memory import tune_memory

    tune_memory()
    tuple(connectors().values())  # which loads them


def cpu_seconds(work: Callable[[], Any]) -> float:
    """CPU seconds that some work takes in this process."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def run_to_end(
    command: Sequence[str], variables: Mapping[str, str] = MappingProxyType({})
) -> tuple[bytes, resource.struct_rusage]:
    """Run a process to its end; return what it printed and the system's account of the resources it used.

    Args:
        variables: of its environment, besides those of this process.

    Raises:
        SystemExit: it failed; with what it said.
    """
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env={**os.environ, **variables})
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status
        errors.seek(0)
        if status:
            raise SystemExit(f"{' '.join(command)} failed:\n{errors.read().decode()}")
    return output, usage


def print_table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table in Markdown, each row as soon as it is there."""
    print(f"| {' | '.join(names)} |\n{'|---' * len(names)}|")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def work(tasks: Mapping[str, Task], task: str, folder: Path) -> None:
    """Does a task in this process, and prints the CPU seconds that it has taken after loading and after each stage."""
    load, stages = tasks[task]
    load()
    print(json.dumps({"loaded": time.process_time()}), flush=True)
    for stage in stages(folder):
        print(json.dumps({stage: time.process_time()}), flush=True)
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    print(json.dumps({"peak": int(peak.split()[1]) / 1024}), flush=True)


def measure_task(module: str, task: str, folder: Path) -> tuple[float, float, dict[str, float]]:
    """(CPU seconds without loading, peak memory in MB, CPU seconds by stage) of a task of a module in its own process.

    Args:
        module: whose `main` calls `work` for `--task` and `--place`.
        folder: folder that it works in.
    """
    output, usage = run_to_end([sys.executable, "-m", module, "--task", task, "--place", str(folder)])
    lines = [json.loads(line) for line in output.splitlines() if line.startswith(b"{")]
    marks = {name: value for line in lines for name, value in line.items()}
    peak = marks.pop("peak")  # the account of resources holds also what the parent held when it started the process
    times = list(marks.values())
    stages = {name: after - before for name, before, after in zip(list(marks)[1:], times, times[1:], strict=False)}
    return usage.ru_utime + usage.ru_stime - marks["loaded"], peak, stages
