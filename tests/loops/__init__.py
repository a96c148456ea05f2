"""Agents of trainers live in a served world, each by its own package: what they did and saw is what the world logged."""
