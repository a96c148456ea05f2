"""Runs of benchmarks of tool use, and logs of a harness that runs many benchmarks."""
