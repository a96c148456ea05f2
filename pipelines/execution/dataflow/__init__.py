"""Dataflow as an engine: the options of its jobs, and their limits of cost."""
