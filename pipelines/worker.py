"""A worker process of the local runner: Beam's own, which says on stderr what went wrong and nothing else."""

from __future__ import annotations

import logging
import sys

from pipelines.printing import guard


def main() -> None:
    """Runs Beam's worker until the runner ends it."""
    guard()
    errors = logging.StreamHandler()
    errors.setLevel(logging.ERROR)
    logging.getLogger().addHandler(errors)
    from apache_beam.runners.worker import sdk_worker_main

    sdk_worker_main.main(sys.argv)


if __name__ == "__main__":
    main()
