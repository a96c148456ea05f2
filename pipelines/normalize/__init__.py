"""Stage 2, normalize: the logs of a part become scrubbed transitions, and rejects where they do not."""
