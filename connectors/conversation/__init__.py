"""Conversations of agents, users, harnesses and tools: a common model, and their conversion to steps."""
