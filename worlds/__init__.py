"""Worlds that can be queried again: actions replayed in a sandbox, simulated rows compared with real ones, a served
world model.
"""
