"""A worker process of Beam as engines start it: the boot command of a PROCESS environment.

An engine starts `trajmill-worker` with the address of its provision service. A worker leaves interrupts to the process
that started it, and ends with it.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from typing import Final

from trajmill.pipelines.execution.memory import tune_memory

_PERIOD_S: Final = 0.5
_PATIENCE_S: Final = 60.0


def _end_with(parent: int) -> None:
    """End this process soon after its parent is gone.

    Engines start workers from threads, which end before the engine does.
    """
    while os.getppid() == parent:
        time.sleep(_PERIOD_S)
    os._exit(1)


def provisioned(words: Sequence[str]) -> dict[str, str]:
    """Return the environment variables that Beam's worker needs, from the provision service.

    Args:
        words: arguments from the engine: the worker's id and the provision service's address.
    """
    parser = argparse.ArgumentParser(prog="trajmill-worker", description=main.__doc__)
    parser.add_argument("--id", required=True, help="how the engine calls this worker; engines start it")
    parser.add_argument("--provision_endpoint", required=True, help="host:port of the service that knows the rest")
    given, _ = parser.parse_known_args(words)
    import grpc
    from apache_beam.portability.api import beam_provision_api_pb2 as provision
    from apache_beam.portability.api import beam_provision_api_pb2_grpc as services
    from google.protobuf import json_format, text_format

    with grpc.insecure_channel(given.provision_endpoint) as channel:
        asked = services.ProvisionServiceStub(channel).GetProvisionInfo(
            provision.GetProvisionInfoRequest(),
            metadata=[("worker_id", given.id)],
            timeout=_PATIENCE_S,
            wait_for_ready=True,
        )
    return {
        "WORKER_ID": given.id,
        "PIPELINE_OPTIONS": json_format.MessageToJson(asked.info.pipeline_options),
        "CONTROL_API_SERVICE_DESCRIPTOR": text_format.MessageToString(asked.info.control_endpoint),
        "LOGGING_API_SERVICE_DESCRIPTOR": text_format.MessageToString(asked.info.logging_endpoint),
        "RUNNER_CAPABILITIES": " ".join(asked.info.runner_capabilities),
    }


def main() -> None:
    """Run Beam's worker until the engine that started it ends."""
    tune_memory()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    os.environ.update(provisioned(sys.argv[1:]))
    from apache_beam.runners.worker import sdk_worker_main

    sdk_worker_main.main(sys.argv)


if __name__ == "__main__":
    main()
