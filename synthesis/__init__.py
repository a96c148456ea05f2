"""Additions of language models to a finished run, marked as theirs: reasoning and simulation instructions."""
