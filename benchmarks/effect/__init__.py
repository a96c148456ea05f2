"""Proof of effect: whether what a recipe does to a corpus teaches a small world model more."""
