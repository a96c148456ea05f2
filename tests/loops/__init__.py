"""Agents of trainers live in a served world, each by its own package."""
