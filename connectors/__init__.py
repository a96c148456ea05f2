"""Connectors from raw bytes to trajectories: one module per format, grouped by the origin of the logs."""
