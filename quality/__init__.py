"""Signals, duplicates, contamination and scrubbing of transitions: pure functions without input or output."""
