"""Beam's job service in a process of its own: the local runner behind the portable protocol, its ports on loopback."""

from __future__ import annotations

import sys
import threading

from apache_beam.runners.portability.local_job_service import LocalJobServicer

from trajmill.pipelines.execution.runner import bound_to_loopback, lost_workers_told


def main(port: str, folder: str) -> None:
    """Serves until it is ended.

    Args:
        port: to listen on.
        folder: for what jobs stage.
    """
    with bound_to_loopback(), lost_workers_told():
        LocalJobServicer(folder).start_grpc_server(int(port))
        threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
