"""Comparison of simulated rows with the world's: pairs, figures, and signs of Goodhart's law."""
