"""Worlds that can be asked again: a world model served behind the renderer that made its training data."""
