"""What Beam logs, in the process of a run and in its workers."""

from __future__ import annotations

import logging


def silence_beam() -> None:
    """Has Beam log errors only, and not those that it also raises."""
    logging.getLogger("apache_beam").setLevel(logging.ERROR)
    for module in ("common", "worker.data_plane", "portability.fn_api_runner.worker_handlers"):
        logging.getLogger(f"apache_beam.runners.{module}").setLevel(logging.CRITICAL)
