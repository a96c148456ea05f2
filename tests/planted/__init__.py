"""Planted truth: a real shell and a real MCP server are driven through known steps while they are recorded.

`shell_truth` and `mcp_truth` say what is done and what it shows; `record_shell` and `record_mcp` do it and record it in
every form that is read; `planted_atif` writes the same steps as an agent would. `test_planted_*` normalize all of it
and compare with the truth, and with what a form cannot hold. Nothing here uses the code under test to say what is true.
"""
