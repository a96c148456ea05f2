"""Comparison of simulated rows with real ones: pairs, figures, and signs of Goodhart's law."""
