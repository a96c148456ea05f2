"""A worker process: Beam's own, whose errors the runner is told so that it can raise them again.

The local runner says in the environment what a worker has to know. Engines elsewhere start `trajmill-worker` (in
Beam's words the boot of a PROCESS environment) and only say who answers such questions, the provision service.

With `--forks` it is no worker, but forks them for the local runner: see `engine.fork_server`.

A worker says on stderr only what goes wrong with itself, leaves interrupts to the process that started it, and ends
with it.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from trajmill.pipelines.execution.fork_server import FORKS, fork_when_asked
from trajmill.pipelines.execution.memory import allocate_sparingly, collect_rarely
from trajmill.pipelines.execution.server_process import RUNNER_PROCESS, end_with_parent
from trajmill.pipelines.storage.scratch import is_running
from trajmill.pipelines.unused_imports import pandas_hidden, without_pandas

_PERIOD_S: Final = 0.5
_PATIENCE_S: Final = 60.0


def _end_with(parent: int) -> None:
    """Ends this process soon after its parent is gone, however that ended."""
    while os.getppid() == parent:
        time.sleep(_PERIOD_S)
    os._exit(1)


def _bind_to_parent() -> None:
    """Ends this process with the one that started it, which may be gone by now.

    Engines of others start workers from threads that end before them, which the system would take for the process. The
    runner may have started a shell, which started this one.
    """
    parent = os.getppid()
    named = os.environ.get(RUNNER_PROCESS)
    if named is not None and "--id" not in sys.argv and not end_with_parent(int(named)) and not is_running(int(named)):
        os._exit(1)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _later(say: Callable[..., object]) -> Callable[..., None]:
    """`say`, if this process is still there after a while: connections break when the runner ends, then so do we."""

    def said(*words: object, **more: Any) -> None:
        time.sleep(2 * _PERIOD_S)
        say(*words, **more)

    return said


def _telling(worker: Any, response: Any) -> None:
    """Makes Beam's worker answer an instruction that fails with the error as `passed_errors` tells it."""
    from trajmill.pipelines.execution.passed_errors import told

    do = worker.do_instruction

    def do_instruction(self: Any, request: Any) -> Any:
        try:
            return do(self, request)
        except Exception as error:  # noqa: BLE001 - the runner raises it again
            return response(instruction_id=request.instruction_id, error=told(error))

    worker.do_instruction = do_instruction


def provisioned(words: Sequence[str]) -> dict[str, str]:
    """What a worker has to know, as the local runner says it in the environment.

    Args:
        words: an engine's: the worker's id and the provision service's address; none of the local runner.
    """
    parser = argparse.ArgumentParser(prog="trajmill-worker", description=main.__doc__)
    parser.add_argument("--id", help="how the engine calls this worker")
    parser.add_argument("--provision_endpoint", help="host:port of the service that knows the rest")
    given, _ = parser.parse_known_args(words)
    if given.provision_endpoint is None:
        if "CONTROL_API_SERVICE_DESCRIPTOR" not in os.environ:
            parser.error("it is started by an engine, with --id and --provision_endpoint")
        return {}
    import grpc
    from apache_beam.portability.api import beam_provision_api_pb2 as provision
    from apache_beam.portability.api import beam_provision_api_pb2_grpc as services
    from google.protobuf import json_format, text_format

    name = given.id.strip("'")  # Prism quotes it
    with grpc.insecure_channel(given.provision_endpoint) as channel:
        asked = services.ProvisionServiceStub(channel).GetProvisionInfo(
            provision.GetProvisionInfoRequest(),
            metadata=[("worker_id", name)],
            timeout=_PATIENCE_S,
            wait_for_ready=True,
        )
    return {
        "WORKER_ID": name,
        "PIPELINE_OPTIONS": json_format.MessageToJson(asked.info.pipeline_options),
        "CONTROL_API_SERVICE_DESCRIPTOR": text_format.MessageToString(asked.info.control_endpoint),
        "LOGGING_API_SERVICE_DESCRIPTOR": text_format.MessageToString(asked.info.logging_endpoint),
        "RUNNER_CAPABILITIES": " ".join(asked.info.runner_capabilities),
    }


def _become_worker(channel: int) -> bool:
    """Loads all code, and forks workers; returns in each of them, and at last in this process: whether it is one."""
    server = os.getpid()
    if not end_with_parent(int(os.environ[RUNNER_PROCESS])):
        return False
    _load()
    more = fork_when_asked(channel)
    if more is None:
        return False
    if not end_with_parent(server):
        os._exit(1)
    os.environ.update(more)
    threading.Thread(target=_end_with, args=(server,), daemon=True).start()
    return True


def _load() -> None:
    """Loads what workers of any stage need."""
    with pandas_hidden():
        from apache_beam.runners.worker import sdk_worker_main  # noqa: F401

    import trajmill.pipelines.run  # noqa: F401
    from trajmill.connectors.registry import connectors

    tuple(connectors().values())  # which loads them


def main() -> None:
    """Runs Beam's worker until the runner, or the process that it runs in, ends."""
    allocate_sparingly()
    collect_rarely()
    without_pandas()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    errors = logging.StreamHandler()
    errors.setLevel(logging.ERROR)
    logging.getLogger().addHandler(errors)
    channel = next((word.partition("=")[2] for word in sys.argv[1:] if word.startswith(f"{FORKS}=")), None)
    if channel is None:
        _bind_to_parent()
    elif not _become_worker(int(channel)):
        return
    try:
        _work()
    except Exception as error:  # noqa: BLE001 - the process ends
        # the interpreter would else wait for threads of Beam, and the runner for this process
        sys.excepthook(type(error), error, error.__traceback__)
        os._exit(1)


def _work() -> None:
    os.environ.update(provisioned(sys.argv[1:]))
    threading.excepthook = _later(threading.excepthook)
    with pandas_hidden():
        from apache_beam.portability.api import beam_fn_api_pb2
        from apache_beam.runners.worker import log_handler, sdk_worker, sdk_worker_main

    from trajmill.pipelines.execution.silence import silence_beam

    silence_beam()
    vars(log_handler)["print"] = _later(lambda words, **_: logging.error("%s", words))
    _telling(sdk_worker.SdkWorker, beam_fn_api_pb2.InstructionResponse)
    sdk_worker_main.main(sys.argv)


if __name__ == "__main__":
    main()
