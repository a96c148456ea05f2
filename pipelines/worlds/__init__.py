"""Worlds that can be asked again: what simulated rows are held against, and how far they part from it."""
