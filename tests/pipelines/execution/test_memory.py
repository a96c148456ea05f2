"""The garbage collector is put back as it was, whatever happens in between."""

import gc
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from trajmill.pipelines.execution.memory import _of_libc, rare_collections


@pytest.fixture(autouse=True)
def _as_python_begins() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_collections_are_rare_in_the_block_and_as_before_after_it() -> None:
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    with rare_collections():
        assert gc.get_threshold()[0] > before[0]
        assert gc.get_freeze_count() > frozen
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)


def test_a_failing_block_leaves_the_collector_as_it_was() -> None:
    before = gc.get_threshold()
    with pytest.raises(ValueError, match=r"^inside$"), rare_collections():
        raise ValueError("inside")
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)


_SCATTERED = """
import pipelines, pyarrow as pa
from trajmill.pipelines.execution.memory import allocate_sparingly
def data():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmData")).split()[1]) >> 10
allocate_sparingly()
before, small = data(), []
for size in range(30):  # by which the C library learns to take such blocks from its heap
    del [pa.allocate_buffer((size + 1) << 20)][:]
for number in range(20):  # row groups: columns go, and a little of each stays until the log ends
    large = [pa.allocate_buffer(6 << 20) for _ in range(4)]
    small.append([pa.allocate_buffer(1 << 10) for _ in range(64)])
    del large
print(pa.default_memory_pool().backend_name, data() - before)
"""
"""Prints Arrow's allocator, and by how many MiB the process has grown in the eyes of a limit on data."""


@pytest.mark.skipif(_of_libc("mallopt") is None, reason="the C library is another")
def test_what_stays_of_a_log_does_not_keep_the_addresses_of_what_went():
    own = {name: value for name, value in os.environ.items() if not name.startswith(("ARROW_", "MALLOC_"))}
    said = subprocess.run([sys.executable, "-c", _SCATTERED], capture_output=True, check=True, text=True, env=own)
    allocator, grown = said.stdout.split()
    assert allocator == "system"
    assert int(grown) < 32
