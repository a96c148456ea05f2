"""Dataflow's jobs: their submission, waiting, and time limits."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from secrets import token_hex
from typing import Any, Final

from trajmill.pipelines.execution.dataflow.job_options import Meter, limit_to, time_limit
from trajmill.pipelines.storage.paths import filesystem_of, url_of
from trajmill.schemas import ConfigError, ShardError

FILES: Final = "/opt/trajmill/files"
"""Folder in the image for files that recipes name and workers read: models, templates."""

METER: Final = Meter()


def require_reachable(options: Any, paths: Sequence[str]) -> None:
    """Check that a job can reach its paths, as far as that can be determined here.

    Args:
        paths: paths and URLs that its workers read and write.

    Raises:
        ConfigError: a path is on this machine, or the bucket for temporary files does not exist.
        ShardError: the bucket cannot be accessed.
    """
    from apache_beam.options.pipeline_options import GoogleCloudOptions

    here = [path for path in paths if url_of(path) is None and not path.startswith(f"{FILES}/")]
    if here:
        raise ConfigError(
            f"Workers of Dataflow do not see {here[0]}: raw logs and --out are URLs there, such as gs://bucket/out. "
            f"Models and templates that a recipe names lie below {FILES}, here and in the image."
        )
    temporary = options.view_as(GoogleCloudOptions).temp_location
    bucket = temporary.removeprefix("gs://").partition("/")[0]
    try:
        exists = filesystem_of(f"gs://{bucket}")[0].exists(bucket)
    except Exception as error:
        raise ShardError(f"The bucket of --temp_location={temporary} cannot be looked at: {error}") from error
    if not exists:
        raise ConfigError(f"There is no bucket {bucket}, which --temp_location names. Make it, or name another.")


def run_job(pipeline: Any, work: str) -> None:
    """Submit a pipeline as a job and wait until it is done. If the wait ends earlier, the job is cancelled.

    Raises:
        RuntimeError: the job failed or was cancelled, with the known details.
        ShardError: the time of all jobs is used up, or the service no longer reports on the job.
    """
    limit = time_limit(pipeline.options)
    if limit is not None:
        limit_to(pipeline.options, METER.left(limit))
    _name(pipeline.options, work)
    with METER.running():
        result = pipeline.run()
        try:
            result.wait_until_finish()
        except Exception as error:
            if type(error).__name__ == "DataflowRuntimeException":
                raise RuntimeError(str(error)) from error
            _cancel(result)
            if isinstance(error, AssertionError):  # as Beam says that it asked in vain
                raise ShardError("The service does not tell of the job any more, which is cancelled") from error
            raise
        except BaseException:
            _cancel(result)
            raise


def _name(options: Any, work: str) -> None:
    """Give a job without a name a unique one from its kind of work."""
    from apache_beam.options.pipeline_options import GoogleCloudOptions

    view = options.view_as(GoogleCloudOptions)
    view.job_name = view.job_name or f"trajmill-{work.lower().replace('_', '-')}-{token_hex(4)}"


def _cancel(result: Any) -> None:
    with suppress(Exception):  # what ended the wait counts
        result.cancel()
