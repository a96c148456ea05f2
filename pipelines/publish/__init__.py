"""Files beside the shards for those who take them: the card and the diversity; and a check that the shards load."""
