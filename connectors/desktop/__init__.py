"""Connectors for desktop logs: recorded runs of computer-use agents and of people, with accessibility trees."""
