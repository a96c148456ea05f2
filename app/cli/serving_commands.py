"""Commands that serve until they are stopped: `trajmill view` and `trajmill world serve`."""

from __future__ import annotations

import os
import secrets
import socket
import threading
import webbrowser
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from trajmill.app.cli.model_commands import prices_of, sampling_of
from trajmill.app.console import notices, results
from trajmill.pipelines.run_record.endings import Interrupted
from trajmill.schemas import ConfigError


def view(
    path: Annotated[str, typer.Argument(help="A run's folder, or a raw log: a file, a folder or an archive.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="To serve on; 0 takes one that is free.")] = 0,
    browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """View a run, or a raw log before any run, in a browser: trajectories, verdicts, samples, copies, rejects.

    Pages are served to this machine only, to whoever has the printed address. They load nothing from elsewhere, and run
    nothing that a log holds. Nothing is written. End it with Ctrl-C.

    For example: trajmill view out/mine

    Or a raw log: trajmill view recordings/first.cast
    """
    from trajmill.app.pages.opening import open_contents

    contents = open_contents(path)  # before the rest is loaded: a large run is read meanwhile

    import uvicorn

    from trajmill.app.viewer.app import ADDRESS, TOKEN, prepare, viewer

    contents.so_far(0.0)  # what is damaged is told here, not on a page
    with listening(ADDRESS, port) as listener:
        token, number = secrets.token_urlsafe(24), listener.getsockname()[1]
        address = f"http://{ADDRESS}:{number}/?{TOKEN}={token}"
        config = uvicorn.Config(
            viewer(contents, token, number), log_level="warning", access_log=False, server_header=False, ws="none"
        )
        results().print_line(f"{contents.title}: {address}")
        notices().print("Ctrl-C ends it.")
        threading.Thread(target=prepare, args=(contents,), name="prepare", daemon=True).start()
        if browser:
            webbrowser.open(address)
        with suppress(Interrupted):  # which is how it ends
            uvicorn.Server(config).run(sockets=[listener])


def listening(address: str, port: int) -> socket.socket:
    """Return a listening socket, at which clients can already wait before the server starts.

    Raises:
        ConfigError: The port is taken.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
        listener.listen(64)
    except OSError as error:
        listener.close()
        raise ConfigError(f"Port {port} cannot be served: {error.strerror}. Choose another --port, or none.") from error
    return listener


if TYPE_CHECKING:
    from trajmill.pipelines.recipe.recipe import Recipe
    from trajmill.worlds.serve.scenarios import Scenarios
    from trajmill.worlds.serve.sessions import Sessions

SCENARIOS: Final = "scenarios.jsonl"
_TOKEN: Final = "TRAJMILL_SERVE_TOKEN"  # noqa: S105 - the name of a variable


class Followed(StrEnum):
    """Pool with the samples on which the model was trained."""

    SFT = "sft"
    RL = "rl"


def serve(
    endpoint: Annotated[str, typer.Option(help="A chat endpoint, such as http://127.0.0.1:8000/v1.")],
    recipe: Annotated[str, typer.Option(help="By which the model's training data was made: a file, a name, run.json.")],
    model: Annotated[str, typer.Option(metavar="NAME@REVISION", help="The world model, pinned.")],
    log: Annotated[str, typer.Option(help="The folder that sessions are written to.")],
    scenarios: Annotated[str | None, typer.Option(help="What sessions begin with, as JSON lines.")] = None,
    take: Annotated[
        str | None, typer.Option("--from", help="A finished run, whose trajectories sessions begin as.")
    ] = None,
    pool: Annotated[Followed, typer.Option(help="Whose samples the model was trained on.")] = Followed.SFT,
    tagged: Annotated[
        bool, typer.Option("--tagged", help="With sft: it learnt reasoning, and answers in tags.")
    ] = False,
    temperature: Annotated[float, typer.Option(min=0.0, help="Of the model.")] = 0.0,
    max_tokens: Annotated[int, typer.Option(min=16, help="Of an answer.")] = 1 << 14,
    body: Annotated[str, typer.Option(help="Further values of requests, as a JSON object.")] = "{}",
    seed: Annotated[int, typer.Option(min=0, help="Of sessions that name none.")] = 0,
    tries: Annotated[int, typer.Option(min=1, help="Answers that are asked for until one is an observation.")] = 2,
    price: Annotated[str, typer.Option(metavar="IN,OUT", help="What a million tokens cost.")] = "0,0",
    max_cost: Annotated[float | None, typer.Option(min=0.0, help="Stop before more is spent.")] = None,
    max_total_tokens: Annotated[int | None, typer.Option(min=1, help="Stop before more tokens are used.")] = None,
    max_calls: Annotated[int | None, typer.Option(min=1, help="Stop before more requests are sent.")] = None,
    rpm: Annotated[float | None, typer.Option(min=0.01, help="Requests a minute, repeated ones too.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Requests at once.")] = 16,
    timeout: Annotated[float, typer.Option(min=1.0, help="Seconds for one answer.")] = 600.0,
    retries: Annotated[int, typer.Option(min=0, help="How often what failed for the moment is repeated.")] = 8,
    key_variable: Annotated[str, typer.Option(help="The variable that holds the endpoint's key.")] = "OPENAI_API_KEY",
    cache: Annotated[str | None, typer.Option(help="The folder of answers; LOG/.replies by default.")] = None,
    host: Annotated[str, typer.Option(help="To serve on; another than loopback wants a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="To serve on; 0 takes one that is free.")] = 0,
    token_variable: Annotated[str, typer.Option(help="The variable that holds the token.")] = _TOKEN,
    max_sessions: Annotated[int, typer.Option(min=1, help="Open at once.")] = 1024,
    max_steps: Annotated[int, typer.Option(min=1, help="Of a session.")] = 512,
    expire_after: Annotated[float, typer.Option(min=1.0, help="Seconds after which an idle session ends.")] = 1800.0,
) -> None:
    """Serve a world model as an environment, rendered as its training data was: reset and step over HTTP.

    For example: trajmill world serve --endpoint http://127.0.0.1:8000/v1 --recipe out/mine/run.json --model
    lwm-8b@2026-11-01 --from out/mine --log out/served
    """
    from trajmill.pipelines.recipe.recipe_file import load_recipe

    followed = load_recipe(recipe)  # before the rest is loaded, since a slip of the pen should be told at once

    from trajmill.pipelines.storage.folders import Folder
    from trajmill.quality.tokens import TokenCounter
    from trajmill.synthesis.endpoint import Address
    from trajmill.synthesis.replies import Replies
    from trajmill.worlds.serve.history import Manner
    from trajmill.worlds.serve.serve_log import ServeLog
    from trajmill.worlds.serve.served_model import Bounds, Pinned, ServedModel
    from trajmill.worlds.serve.sessions import Limits, Sessions

    pinned = Pinned.of(model, sampling=sampling_of(temperature, max_tokens, body), seed=seed, tries=tries)
    token = _token(host, token_variable)
    log_folder = Path(log)
    address = Address(endpoint, os.environ.get(key_variable) or "none", prices_of(price), timeout, retries)
    replies = Replies(Folder(cache or str(log_folder / ".replies")))
    begun = begun_with(scenarios, take, followed, log_folder)
    bounds = Bounds(max_cost, max_total_tokens, max_calls)
    asked = ServedModel(address, pinned, replies, bounds, concurrency, rpm)
    limits = Limits(max_sessions, expire_after, max_steps)
    manner = Manner(followed.mix, pool.value, tagged or pool != "sft", TokenCounter(followed.judge.tokenizer))
    sessions = Sessions(asked, manner, begun, ServeLog(log_folder), limits)
    try:
        _serve_until_end(sessions, host, port, token)
    finally:
        sessions.close_all()
        sessions.log.close()
        asked.close()
        _tell(sessions, log_folder)


def _token(host: str, variable: str) -> str:
    from trajmill.worlds.serve.serve_app import LOOPBACK

    token = os.environ.get(variable, "")
    if host not in LOOPBACK and not token:
        raise ConfigError(f"{host} is more than this machine: put a token into {variable}, which clients then bear.")
    return token


def begun_with(path: str | None, run: str | None, recipe: Recipe, log: Path) -> Scenarios:
    """Load the initial scenarios of sessions from a file, or from a finished run; the latter are written to a file
    first.

    Raises:
        ConfigError: Both are given, or the given one cannot be read.
    """
    from trajmill.pipelines.storage.folders import Folder
    from trajmill.quality.tokens import TokenCounter
    from trajmill.worlds.serve.scenarios import Scenarios, scenarios_in

    if path is not None and run is not None:
        raise ConfigError("--scenarios and --from both say what sessions begin with: give one of them.")
    if run is None:
        return Scenarios(None if path is None else Path(path))
    log.mkdir(parents=True, exist_ok=True)
    written, unfinished = log / SCENARIOS, log / f"{SCENARIOS}.unfinished"
    with unfinished.open("w", encoding="utf-8") as stream:
        for scenario in scenarios_in(Folder.named(run), recipe.mix, TokenCounter(recipe.judge.tokenizer)):
            stream.write(scenario.line() + "\n")
    unfinished.replace(written)
    return Scenarios(written)


def _serve_until_end(sessions: Sessions, host: str, port: int, token: str) -> None:
    """Serve until the process is interrupted."""
    import uvicorn

    from trajmill.worlds.serve.serve_app import LOOPBACK, build_app

    with listening(host, port) as listener:
        number = listener.getsockname()[1]
        names = tuple(f"{name}:{number}" for name in LOOPBACK) if host in LOOPBACK else ()
        config = uvicorn.Config(
            build_app(sessions, token, names), log_level="warning", access_log=False, server_header=False, ws="none"
        )
        results().print_line(f"{sessions.model.pinned.world_model}: http://{host}:{number}")
        notices().print(f"{len(sessions.scenarios):,} scenarios. Ctrl-C ends it.")
        with suppress(Interrupted):  # which is how it ends
            uvicorn.Server(config).run(sockets=[listener])


def _tell(sessions: Sessions, log: Path) -> None:
    """Print the totals when serving is over."""
    from trajmill.worlds.serve.serve_log import TRAJECTORIES

    status = sessions.status()
    used, counts = status["used"], status["counts"]
    console = results()
    console.print(
        f"sessions: {counts['begun']:,}, steps: {counts['steps']:,}; calls: {used['calls']:,} sent, "
        f"{used['known']:,} known before; tokens: {used['prompt_tokens']:,} asked, "
        f"{used['completion_tokens']:,} answered; cost: {used['cost']:,.4f}"
    )
    if status["bound"]:
        console.print(f"the bound on {status['bound']} was reached", style="yellow")
    if any(name.startswith("ended.") for name in counts):
        console.print_line(f"sessions are written; a run reads them: --raw {log / TRAJECTORIES}")
