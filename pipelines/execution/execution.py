"""Settings of executing a run: in this process, or by a runner of Beam, which is imported on demand."""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from pydantic import ByteSize, TypeAdapter, ValidationError

from trajmill.pipelines.execution.dataflow.job_options import RUNNER as DATAFLOW
from trajmill.pipelines.execution.dataflow.job_options import faults_of
from trajmill.pipelines.execution.dataflow.jobs import require_reachable
from trajmill.pipelines.execution.environment import differences, environment
from trajmill.pipelines.storage.folders import Folder, make_unfinished_name
from trajmill.pipelines.storage.object_store import forget
from trajmill.pipelines.storage.ownership import is_held
from trajmill.pipelines.storage.paths import filesystem_class
from trajmill.schemas import ConfigError, ShardError

_PATIENCE_S: Final = 5.0


def require_openable(urls: Iterable[str]) -> None:
    """Check that there is a file system for each path or URL.

    Raises:
        ConfigError: a package for one is missing, or its kind is unknown.
    """
    for url in urls:
        protocol, mark, _ = url.partition("://")
        if mark and protocol.replace("+", "").isalnum():
            filesystem_class(url)


def require_answer(address: str, option: str) -> None:
    """Check that a server accepts connections at an address within a few seconds.

    Args:
        address: `host:port`, or a URL that begins with it.

    Raises:
        ConfigError: the address is not valid.
        ShardError: there is no answer.
    """
    try:
        url = urlsplit(address if "://" in address else f"//{address}")
        host, port = url.hostname, url.port
    except ValueError:
        host = port = None
    if host is None or port is None:
        raise ConfigError(f"--{option}={address}: wanted host:port.")
    try:
        socket.create_connection((host, port), timeout=_PATIENCE_S).close()
    except OSError as error:
        raise ShardError(f"No runner answers at {address} (--{option}): {error}. Start it, or name another") from error


if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

LOCAL: Final = "local"
IN_PROCESS: Final = "FnApiRunner"
"""Beam's runner in this process. `DirectRunner` first tries Prism and silently changes with a pipeline's transforms."""

RUNNERS: Final = (IN_PROCESS, "FlinkRunner", "PortableRunner", "DataflowRunner")
"""Runners of Beam that a run accepts. Other names are treated as typing errors."""

RECORDS: Final = 500_000
"""Default number of packed records of one exchange that a worker holds at once.

Records of near duplicates take 1.4 kB each there.
"""

MOST_PARTITIONS: Final = 4096


class UnknownOptionError(ConfigError):
    """Error for an option of the command line that neither trajmill nor Beam knows."""

    def __init__(self, option: str) -> None:
        super().__init__(f"Neither trajmill nor Beam knows the option {option}.")
        self.option = option


