"""A run over a few samples of each domain, and a world model that answers from what was logged."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.synthesis.chat_server import ChatServer, chat_server
from trajmill.pipelines.recipe.recipe import Mix, Recipe
from trajmill.pipelines.recipe.recipe_file import load_recipe
from trajmill.pipelines.render.fixed_texts import MARKER
from trajmill.pipelines.storage.folders import Folder
from trajmill.quality.tokens import TokenCounter
from trajmill.synthesis.endpoint import Address, openai_library
from trajmill.synthesis.replies import Prices, Replies
from trajmill.worlds.serve.history import Manner
from trajmill.worlds.serve.scenarios import Scenarios
from trajmill.worlds.serve.serve_log import ServeLog
from trajmill.worlds.serve.served_model import Bounds, Pinned, ServedModel
from trajmill.worlds.serve.sessions import Limits, Sessions

RAW = (
    "mcp/desktop/mcp-server-library-three-at-once.log",
    "mcp/desktop/mcp-server-calendar-move-choir.log",
    "search/search_r1.txt",
    "terminal/asciicast/xargs_and_perl.cast",
    "terminal/asciicast/permission_denied.cast",
    "swe/mini-calls/trajs/holm__span-1",
    "swe/mini-calls/trajs/holm__bell-5",
    "swe/mini-calls/trajs/holm__grid-11",
    "web/tasks/undo-done",
    "web/tasks/finish-one",
    "os/computer_13/a11y_tree/scripted-a/contacts/look-up",
    "os/pyautogui/a11y_tree/scripted-a/tasks/show-open",
    "android/uiautomator/run_02",
    "android/uiautomator/run_05",
    "android/uiautomator/run_14",
)


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's pauses grow from half a second, which tests need not wait for."""
    client = openai_library()._base_client
    monkeypatch.setattr(client, "INITIAL_RETRY_DELAY", 0.001)
    monkeypatch.setattr(client, "MAX_RETRY_DELAY", 0.002)


def recipe(**mix: Any) -> Recipe:
    loaded = load_recipe("all")
    return loaded.model_copy(update={"mix": Mix(pools={"sft": 0.5, "rl": 0.5}, prompt_share=1, **mix)})


Serve = Callable[..., Sessions]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Makes sessions of a world model at an endpoint."""
    opened: list[Sessions] = []

    def sessions(
        url: str,
        pool: Any = "sft",
        mix: Mix | None = None,
        *,
        bounds: Bounds | None = None,
        limits: Limits | None = None,
        prices: Prices | None = None,
        log: str = "log",
        scenarios: Path | None = None,
        **more: Any,
    ) -> Sessions:
        address = Address(url, prices=prices or Prices(2.0, 10.0), retries=2, timeout_s=20)
        pinned = Pinned.of("lwm@r1", sampling={"temperature": 0.0, "max_tokens": 200}, **more)
        model = ServedModel(address, pinned, Replies(Folder(str(tmp_path / log / ".replies"))), bounds or Bounds())
        manner = Manner(mix or recipe().mix, pool, pool != "sft", TokenCounter())
        written = ServeLog(tmp_path / log)
        opened.append(Sessions(model, manner, Scenarios(scenarios), written, limits))
        return opened[-1]

    yield sessions
    for session in opened:
        session.close_all()
        session.log.close()
        session.model.close()


@pytest.fixture
def world() -> Iterator[ChatServer]:
    """A world model that says what it was asked last, for tests of everything else."""
    with chat_server(lambda body: MARKER + "seen: " + body["messages"][-1]["content"][-20:]) as chat:
        yield chat


TERMINAL = {"id": "t1", "domain": "terminal", "observation": "$", "instruction": "List what is there."}
