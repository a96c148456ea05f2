"""Beam's job server for Flink, and a cluster for it: a JobManager and two TaskManagers on this machine.

Flink's own servers listen on loopback; the gRPC servers of Beam's job server and TaskManagers have no setting for it.
The loss of a TaskManager is tolerated: the other has room for the whole job, and Flink repeats the work whose output
was not yet passed on.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from trajmill.pipelines.execution.server_process import Servers, cache_folder, call, free_port, listens
from trajmill.schemas import ConfigError

HERE: Final = Path(__file__).parent


def missing() -> tuple[str, ...]:
    """Return the required programs that are not on PATH: `java`, and Maven's `mvn`."""
    wanted = ("java",) if _cache().is_dir() else ("java", "mvn")
    return tuple(name for name in wanted if shutil.which(name) is None)


def jars() -> Path:
    """Return the folder of the jars, which the first call fills: 160 jars, 157 MB.

    Raises:
        ConfigError: Java or Maven is missing.
        ShardError: Maven failed.
    """
    lacking = missing()
    if lacking:
        raise ConfigError(f"--runner flink needs Java (11 to 17) and Maven; not on PATH: {', '.join(lacking)}.")
    cache = _cache()
    if cache.is_dir():
        return cache
    cache.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache.parent, prefix=".unfinished-") as temporary:
        lib = Path(temporary) / "lib"
        pom = shutil.copy(HERE / "pom.xml", temporary)
        goal = "dependency:copy-dependencies"
        call(["mvn", "-B", "-q", "-f", pom, goal, f"-DoutputDirectory={lib}", "-DincludeScope=runtime"], "Flink")
        if not cache.is_dir():
            lib.rename(cache)
    return cache


def _cache() -> Path:
    """Return the folder of the jars, named by the digest of the pom, so that another pom has another folder."""
    return cache_folder() / f"flink-{hashlib.sha256((HERE / 'pom.xml').read_bytes()).hexdigest()[:16]}"


TASK_MANAGERS: Final = 2
_JOB_MANAGER: Final = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
_TASK_MANAGER: Final = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
_JOB_SERVER: Final = "org.apache.beam.runners.flink.FlinkJobServerDriver"
_OPENED: Final = (
    *("lang", "lang.invoke", "lang.reflect", "util", "util.concurrent", "util.concurrent.atomic"),
    *("util.concurrent.locks", "nio", "net", "text", "time", "io", "math"),
)
_PATIENCE_S: Final = 120.0

_SETTINGS: Final = {
    "jobmanager.rpc.address": "localhost",
    "jobmanager.bind-host": "localhost",
    "rest.address": "localhost",
    "rest.bind-address": "localhost",
    "taskmanager.host": "localhost",
    "taskmanager.bind-host": "localhost",
    "taskmanager.cpu.cores": "2",
    "taskmanager.numberOfTaskSlots": "2",
    "taskmanager.load-balance.mode": "SLOTS",
    "taskmanager.memory.framework.heap.size": "128m",
    "taskmanager.memory.framework.off-heap.size": "128m",
    "taskmanager.memory.task.heap.size": "512m",
    "taskmanager.memory.task.off-heap.size": "0m",
    "taskmanager.memory.managed.size": "256m",
    "taskmanager.memory.network.min": "128m",
    "taskmanager.memory.network.max": "128m",
    "taskmanager.memory.jvm-metaspace.size": "256m",
    "taskmanager.memory.jvm-overhead.min": "192m",
    "taskmanager.memory.jvm-overhead.max": "192m",
    "classloader.resolve-order": "parent-first",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "3",
    "restart-strategy.fixed-delay.delay": "1 s",
    "heartbeat.interval": "2000",
    "heartbeat.timeout": "15000",
}
"""Settings of the cluster.

Flink's own scripts compute the memory of a TaskManager; it is set here, since they are not available. The memory of the
network is their default result.
"""


class FlinkServers(Servers):
    """Servers of a Flink cluster that run for one command.

    Args:
        folder: an empty folder for logs, settings and temporary files.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._folder, self._lib = folder, jars()
        self._ready: list[Callable[[], bool]] = []

    def start_cluster(self) -> str:
        """Start a JobManager and `TASK_MANAGERS` TaskManagers, and return the future address of the JobManager."""
        rest, rpc = free_port(), free_port()
        settings = _SETTINGS | {
            "rest.port": str(rest),
            "rest.bind-port": str(rest),
            "jobmanager.rpc.port": str(rpc),
            "io.tmp.dirs": str(self._folder),
        }
        (self._folder / "config.yaml").write_text("".join(f"{name}: {value}\n" for name, value in settings.items()))
        configured = ("--configDir", str(self._folder))
        self._java("JobManager", _JOB_MANAGER, "256m", *configured)
        for number in range(TASK_MANAGERS):
            own = ("-D", f"taskmanager.resource-id=TaskManager-{number}")
            self._java(f"TaskManager-{number}", _TASK_MANAGER, "640m", *configured, *own)
        self._ready.append(lambda: _managers(rest) == TASK_MANAGERS)
        return f"localhost:{rest}"

    def start_job_server(self, master: str) -> str:
        """Start the job server of a cluster and return its future address.

        Args:
            master: host and port of the cluster's JobManager, those of its web page.
        """
        job, artifacts = free_port(), free_port()
        options = {
            "flink-master": master,
            "job-host": "localhost",
            "job-port": str(job),
            "artifact-port": str(artifacts),
            "expansion-port": "-1",
            "artifacts-dir": str(self._folder / "artifacts"),
        }
        words = (f"--{name}={value}" for name, value in options.items())
        self._java("job server", _JOB_SERVER, "512m", *words)
        self._ready.append(lambda: listens(job))
        return f"localhost:{job}"

    def wait(self) -> None:
        """Wait until all started servers accept work.

        Raises:
            ShardError: a process ended, or was not ready in time.
        """
        self.wait_for(lambda: all(is_ready() for is_ready in self._ready), _PATIENCE_S)

    def _java(self, name: str, program: str, heap: str, *words: str) -> None:
        opened = (f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in _OPENED)
        command = ("java", f"-Xmx{heap}", *opened)
        command += ("--add-opens=java.base/sun.nio.ch=ALL-UNNAMED", f"-Djava.io.tmpdir={self._folder}")
        self.start(name, (*command, "-cp", f"{self._lib}/*", program, *words), self._environment())

    def _environment(self) -> dict[str, str]:
        """Create the folders that Flink requires; return the environment that names them."""
        named = {}
        for name in ("LIB", "PLUGINS", "OPT"):
            folder = self._folder / name.lower()
            folder.mkdir(exist_ok=True)
            named[f"FLINK_{name}_DIR"] = str(folder)
        return dict(os.environ) | named


def _managers(rest: int) -> int:
    """Count the TaskManagers of a cluster; 0 if it does not answer yet."""
    import urllib.request

    try:
        with urllib.request.urlopen(f"http://localhost:{rest}/overview", timeout=5) as answer:
            overview: dict[str, int] = json.load(answer)
    except (OSError, ValueError):
        return 0
    return overview.get("taskmanagers", 0)
