"""Formats in which trajectories are published: tables of rows, the Agent Data Protocol, AgentWorldBench."""
