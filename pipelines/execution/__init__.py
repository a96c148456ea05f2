"""How stages are executed: a local process pool, Beam's FnApiRunner, Flink and Dataflow."""
