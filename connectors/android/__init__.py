"""Logs of Android devices and of agents that use such devices."""
