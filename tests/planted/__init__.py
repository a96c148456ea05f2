"""Planted truth: a real shell is driven through known steps while it is recorded in every form that is read.

`shell_truth` says what is done and what it shows, `record_shell` does it, `planted_atif` writes the same steps as an
agent would. Nothing here uses the code under test to say what is true.
"""
