"""Generations: what earlier runs into the same folder left, and how a new one follows them."""
