"""Reasoning and simulation instructions that language models add to a finished run, marked as synthesized."""
