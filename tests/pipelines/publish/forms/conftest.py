"""Finished shards of a few samples with everything that is hard to tokenize, and the tokenizer of the tests."""

from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.pipelines.publish.forms.written_shards import written
from trajmill.pipelines.publish.forms.tokenizing import Tokenizing

TOKENIZER = str(ROOT / "tests" / "fixtures" / "tokenizer")


@pytest.fixture(scope="session")
def tokenizing() -> Tokenizing:
    return Tokenizing(TOKENIZER)


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run's folder with shards of `cpt` and `sft`; not to be changed."""
    return written(tmp_path_factory.mktemp("forms") / "out")
