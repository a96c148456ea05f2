"""Generations: the results of earlier runs into a folder, and how a new run follows them."""
