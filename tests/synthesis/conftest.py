from pathlib import Path

import pytest

from trajmill.synthesis.endpoint import openai_library


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's pauses grow from half a second, which tests need not wait for."""
    client = openai_library()._base_client
    monkeypatch.setattr(client, "INITIAL_RETRY_DELAY", 0.001)
    monkeypatch.setattr(client, "MAX_RETRY_DELAY", 0.002)


@pytest.fixture
def recorded(made: Path) -> Path:
    """The output folder of a finished run; not to be changed."""
    return made
