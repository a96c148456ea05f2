"""Planted truth: a real shell was driven through known steps while it was recorded in every form that is read.

`samples.makers.shell_truth` says what is done and what it shows, `samples.makers.record_shell` did it, `planted_atif`
writes the same steps as an agent would. Nothing here uses the code under test to say what is true.
"""
