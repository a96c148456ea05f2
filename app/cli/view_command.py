"""The command `trajmill view`: serves the page of a run's folder, or of a raw log, until it is ended."""

from __future__ import annotations

import secrets
import socket
import threading
import webbrowser
from contextlib import suppress
from typing import Annotated

import typer

from trajmill.app.console import notices, results
from trajmill.pipelines.run_record.endings import Interrupted
from trajmill.schemas import ConfigError


def view(
    path: Annotated[str, typer.Argument(help="A run's folder, or a raw log: a file, a folder or an archive.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="To serve on; 0 takes one that is free.")] = 0,
    browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Look at a run, or at a raw log before any run, in a browser: trajectories, verdicts, samples, copies, rejects.

    The page is served to this machine only, to whoever has the address that is printed. It asks for nothing from
    elsewhere, and nothing that a log holds is run. Nothing is written. End it with Ctrl-C.

    For example: trajmill view out/mine

    Or a raw log: trajmill view recordings/first.cast
    """
    from trajmill.app.pages.opening import opened

    contents = opened(path)  # before the rest is loaded: a large run is read meanwhile

    import uvicorn

    from trajmill.app.viewer.app import ADDRESS, TOKEN, prepare, viewer

    contents.so_far(0.0)  # what is damaged is told here, not on a page
    with listening(ADDRESS, port) as listener:
        token, number = secrets.token_urlsafe(24), listener.getsockname()[1]
        address = f"http://{ADDRESS}:{number}/?{TOKEN}={token}"
        config = uvicorn.Config(
            viewer(contents, token, number), log_level="warning", access_log=False, server_header=False, ws="none"
        )
        results().print(f"{contents.title}: {address}", soft_wrap=True)
        notices().print("Ctrl-C ends it.")
        threading.Thread(target=prepare, args=(contents,), name="prepare", daemon=True).start()
        if browser:
            webbrowser.open(address)
        with suppress(Interrupted):  # which is how it ends
            uvicorn.Server(config).run(sockets=[listener])


def listening(address: str, port: int) -> socket.socket:
    """A socket of this machine alone, where who comes before the server has begun waits for it.

    Raises:
        ConfigError: the port is taken.
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
