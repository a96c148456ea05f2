"""Scripts that run in the environment of a consumer, each alone: `python -P SCRIPT form tokenizer written samples`.

`-P`, since some have the name of what they import.
"""
