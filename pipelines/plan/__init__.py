"""The plan stage: the raw files that are logs, their formats, and the part of the work in which each is read."""
