"""Logs of software engineering agents: issues in repositories, patches, and their evaluation."""
