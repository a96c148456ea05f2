"""`python -m benchmarks.serving`: a served world on the samples, by a model that knows what was logged.

A run is made of the samples. Its trajectories are served by `trajmill world serve` before an endpoint that answers only
the messages of training samples, byte for byte, and clients live through all of them at once. What the sessions left is
read again by a run and held against the logs. No network, no model.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.conftest import ROOT
from tests.synthesis.chat_server import Answer, chat_server
from tests.worlds.serve.logged_world import FromLogs, Logged, logged
from trajmill.pipelines.recipe.recipe import Mix
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.run import Run
from trajmill.schemas import DOMAINS, scan_transitions
from trajmill.worlds.drift.drift import Settings, drift
from trajmill.worlds.serve.serve_client import RemoteWorld

_CLIENTS = 8


def live_through(world: RemoteWorld, number: int, logged_trajectory: Logged) -> tuple[str, int, int]:
    """(domain, steps that were answered, steps of the sample) of a trajectory that a client lived through."""
    begun = world.reset({"scenario": logged_trajectory.scenario.id, "seed": number})
    steps = logged_trajectory.steps[: (len(logged_trajectory.messages) - 1) // 2]
    answered = 0
    for step in steps:
        result = world.step({"session": begun["session"], **step})
        answered += result["info"]["answer"] in ("observed", "empty")
        if result["truncated"]:
            break
    else:
        world.close({"session": begun["session"]})
    return logged_trajectory.scenario.domain, answered, len(steps)


@contextmanager
def serving(out: Path, log: Path, model: Answer, pool: str, name: str) -> Iterator[str]:
    """Serve the trajectories of a run by a world model, and yield the address."""
    with chat_server(model) as chat:
        words = ["world", "serve", "--endpoint", chat.url, "--recipe", str(out / "run.json"), "--model", name]
        words += ["--from", str(out), "--log", str(log), "--pool", pool, "--tries", "1", "--price", "0.1,0.4"]
        process = subprocess.Popen([sys.executable, "-m", "trajmill", *words], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip().partition(": ")[2]
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)


def serve_clients(out: Path, log: Path, known: Sequence[Logged], pool: str) -> dict[str, Any]:
    """The status of a server whose clients lived through trajectories, with what each domain came to."""
    model = FromLogs([logged_trajectory.messages for logged_trajectory in known], pool == "rl")
    with serving(out, log, model, pool, "logs@1") as url, ThreadPoolExecutor(_CLIENTS) as clients:
        world = RemoteWorld(url)
        outcomes = list(clients.map(lambda numbered: live_through(world, *numbered), enumerate(known)))
        return {**world.status(), "lived": outcomes}


def tell(pool: str, status: dict[str, Any], seconds: float) -> bool:
    """Prints what each domain came to; whether each step was answered, as only the training sample's messages are."""
    trajectories, answered, wanted = Counter[str](), Counter[str](), Counter[str]()
    for domain, got, steps in status["lived"]:
        trajectories[domain] += 1
        answered[domain] += got
        wanted[domain] += steps
    print(f"{pool}: sent as in training samples, byte for byte")
    print(f"  {'domain':10} {'trajectories':>12} {'steps':>8} {'same':>8}")
    for domain in sorted(trajectories):
        print(f"  {domain:10} {trajectories[domain]:12,} {wanted[domain]:8,} {answered[domain]:8,}")
    used, steps = status["used"], max(1, sum(wanted.values()))
    print(
        f"  calls {used['calls']:,}, tokens {used['prompt_tokens'] + used['completion_tokens']:,}, cost {used['cost']}"
    )
    print(f"  {1000 * seconds / steps:.1f} ms of CPU a step in the server, its start with it")
    return answered == wanted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--domains", nargs="*", default=list(DOMAINS), help="of the samples")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as temporary:
        out = Path(temporary) / "out"
        recipe = load_recipe("all").model_copy(update={"mix": Mix(pools={"sft": 0.5, "rl": 0.5}, prompt_share=1)})
        Run(recipe, [str(ROOT / "samples" / name) for name in options.domains], str(out)).run()
        good = True
        for pool in ("sft", "rl"):
            log, before = Path(temporary) / f"served-{pool}", resource.getrusage(resource.RUSAGE_CHILDREN)
            status = serve_clients(out, log, logged(out, recipe.mix, pool), pool)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            good = tell(pool, status, seconds) and good
            again = Path(temporary) / f"again-{pool}"
            Run(load_recipe("all"), [str(log / "trajectories")], str(again)).run()
            kinds = scan_transitions(again).collect()["environment"].struct.field("kind").value_counts()
            print(f"  read again by a run: {dict(kinds.iter_rows())}")
            (model,) = drift(str(out), str(again), Settings(), {}).models
            figures = [(name, figure) for cell in model.cells for name, figure in cell.figures.items()]
            apart = max(abs(figure.difference - (name == "length")) for name, figure in figures)
            print(f"  held against the logs: {dict(model.pairs)}, no figure differs by more than {apart:.3f}")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
