"""Execution of stages: a local process pool, Beam's FnApiRunner, Flink and Dataflow."""
