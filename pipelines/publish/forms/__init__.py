"""Export forms: a finished run's shards in the layouts of other trainers, with the loss of their spans."""
