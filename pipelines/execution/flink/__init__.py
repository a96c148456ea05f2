"""Flink: its jars, gathered by coordinates, and a cluster of processes on this machine."""
