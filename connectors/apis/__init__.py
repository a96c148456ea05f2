"""Formats of exchanges between programs and language model APIs: chat messages and traces."""
