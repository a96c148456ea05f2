"""Everything that knows Beam or a file system: plan, stages, exchange, mixtures, rendering, sinks, command line."""

import os

# Read when pyarrow is loaded, hence here. Arrow's own allocator reserves a gigabyte before it holds anything, and keeps
# the addresses of all that it ever gave back: a limit on data (`ulimit -d`) counts both.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
