"""Formats of exchanges with language model APIs: chat messages and traces."""
