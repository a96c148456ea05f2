"""Dataflow as an engine: what its jobs are told, and what they may cost."""
