"""Worlds that can be queried again: actions replayed in a sandbox, drift of simulated rows, a served world model."""
