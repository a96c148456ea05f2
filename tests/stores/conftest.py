"""Local servers that speak as S3 and Google Cloud Storage do, each behind a door that counts."""

import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import fsspec
import pytest

from tests.stores.counting_proxy import CountingProxy
from trajmill.pipelines.storage import object_store

STORES = ("s3", "gs")

os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"
"""Before gcsfs is imported: it would ask Google what kind of bucket it is, which no emulator answers."""


@dataclass(frozen=True)
class Store:
    """A store with one bucket.

    Attributes:
        url: of the bucket.
        door: before the server.
        filesystem: of fsspec, for tests that look for themselves.
    """

    url: str
    door: CountingProxy
    filesystem: Any


@pytest.fixture(scope="session")
def moto_port() -> Iterator[int]:
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    yield server.get_host_and_port()[1]
    server.stop()


@pytest.fixture(scope="session")
def emulator_port() -> Iterator[int]:
    create_server = pytest.importorskip("gcp_storage_emulator.server").create_server
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = create_server("127.0.0.1", port, in_memory=True)
    server.start()
    yield port
    server.stop()


@pytest.fixture(scope="session", params=STORES)
def served(request: pytest.FixtureRequest) -> Iterator[Store]:
    pytest.importorskip("s3fs" if request.param == "s3" else "gcsfs")
    port = request.getfixturevalue("moto_port" if request.param == "s3" else "emulator_port")
    with CountingProxy(port) as door:
        names = (
            {"AWS_ENDPOINT_URL": door.url, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
            if request.param == "s3"
            else {"STORAGE_EMULATOR_HOST": door.url, "NO_GCE_CHECK": "true"}
        )
        before = {name: os.environ.get(name) for name in names}
        os.environ.update(names)
        fsspec.config.conf["gs"] = {"token": "anon"}
        filesystem = fsspec.filesystem(request.param)
        filesystem.mkdir("made-for-tests")
        yield Store(f"{request.param}://made-for-tests", door, filesystem)
        filesystem.clear_instance_cache()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


@pytest.fixture
def store(served: Store) -> Iterator[Store]:
    """An empty bucket, and a door that has counted nothing."""
    object_store.forget()
    served.filesystem.invalidate_cache()
    left = served.filesystem.find("made-for-tests")
    for path in left:
        served.filesystem.rm_file(path)
    served.door.fail([])
    served.door.forget()
    yield served
    served.door.fail([])
