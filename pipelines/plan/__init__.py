"""Stage 1, plan: which of the raw files are logs, of which format, and in which part of the work each is read."""
