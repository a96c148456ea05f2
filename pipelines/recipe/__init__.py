"""Recipes: what a run makes of raw logs, as values that are checked whole before anything is read.

The lowest room: it knows neither Beam nor a file of a run.
"""
