"""Flink: its jars, downloaded by their coordinates, and a cluster of processes on this machine."""
