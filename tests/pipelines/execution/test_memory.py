"""What was freed does not stay with the process."""

import os
import subprocess
import sys

import pytest

from trajmill.pipelines.execution.memory import _of_libc

_SCATTERED = """
import trajmill, pyarrow as pa
from trajmill.pipelines.execution.memory import tune_memory
def data():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmData")).split()[1]) >> 10
tune_memory()
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
    process = subprocess.run([sys.executable, "-c", _SCATTERED], capture_output=True, check=True, text=True, env=own)
    allocator, grown = process.stdout.split()
    assert allocator == "system"
    assert int(grown) < 32


_HELD = """
import sys
import trajmill, pyarrow as pa
from trajmill.pipelines.execution.memory import give_back_memory, tune_memory
def resident():
    return int(open("/proc/self/statm").read().split()[1]) >> 8
tune_memory()
blocks = [bytes(1 << 16) for _ in range(int(sys.argv[1]) << 4)]
last = bytes(1 << 16)  # behind which nothing is trimmed by itself
del blocks
before = resident()
give_back_memory()
print(before - resident())
"""
"""Prints how many MiB the process gives back of those that it freed."""


@pytest.mark.skipif(_of_libc("mallinfo2") is None, reason="the C library is another")
def test_much_freed_memory_is_given_back_and_a_little_is_kept_for_the_next_part():
    much, little = (
        int(subprocess.run([sys.executable, "-c", _HELD, mebibytes], capture_output=True, check=True, text=True).stdout)
        for mebibytes in ("256", "24")
    )
    assert much > 128
    assert little < 8
