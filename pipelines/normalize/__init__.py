"""The normalize stage: the logs of a part become scrubbed transitions and rejects."""
