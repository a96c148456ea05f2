"""A worker process of the local runner: Beam's own, whose errors the runner is told so that it can raise them again.

It says on stderr only what goes wrong with itself, leaves interrupts to the process that started it, and ends with it.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from pipelines.engine.unused_imports import without_pandas
from pipelines.face.printing import guard

_PERIOD_S: Final = 0.5


def _end_with(parent: int) -> None:
    """Ends this process soon after its parent is gone, however that ended."""
    while os.getppid() == parent:
        time.sleep(_PERIOD_S)
    os._exit(1)


def _later(say: Callable[..., object]) -> Callable[..., None]:
    """`say`, if this process is still there after a while: connections break when the runner ends, then so do we."""

    def said(*words: object, **more: Any) -> None:
        time.sleep(2 * _PERIOD_S)
        say(*words, **more)

    return said


def _telling(worker: Any, response: Any) -> None:
    """Makes Beam's worker answer an instruction that fails with the error as `passed_errors` tells it."""
    from pipelines.engine.passed_errors import told

    do = worker.do_instruction

    def do_instruction(self: Any, request: Any) -> Any:
        try:
            return do(self, request)
        except Exception as error:  # noqa: BLE001 - the runner raises it again
            return response(instruction_id=request.instruction_id, error=told(error))

    worker.do_instruction = do_instruction


def main() -> None:
    """Runs Beam's worker until the runner, or the process that it runs in, ends."""
    guard()
    without_pandas()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    threading.excepthook = _later(threading.excepthook)
    errors = logging.StreamHandler()
    errors.setLevel(logging.ERROR)
    logging.getLogger().addHandler(errors)
    from apache_beam.portability.api import beam_fn_api_pb2
    from apache_beam.runners.worker import log_handler, sdk_worker, sdk_worker_main

    from pipelines.engine.runner import silence_beam

    silence_beam()
    vars(log_handler)["print"] = _later(lambda words, **_: logging.error("%s", words))
    _telling(sdk_worker.SdkWorker, beam_fn_api_pb2.InstructionResponse)
    sdk_worker_main.main(sys.argv)


if __name__ == "__main__":
    main()
