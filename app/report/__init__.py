"""Report page of a run and comparison of two runs: numbers, charts and examples."""
