"""A bucket in memory, and what stands in for Dataflow."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fsspec
import pytest

from tests.pipelines.execution.dataflow.service import Service, put_in_place


@contextmanager
def filled_bucket(raw: Path) -> Iterator[str]:
    """The URL of a folder with raw logs, which every thread of this process sees, and no machine has."""
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    for path in raw.iterdir():
        memory.pipe_file(f"/bucket/raw/{path.name}", path.read_bytes())
    yield "memory://bucket"
    memory.store.clear()


def service_in_place(patch: pytest.MonkeyPatch) -> Service:
    """The service, in the place of the calls to the real one; skips where the packages of the extra are missing."""
    pytest.importorskip("google.cloud.dataflow", reason="the extra dataflow is not installed: make dataflow")
    return put_in_place(patch)


@pytest.fixture
def bucket(raw: Path) -> Iterator[str]:
    with filled_bucket(raw) as url:
        yield url


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    return service_in_place(monkeypatch)
