"""Worlds that can be asked again: actions run anew in a box, simulated rows held against the world, a served model."""
