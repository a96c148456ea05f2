"""Worlds that can be asked again: what a log's actions lead to when they are run anew, in a box."""
