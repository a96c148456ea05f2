"""Replay of logged actions: boxes, sessions in them, comparison of answers, databases."""
