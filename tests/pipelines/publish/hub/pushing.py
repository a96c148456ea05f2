"""The push command against a Hub on this machine, and what both sides hold."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.pipelines.publish.hub.hub_server import SIGNATURE, TOKEN, Hub, serving
from trajmill.app.cli.cli import app

NAME = "mill/worlds"


@contextmanager
def reached(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A Hub that `huggingface_hub` asks in this process, with a token that may write."""
    from huggingface_hub import constants

    with serving() as hub:
        address = constants.HUGGINGFACE_CO_URL_TEMPLATE.removeprefix(constants.ENDPOINT)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.url + address)
        monkeypatch.setattr(constants, "ENDPOINT", hub.url)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)  # as it stays where `datasets` was told to ask nobody
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield hub


def pushed(out: Path, *words: str, code: int = 0, licences: str | None = "unknown") -> str:
    """What the command says, on both streams and in one line; no secret of the Hub's is in it.

    Args:
        out: the folder of a run.
        words: further ones.
        code: with which it ends; 1 for whatever error.
        licences: that a recipe lets be published; None for those of the run's own recipe.
    """
    recipe = out.parent / "allowing.yaml"
    recipe.write_text(f"name: a\nsource: b\ncard: {{licences: [{licences}]}}\n")
    own = [] if licences is None else ["--recipe", str(recipe)]
    done = CliRunner().invoke(app, ["push", str(out / "shards"), NAME, *own, *words])
    output = done.output + (str(done.exception) if done.exception else "")
    assert done.exit_code == code, output
    assert TOKEN not in output
    assert SIGNATURE not in output
    return " ".join(output.split())


def files_of(out: Path) -> dict[str, bytes]:
    """Every file of the dataset folder of a run."""
    shards = out / "shards"
    return {str(path.relative_to(shards)): path.read_bytes() for path in sorted(shards.rglob("*")) if path.is_file()}


def there(hub: Hub, branch: str = "main") -> dict[str, bytes]:
    """Every file of the data set on the Hub, but for the one that it makes itself."""
    return {path: data for path, data in hub.repos[NAME].head(branch).items() if path != ".gitattributes"}
