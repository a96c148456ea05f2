"""Shared parts of all pages about a run's folder or a raw log: lazy readers, and the HTML parts made from them. No
HTTP.
"""
