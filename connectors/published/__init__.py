"""Formats of published trajectories: tables of rows, the Agent Data Protocol, AgentWorldBench."""
