"""Forms of a finished run's shards that trainers read without code between, with the loss that the spans mean."""