@dataclass(frozen=True, slots=True)
class Execution:
    """Settings of executing a run, none of which changes a byte of the shards.

    Attributes:
        workers: processes of the local runner.
        isolated: whether even a single worker is a separate process, as after one died over an input.
        beam: flags for Beam's PipelineOptions, as on a command line.
        part_bytes: decompressed bytes of raw input in one part; None chooses by the size of the inputs.
        limit: largest number of inputs, the first by uri; None takes all.
        strict: whether the run stops at the first exception of a connector; by default from the environment variable
            `TRAJMILL_STRICT`.
        partitions: number of partitions of hashes, a power of two; None chooses by their number.
        records: packed records of one partition that a worker holds at once, if the number of partitions is not given.
    """

    workers: int = 1
    beam: tuple[str, ...] = ()
    part_bytes: int | None = None
    limit: int | None = None
    strict: bool = field(default_factory=lambda: os.environ.get("TRAJMILL_STRICT", "") not in ("", "0"))
    partitions: int | None = None
    records: int = RECORDS
    isolated: bool = False

    def partitions_of(self, records: int) -> int:
        """Return the number of partitions for this many packed records: a power of two, at least two per worker."""
        if self.partitions is not None:
            return self.partitions
        wanted = max(-(-records // self.records), 2 * self.workers if self.workers > 1 else 1)
        return min(MOST_PARTITIONS, 1 << (wanted - 1).bit_length())

    @property
    def is_plain(self) -> bool:
        """True if the work is done without Beam, in this process or by its own workers."""
        return not self.beam

    def options(self) -> PipelineOptions:
        """Return Beam's options: the defaults of trajmill, then the given flags, which take precedence.

        Raises:
            ConfigError: a flag is unknown or has no valid value, a flag that the runner needs is missing, or the runner
                is none of `RUNNERS`.
        """
        from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions, SetupOptions, StandardOptions
        from apache_beam.options.pipeline_options_validator import PipelineOptionsValidator
        from apache_beam.runners import create_runner

        from trajmill.pipelines.execution.beam_flags import parse_flags

        all_flags = [f"--runner={IN_PROCESS}", "--no_save_main_session", *self.beam]
        unknown = parse_flags(all_flags)[1]
        if unknown:
            raise UnknownOptionError(unknown[0])
        options = PipelineOptions(all_flags)
        runner = options.view_as(StandardOptions).runner
        if runner not in RUNNERS:
            raise ConfigError(f"There is no runner '{runner}'; there are: {', '.join(RUNNERS)}.")
        if runner == IN_PROCESS and self.workers > 1:
            raise ConfigError(f"{IN_PROCESS} works in one process. Leave out --workers, or all options of Beam.")
        options.view_as(SetupOptions).save_main_session = False
        pipeline_runner = create_runner(runner)
        faults = (
            faults_of(options, pipeline_runner)
            if runner == DATAFLOW
            else PipelineOptionsValidator(options, pipeline_runner).validate()
        )
        if runner == "PortableRunner" and not options.view_as(PortableOptions).job_endpoint:
            faults.append("PortableRunner needs --job_endpoint=host:port.")
        if faults:
            raise ConfigError(f"The runner's options are not complete: {' '.join(' '.join(map(str, faults)).split())}")
        return options

    def require_runner(self, paths: Sequence[str] = ()) -> None:
        """Check that the runner answers at the addresses in its options, and that its workers can reach their paths.

        Args:
            paths: paths and URLs that its workers read and write.

        Raises:
            ConfigError: as for `options`, or an address is not valid, or workers elsewhere cannot see a path.
            ShardError: there is no answer at an address.
        """
        if self.is_plain:
            return
        from apache_beam.options.pipeline_options import FlinkRunnerOptions, PortableOptions, StandardOptions
        from apache_beam.runners.portability.flink_runner import MAGIC_HOST_NAMES

        options = self.options()
        if options.view_as(StandardOptions).runner == DATAFLOW:
            require_reachable(options, paths)
        endpoint = options.view_as(PortableOptions).job_endpoint
        if endpoint and endpoint != "embed":
            require_answer(endpoint, "job_endpoint")
        if options.view_as(StandardOptions).runner == "FlinkRunner" and not endpoint:
            master = options.view_as(FlinkRunnerOptions).flink_master
            if master not in MAGIC_HOST_NAMES:
                require_answer(master, "flink_master")

    @property
    def runner(self) -> str:
        """Name of the runner."""
        if not self.beam:
            return LOCAL
        return str(self.options().get_all_options(drop_default=True).get("runner"))

    @property
    def is_local(self) -> bool:
        """True if the work is done on this machine, where exchanged hashes and samples are spilled to files."""
        return self.runner in (LOCAL, IN_PROCESS)


def execution_of(
    workers: int,
    beam: Sequence[str],
    limit: int | None,
    part_size: str | None,
    partitions: int | None,
    records: int | None,
    *,
    strict: bool,
) -> Execution:
    """Build the settings from the options of a command line.

    Raises:
        ConfigError: a size is not valid, or the number of partitions is no power of two.
    """
    if partitions is not None and partitions & (partitions - 1):
        raise ConfigError(f"--partitions takes a power of two, not {partitions}.")
    size = None
    if part_size is not None:
        try:
            size = TypeAdapter(ByteSize).validate_python(part_size)
        except ValidationError:
            size = None
        if not size:
            raise ConfigError(f"--part-size takes a size such as 64MB or 1GiB, not '{part_size}'.")
    return Execution(workers, tuple(beam), size, limit, strict, partitions, records or RECORDS)


@dataclass(frozen=True, slots=True)
class Seeing:
    """Proof that a worker elsewhere can do a run's work like this process.

    The worker has the same packages and sees the output folder: it reads the run's token there, and writes a file.

    Attributes:
        out: the output folder.
    """

    out: Folder
    token: str
    environment: tuple[str, ...] = field(default_factory=environment)

    def __call__(self, element: Any) -> Any:
        """Return the element, after the proof of this process."""
        _prove_seen(self)
        return element


@cache
def _prove_seen(seeing: Seeing) -> None:
    forget()  # a worker that outlives a run has read what the next one makes again
    where, host = seeing.out.path(), platform.node()
    difference = differences(seeing.environment, environment())
    if difference:
        raise ShardError(
            f"The worker on {host} has another environment than the run: {difference}. Install there, by the same lock "
            "file, what is installed here."
        )
    if not is_held(seeing.out, seeing.token):
        raise ShardError(
            f"The worker on {host} does not see the output folder {where}. Give an --out that every worker reaches "
            "under the same path or URL: a shared file system or an object store."
        )
    proof = make_unfinished_name("proof")  # a killed worker leaves it to the next run to clear
    seeing.out.write(proof, seeing.token.encode())
    seeing.out.remove(proof)
