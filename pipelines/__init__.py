"""Everything that knows Beam or a file system: plan, stages, exchange, mixtures, rendering, sinks, command line."""

import os

# Read when pyarrow is loaded, hence here. Arrow's own allocator reserves a gigabyte before it holds anything, and keeps
# the addresses of all that it ever gave back: a limit on data (`ulimit -d`) counts both.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

# Read when numpy is loaded: by itself its algebra starts a thread a core, which spins for as long as the rest of the
# import takes. What is solved here is small, and one thread gives the same figures on any number of cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
