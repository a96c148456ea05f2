"""What a newcomer tries first: the samples of a domain through its recipe, from raw logs to loadable shards."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.conftest import ROOT
from trajmill.app.cli.cli import app


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The cache of `datasets`, which all runs share, as they do for a user."""
    return str(tmp_path_factory.mktemp("cache"))


@pytest.mark.parametrize("domain", ["swe", "search"])
def test_samples_fill_every_pool_of_their_recipe(domain, tmp_path, cache):
    from datasets import load_dataset

    out = tmp_path / "out"
    done = CliRunner().invoke(app, ["run", domain, "--raw", str(ROOT / "samples" / domain), "--out", str(out)])
    assert done.exit_code == 0, done.output
    output = " ".join(done.stdout.split())
    assert "is empty" not in output
    assert "duplicate_trajectory" in output
    turns: set[int] = set()
    for pool in ("cpt", "sft", "rl"):
        rows = load_dataset(str(out / "shards"), pool, split="train", cache_dir=cache)
        assert len(rows) >= 3, pool
        turns.update(rows["num_turns"] if pool != "rl" else ())
        assert pool == "rl" or set(rows["domain"]) == {domain}
    assert 1 in turns, "a single action that the world answered stays"
    lines = Path(out / "shards" / "eval" / f"{domain}_test.jsonl").read_text("utf-8").splitlines()
    assert len(lines) >= 3
