"""Simulated rows held against the world's: pairs, figures, and Goodhart's signs."""
