"""Files beside the shards for their users: the card and the diversity; and a check that the shards load."""
