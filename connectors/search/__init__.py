"""Logs of agents that search the web, an encyclopedia or a memory."""
