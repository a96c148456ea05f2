"""Recipes: the settings of a run, validated in full before any input is read.

This package depends on neither Beam nor the files of a run.
"""
