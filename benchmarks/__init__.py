"""Measuring speed and memory, on logs that are generated fresh."""

import trajmill.pipelines  # noqa: F401 - before Arrow, so that memory is allocated as the command does it
