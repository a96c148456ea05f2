"""Synthesis: what language models add to a finished run, reasoning and simulation instructions, marked as theirs."""
