"""Whether trainers train what was meant: each reads our shards with its own code, in an environment of its own."""
