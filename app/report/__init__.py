"""The page that a run leaves behind, and what two runs have done otherwise: numbers, charts of them, and examples."""
